#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Cgroups: the namespace of a client, and its limits of memory."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile

import harness
import oversubscribed
from harness import contains, equal, wait_for
from test_eviction import evictions
from test_operator import made_cgroup, processes_in
from test_soft_limits import Pool

MIB = 1 << 20
INNER = ("one", "two")


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
        pool.command("namespace", "set", "third", "--server=pool", "--cgroup=/sys/fs/cgroup", "--soft-limit=0")
        equal(pool.command("namespace", "get", "third", "pool", "cgroup").stdout, "/\n")
        equal(pool.command("namespace", "get", "third", "pool", "soft-limit").stdout, "0\n")
        equal(pool.command("namespace", "get", "small", "pool", "cgroup-depth").stdout, "3\n")


class Inside(oversubscribed.Oversize):
    """A copy of the program `oversize' in a cgroup."""

    def __init__(self, service, cgroup, directory, mib):
        self.service = service
        self.process = service.popen(
            "oversize", "plain", str(mib), "4096", stdin=subprocess.PIPE, preexec_fn=enter(cgroup),
            env={"CUDA_MPS_PIPE_DIRECTORY": "/".join((service.pipe, *directory.split()))})
        self.said = self.answer()


class Cgroups:
    """Cgroups `one' and `two' below another one, and a folder that has files of limits for them."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="mps-")
        os.chmod(self.root, 0o755)
        self.made = made_cgroup("mps-test-%d" % os.getpid())
        self.device = None

    def __enter__(self):
        self.path, self.name = self.made.__enter__()
        for inner in INNER:
            os.mkdir(os.path.join(self.path, inner))
            os.makedirs(self.folder(inner))
        return self

    def __exit__(self, *error):
        for inner in INNER:
            wait_for("the end", lambda path=os.path.join(self.path, inner): not processes_in(path))
            os.rmdir(os.path.join(self.path, inner))
        self.made.__exit__(*error)
        shutil.rmtree(self.root)

    def find_device(self, service):
        """... and with it begins the controller."""
        self.device = re.search(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0",
                                service.command("device", "list", "--format=csv").stdout)[0]
        self.write("/", dmem_capacity=64 * MIB)

    def folder(self, inner):
        return self.root if inner == "/" else os.path.join(self.root + self.name, inner)

    def write(self, inner, **limits):
        """As the kernel's files: a line for each GPU, a word for no limit."""
        for name, value in limits.items():
            with open(os.path.join(self.folder(inner), name.replace("_", ".")), "w", encoding="ascii") as file:
                file.write("nvidia/0000%s/vidmem %s\ndrm/0000:ff:00.0/vram0 4096\n" % (self.device, value))


class Limited(Pool):
    """A pool, and cgroups."""

    def __init__(self, *namespaces, **settings):
        self.cgroups = Cgroups()
        super().__init__(*namespaces, MPS_CGROUP_ROOT=self.cgroups.root, **settings)

    def __enter__(self):
        self.cgroups.__enter__()
        super().__enter__()
        self.cgroups.find_device(self.service)
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        self.cgroups.__exit__(*error)

    def write(self, inner, **limits):
        self.cgroups.write(inner, **limits)

    def inside(self, inner, directory, mib):
        return Inside(self.service, os.path.join(self.cgroups.path, inner), directory, mib)


def has(client):
    equal(client.said, "has")
    return client


def is_refused(client):
    contains(client.said, "CUDA_ERROR_OUT_OF_MEMORY")
    contains(client.service.finish(client.process)[2], "a cgroup of this program has reached its limit")


def soon(client, said):
    """The daemon reads limits again each second."""
    wait_for(said, lambda: client.ask("more") == said)


def test_memory_together():
    """dmem.max of a cgroup is the limit of all clients in it and below, of all namespaces and servers."""
    with Limited(("small", "--pinned-memory-limit=60M")) as pool:
        # Without a limit at its start, a client is not counted.
        free = has(pool.inside("one", "pool small", 4))
        equal(free.ask("free").split()[1], "60")
        # Each client has 2 MiB beside its pieces.
        pool.write("", dmem_max=46 * MIB)
        pool.write("one", dmem_max=30 * MIB, dmem_min=0)
        one = has(pool.inside("one", "pool small", 20))
        equal(one.ask("free"), "8 30")
        two = has(pool.inside("two", "pool", 12))
        equal(two.ask("free"), "10 46")
        own = has(pool.inside("two", "", 4))
        equal([one.ask("more"), two.ask("more"), own.ask("more")], ["took"] + ["CUDA_ERROR_OUT_OF_MEMORY"] * 2)
        is_refused(pool.inside("two", "pool", 4))
        # The next daemon knows who is in which cgroup.
        pool.service.restart_killed()
        equal([each.ask("more") for each in (one, two, own)], ["CUDA_ERROR_OUT_OF_MEMORY"] * 3)
        # The next server does, too.
        for server in pool.service.servers():
            contains(pool.command("restart_server", str(server)).stdout, "has moved its")
        equal([each.ask("more") for each in (one, two, own)], ["CUDA_ERROR_OUT_OF_MEMORY"] * 3)
        is_refused(pool.inside("two", "", 4))
        one.end()
        equal([own.ask("more"), two.ask("more")], ["took"] * 2)
        # What is free is either in the lease of the one server or in that of the other.
        last = has(pool.inside("one", "pool small", 8))
        is_refused(pool.inside("two", "", 12))
        pool.write("", dmem_max=60 * MIB)
        soon(own, "took")
        pool.write("", dmem_max=16 * MIB)
        soon(last, "CUDA_ERROR_OUT_OF_MEMORY")
        pool.write("", dmem_max="max")
        soon(two, "took")
        for each in free, two, own, last:
            equal(each.ask("work"), "worked")
            each.end()


