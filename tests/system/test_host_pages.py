#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
# without sanitizers: a sanitizer maps terabytes
"""A client has mapped no pinned memory but what it has allocated: cores, locks, limits."""

import ctypes
import errno
import os
import re
import resource
import subprocess
import tempfile

import harness
import mps
import wire
from harness import Skip, contains, equal
from test_native import native_env

# More than a native program has.
MOST = 64 << 20
PAGES = 256
OUT_OF_MEMORY = 2
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14


def holds_pages(path):
    """The core has each page of the allocations."""
    with open(path, "rb") as file:
        text = file.read()
    for kind in (b"pinned", b"managed"):
        equal(sum(b"<%s page %d>\0" % (kind, i) in text for i in range(PAGES)), PAGES, kind)


def limit(kind, size):
    """For this process; RLIM_INFINITY: as far as it may."""
    most = resource.getrlimit(kind)[1]
    size = most if size == resource.RLIM_INFINITY else size
    resource.setrlimit(kind, (size, most))


def core_size(env, folder):
    """The size of the core that the program writes; -1: the machine keeps no cores in files."""
    done = subprocess.run([mps.program("host_pages"), "abort"], env=env, cwd=folder,
                          preexec_fn=lambda: limit(resource.RLIMIT_CORE, resource.RLIM_INFINITY),
                          capture_output=True, timeout=60 * mps.SLOW, check=False)
    equal(done.returncode, -6, done)
    cores = [os.path.join(folder, name) for name in os.listdir(folder)]
    if not cores:
        return -1
    equal(len(cores), 1)
    holds_pages(cores[0])
    size = os.path.getsize(cores[0])
    os.unlink(cores[0])
    return size


def test_core():
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        alone = core_size(native_env(), folder)
        if alone < 0:
            raise Skip("/proc/sys/kernel/core_pattern leads cores elsewhere")
        client = core_size(service.client_env(), folder)
        assert client < alone + MOST, (client, alone)


def waiting(env):
    """A program that has its memory and waits for a line."""
    process = subprocess.Popen([mps.program("host_pages"), "wait"], env=env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(process.stdout.readline(), "ready\n")
    return process


def end(process):
    equal(process.communicate("\n", timeout=60 * mps.SLOW)[0], "host_pages: ok\n")
    equal(process.returncode, 0)


def debugged_size(env, folder):
    process = waiting(env)
    done = subprocess.run(["gcore", "-o", folder + "/core", str(process.pid)], check=False,
                          capture_output=True, text=True, timeout=120)
    end(process)
    path = "%s/core.%d" % (folder, process.pid)
    if not os.path.exists(path):
        raise Skip("gcore: " + (done.stdout + done.stderr).strip()[-200:])
    holds_pages(path)
    return os.path.getsize(path)


def test_debugger():
    mps.need_program("gcore")
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        alone = debugged_size(native_env(), folder)
        client = debugged_size(service.client_env(), folder)
        assert client < alone + MOST, (client, alone)


def run(env, *args, before=None):
    done = subprocess.run([mps.program("host_pages"), *args], env=env, text=True, preexec_fn=before,
                          capture_output=True, timeout=60 * mps.SLOW, check=False)
    equal(done.returncode, 0, done)
    return done.stdout, done.stderr


def locked(env):
    out, err = run(env, "lock", before=lambda: limit(resource.RLIMIT_MEMLOCK,
                                                     resource.RLIM_INFINITY))
    if "mlockall: " in err:
        raise Skip(err.strip())
    equal(err, "")
    contains(out, "host_pages: ok")
    return int(re.search(r"VmLck:\s+(\d+) kB", out).group(1)) << 10


def test_lock():
    with mps.Service() as service:
        alone, client = locked(native_env()), locked(service.client_env())
        assert alone > 0 and client < alone + MOST, (client, alone)


def test_limits():
    """Pinned memory counts for RLIMIT_AS, and for RLIMIT_MEMLOCK if the program locks all."""
    with mps.Service() as service:
        env = service.client_env()

        def limit_addresses():
            limit(resource.RLIMIT_AS, 512 << 20)

        def limit_locks():
            limit(resource.RLIMIT_MEMLOCK, 512 << 20)
            # Root may lock any amount.
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)

        locks = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        cases = [("touch", limit_addresses, errno.ENOMEM)]
        if locks == resource.RLIM_INFINITY or locks >= 512 << 20:
            cases += [("lock", limit_locks, errno.EAGAIN)]
        for how, before, error in cases:
            out, err = run(env, how, before=before)
            contains(out, "host_pages: ok")
            equal(err, "")
            equal(run(env, how, "300", before=before), ("result: 0\n", ""))
            out, err = run(env, how, "600", before=before)
            equal(out, "result: %d\n" % OUT_OF_MEMORY)
            contains(err, "cannot map 629145600 bytes of pinned memory: " + os.strerror(error))


def mapped(pid):
    """The sizes of the process's mappings in the host space."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as file:
        found = re.findall(r"^(\w+)-(\w+) ", file.read(), re.M)
    return [int(end, 16) - int(start, 16) for start, end in found
            if wire.HOST_SPACE <= int(start, 16) < wire.HOST_SPACE_END]


def test_mappings():
    """Two chunks of 2 MiB, one of pinned and one of managed memory."""
    with mps.Service() as service:
        process = waiting(service.client_env())
        service.started.append(process)
        equal(mapped(process.pid), [2 << 20, 2 << 20])
        end(process)


def test_server():
    """The server maps whole regions, which are in no core of it."""
    with mps.Service() as service:
        process = waiting(service.client_env())
        service.started.append(process)
        with open("/proc/%d/smaps" % service.server(), encoding="utf-8") as file:
            found = re.findall(r"^(\w+)-\w+ (?:.*\n)*?VmFlags: (.*)$", file.read(), re.M)
        flags = [flags.split() for start, flags in found
                 if wire.HOST_SPACE <= int(start, 16) < wire.HOST_SPACE_END]
        equal(["dd" in of_one for of_one in flags], [True, True])
        end(process)


if __name__ == "__main__":
    harness.main(globals())
