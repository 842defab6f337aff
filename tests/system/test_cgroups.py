#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Cgroups: the namespace of a client, and its limits of memory."""

import os
import re
import shutil
import tempfile

import harness
import mps
from harness import contains, equal
from test_eviction import Holder
from test_operator import made_cgroup
from test_soft_limits import Pool

MIB = 1 << 20


def enter(path):
    """A function for a child: it goes into the cgroup."""
    def function():
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")
    return function


def namespace_of(service, cgroup, *directory):
    """In which namespace a client of that cgroup is."""
    env = {"CUDA_MPS_PIPE_DIRECTORY": "/".join((service.pipe, *directory))}
    process = service.popen("process1", "--seconds", "20", env=env, preexec_fn=enter(cgroup))
    harness.wait_for("the client", lambda: "\n%d " % process.pid in service.command("ps").stdout)
    name = service.command("client", "get", str(process.pid), "maws-ns").stdout.split()[0]
    process.kill()
    service.finish(process)
    return name


def test_routes():
    """By the daemon's directory or the server's, the nearest cgroup above counts; another directory counts itself."""
    with made_cgroup("mps-test-%d" % os.getpid()) as (path, name), Pool(("small",), ("other",), ("deep",)) as pool:
        service, inner = pool.service, os.path.join(path, "inner")
        os.mkdir(inner)
        own = "uid_%d/default" % os.getuid()
        try:
            equal(namespace_of(service, path), own)
            pool.command("namespace", "set", "small", "--server=pool", "--cgroup=" + name)
            equal(pool.command("namespace", "get", "small", "pool", "cgroup").stdout, name + "\n")
            equal(namespace_of(service, path), "pool/small")
            equal(namespace_of(service, inner), "pool/small")
            equal(namespace_of(service, inner, "pool"), "pool/small")
            equal(namespace_of(service, inner, "pool", "other"), "pool/other")
            equal(namespace_of(service, os.path.dirname(path)), own)
            pool.command("namespace", "set", "small", "--server=pool", "--cgroup-depth=0")
            equal(namespace_of(service, inner, "pool"), "pool/default")
            pool.command("namespace", "set", "deep", "--server=pool", "--cgroup=%s/inner" % name)
            service.restart_killed()
            equal(namespace_of(service, path), "pool/small")
            equal(namespace_of(service, inner), "pool/deep")
            pool.command("namespace", "set", "small", "--server=pool", "--cgroup=none")
            equal(namespace_of(service, path), own)
        finally:
            os.rmdir(inner)


def test_wrong_routes():
    with Pool(("small",), ("other",)) as pool:
        pool.command("namespace", "set", "small", "--server=pool", "--cgroup=/job", "--cgroup-depth=3")
        for name, words, said in (
                ("other", ["--cgroup=/job"], "Clients of the cgroup /job come to the namespace pool/small"),
                ("other", ["--cgroup=job"], "is not the path of a cgroup"),
                ("other", ["--cgroup=/" + "x" * 255], "is not the path of a cgroup"),
                ("other", ["--cgroup-depth=-1"], "is not a number of levels"),
                ("other", ["--cgroup=/x", "--soft-limit=x"], "is not a size")):
            done = pool.command("namespace", "set", name, "--server=pool", *words, check=False)
            equal(done.returncode, 1, words)
            contains(done.stdout, said)
        equal(pool.command("namespace", "get", "other", "pool", "cgroup").stdout, "none\n")
        pool.command("namespace", "create", "third", "--server=pool", "--cgroup=/sys/fs/cgroup/third")
        equal(pool.command("namespace", "get", "third", "pool", "cgroup").stdout, "/third\n")
        equal(pool.command("namespace", "get", "small", "pool", "cgroup-depth").stdout, "3\n")


def write_limits(root, device, **limits):
    """As the kernel's files: a line for each GPU, a word for no limit."""
    for name, value in limits.items():
        with open(os.path.join(root, name.replace("_", ".")), "w", encoding="ascii") as file:
            file.write("nvidia/0000%s/vidmem %s\ndrm/0000:ff:00.0/vram0 4096\n" % (device, value))


def test_memory():
    """dmem.max is the hard limit of a client, dmem.min its soft limit: of its start."""
    root = tempfile.mkdtemp(prefix="mps-")
    with Pool(("small", "--pinned-memory-limit=60M"), MPS_CGROUP_ROOT=root) as pool:
        device = re.search(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0",
                           pool.command("device", "list", "--format=csv").stdout)[0]
        # Without the controller nothing is read.
        write_limits(root, device, dmem_max=32 * MIB)
        holder = pool.hold("small", 4)
        equal(holder.ask("free").split()[1], "60")
        write_limits(root, device, dmem_capacity=64 * MIB)
        other = pool.hold("small", 4)
        equal(other.ask("free").split()[1], "32")
        pool.is_refused("small", 36)
        write_limits(root, device, dmem_max="max", dmem_min=0)
        equal(other.ask("free").split()[1], "32")
        other.end()
        holder.end()
        holder = pool.hold("small", 44)
        pool.is_refused("default", 28)
        write_limits(root, device, dmem_min=28 * MIB)
        pool.is_refused("default", 32)
        holder.end()
        borrower = pool.hold("small", 44)
        equal(pool.hold("default", 26).ask("work"), "worked")
        equal(borrower.ask("free").split()[1], "60")
    shutil.rmtree(root)


if __name__ == "__main__":
    harness.main(globals())