def test_groups_of_cgroups_end():
    with Limited() as pool:
        pool.write("one", dmem_max=16 * MIB)
        one = has(pool.inside("one", "pool", 4))
        described = pool.command("memacct", "describe", "--format=csv").stdout
        contains(described, "pool,cgroup:%s/one,-," % pool.cgroups.name)
        contains(described, ",6M,unlimited,16M,0,0\n")
        one.end()
        wait_for("its end", lambda: "cgroup:" not in pool.command("memacct", "describe").stdout)
        equal(has(pool.inside("one", "pool", 12)).ask("more"), "CUDA_ERROR_OUT_OF_MEMORY")
        equal(sorted(os.listdir(pool.cgroups.folder("one"))), ["dmem.max"])


def test_soft_limits():
    """dmem.min is guaranteed, also against the limit of a cgroup above: what others in it have borrowed leaves."""
    with Limited(("small",)) as pool:
        pool.write("", dmem_max=48 * MIB, dmem_min=1)
        pool.write("one", dmem_max="max", dmem_min=30 * MIB)
        pool.write("two", dmem_max="max", dmem_min=16 * MIB)
        borrower = has(pool.inside("two", "pool", 40))
        equal(borrower.ask("free").split()[1], "48")
        # Somebody outside has no part in it.
        outside = pool.hold("default", 4)
        entitled = has(pool.inside("one", "pool small", 12))
        # What it may have at once, with what the borrower would give.
        equal(entitled.ask("free"), "16 48")
        equal([entitled.ask("more") for _ in range(3)], ["took"] * 3)
        assert evictions(pool.service) > 0
        # The borrower has to wait for room, and loses nothing.
        borrower.send("work")
        equal([entitled.ask("work"), outside.ask("work")], ["worked"] * 2)
        wait_for("its wait", lambda: "waits for space" in pool.service.server_log())
        entitled.end()
        equal([borrower.answer(), borrower.ask("work")], ["worked"] * 2)
        equal(borrower.ask("more"), "took")
        outside.end()
        borrower.end()


def test_room_in_another_server():
    """What left comes back when the clients of another server have ended, whose lease has the room."""
    with Limited() as pool:
        pool.write("", dmem_max=48 * MIB)
        pool.write("one", dmem_max="max", dmem_min=30 * MIB)
        pool.write("two", dmem_max="max", dmem_min=16 * MIB)
        borrower = has(pool.inside("two", "pool", 40))
        has(pool.inside("one", "pool", 12)).end()
        assert evictions(pool.service) > 0
        other = has(pool.inside("two", "", 8))
        borrower.send("work")
        wait_for("its wait", lambda: "waits for space" in pool.service.server_log())
        equal(other.ask("work"), "worked")
        other.end()
        equal([borrower.answer(), borrower.ask("work")], ["worked"] * 2)
        borrower.end()


@contextlib.contextmanager
def nested(cgroups, *names):
    """Further cgroups, each in the one before."""
    made = []
    try:
        for name in names:
            made.append("/".join((*made[-1:], name)))
            os.mkdir(os.path.join(cgroups.path, made[-1]))
            os.mkdir(cgroups.folder(made[-1]))
        yield made
    finally:
        for inner in reversed(made):
            path = os.path.join(cgroups.path, inner)
            wait_for("the end", lambda path=path: not processes_in(path))
            os.rmdir(path)


def test_too_many_levels():
    with Limited() as pool, nested(pool.cgroups, "x", "a b", "c", "d") as made:
        for inner in made:
            pool.write(inner, dmem_max=32 * MIB)
        one = has(pool.inside(made[-1], "pool", 4))
        described = pool.command("memacct", "describe", "--format=csv").stdout
        equal(len(re.findall(r"^pool,cgroup:", described, re.M)), 4)
        # A name with a space would be several words.
        equal(len(re.findall(r"^pool,cgroup:\d+,-,", described, re.M)), 3)
        one.end()
        pool.write("", dmem_max=48 * MIB)
        refused = pool.inside(made[-1], "pool", 4)
        contains(pool.service.finish(refused.process)[2], "more than 4 cgroups of its path have limits")
        has(pool.inside(made[-2], "pool", 4)).end()


if __name__ == "__main__":
    harness.main(globals())
