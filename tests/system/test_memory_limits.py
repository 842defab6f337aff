#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""A client's memory limit on a GPU: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT and groups."""

import re
import subprocess

import harness
import mps
import session
import wire
from harness import contains, equal, wait_for

MIB = 1024  # KiB
SETTINGS = {"SOFTGPU_MEMORY_MIB": "1024"}
LIMIT = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=64M"}
OUT_OF_MEMORY = 2
REACHED = "this program has reached its limit of a GPU's memory (64 MiB): free memory, or raise"


def numbers(text, what):
    """The program's output lines that begin so, as tuples."""
    return [tuple(map(int, re.findall(r"\d+", line.partition(": ")[2])))
            for line in text.splitlines() if line.startswith(what + ": ")]


def run(service, way, kib, env):
    code, out, err = service.run("limited_memory", way, str(kib), env=env)
    equal(code, 0, out + err)
    contains(out, "limited_memory: ok")
    return out, err


def holds(service, way, kib, least):
    """This way gets at most the limit, at least so many MiB, and the same again after the free."""
    out, err = run(service, way, kib, LIMIT)
    equal(err.count(REACHED), 1, err)
    for got, result in numbers(out, way):
        equal(result, OUT_OF_MEMORY, out)
        assert least * MIB <= got <= 64 * MIB, out
    equal(len(numbers(out, way)), 2)
    for free, total, device in numbers(out, "at first") + numbers(out, "in the end"):
        equal((free, total, device), (64 * MIB,) * 3, out)
    for free, total, _ in numbers(out, "full"):
        equal(total, 64 * MIB, out)
        assert free <= (64 - least) * MIB, out


def test_each_way():
    with mps.Service(SETTINGS) as service:
        for way, kib, least in (("plain", 1, 60), ("plain", 100, 60), ("plain", 64 * MIB, 64),
                                ("pitch", 512, 60), ("async", 16, 60), ("async", 3 * MIB, 56),
                                ("pool", 700, 60), ("create", 2 * MIB, 64), ("array", 512, 60),
                                ("array_3d", 1024, 60), ("mipmap", 512, 58), ("graph", 300, 60),
                                ("managed", 4 * MIB, 64), ("managed", 10, 60),
                                ("managed_pool", 700, 60), ("any_pool", 4 * MIB, 56),
                                ("variable", 1024, 64), ("kernel", 3 * MIB, 63)):
            holds(service, way, kib, least)


def totals(service, env):
    """The memory of its first GPU that a client sees, in KiB, and its log lines about its limit."""
    out, err = run(service, "plain", 600 * MIB, env)
    return numbers(out, "at first")[0][1:], err


def test_entries():
    """GPUs are named as the client sees them; an invalid name is reported, and the others hold."""
    with mps.Service(dict(SETTINGS, SOFTGPU_DEVICES="2")) as service:
        uuids = [wire_uuid(service, i) for i in range(2)]

        def limited(value, **more):
            return totals(service, dict(more, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=value))

        equal(limited("0=64M")[0], (64 * MIB,) * 2)
        equal(limited("1=64M")[0], (1024 * MIB,) * 2)
        equal(limited("0=64M", CUDA_VISIBLE_DEVICES="1")[0], (64 * MIB,) * 2)
        equal(limited(uuids[0] + "=48MB,1=64M")[0], (48 * MIB,) * 2)
        equal(limited(uuids[1] + "=48MB,0=64M", CUDA_VISIBLE_DEVICES="1")[0], (48 * MIB,) * 2)
        equal(limited("0=2G")[0], (1024 * MIB,) * 2)
        told, err = limited("7=1M,0=64M,5=nonsense")
        equal(told, (64 * MIB,) * 2)
        contains(err, '"7=1M" is ignored: this process sees no such GPU (it sees 2)')
        contains(err, '"5=nonsense" is ignored: the size must be')
        told, err = limited("1=1M,0=64M", CUDA_VISIBLE_DEVICES="0")
        equal(told, (64 * MIB,) * 2)
        contains(err, '"1=1M" is ignored: this process sees no such GPU (it sees 1)')


def wire_uuid(service, ordinal):
    """The limit of a GPU in the server's log."""
    run(service, "plain", 600 * MIB, {"CUDA_VISIBLE_DEVICES": str(ordinal)})
    return re.findall(r"\(uuid (GPU-[0-9a-f-]+)\) is associated", service.server_log())[-1]


def test_limits_are_per_client():
    """A client at its limit takes nothing from another's limit, nor from a client without one."""
    with mps.Service(SETTINGS) as service:
        first = service.popen("limited_memory", "hold", str(64 * MIB), env=LIMIT,
                              stdin=subprocess.PIPE)
        equal(first.stdout.readline().split()[0], "at")
        equal(first.stdout.readline(), "hold: 0\n")
        holds(service, "plain", 64 * MIB, 64)
        out, err = run(service, "plain", 64 * MIB, {})
        equal(err, "")
        got, result = numbers(out, "plain")[0]
        equal(result, OUT_OF_MEMORY)
        assert got > 800 * MIB, out
        equal(service.finish(first)[0], 0)


def test_memory_of_another_process():
    """It counts for its owner, and not for a client that has opened it."""
    with mps.Service(SETTINGS) as service:
        owner = service.popen("limited_memory", "share", str(48 * MIB), env=LIMIT,
                              stdin=subprocess.PIPE)
        equal(owner.stdout.readline().split()[0], "at")
        handle = owner.stdout.readline().split()[1]
        equal(numbers(owner.stdout.readline(), "share"), [(16 * MIB, 64 * MIB, 64 * MIB)])
        code, out, err = service.run("limited_memory", "plain", str(4 * MIB), handle, env=LIMIT)
        equal(code, 0, out + err)
        equal(numbers(out, "opened"), [(64 * MIB,) * 3])
        equal(numbers(out, "plain"), [(64 * MIB, OUT_OF_MEMORY)] * 2)
        equal(service.finish(owner)[0], 0)


def test_exported_memory():
    """A descriptor may keep memory after its owner's last call, so this counts to the owner's end."""
    with mps.Service(SETTINGS) as service:
        for _ in range(2):
            out, _ = run(service, "export", 8 * MIB, LIMIT)
            equal(numbers(out, "export"), [(64 * MIB, OUT_OF_MEMORY), (0, OUT_OF_MEMORY)])
            equal(numbers(out, "full") + numbers(out, "in the end"),
                  [(0, 64 * MIB, 64 * MIB)] * 3)
        # Without a limit, the GPU's memory is what counts.
        out, _ = run(service, "export", 64 * MIB, {})
        (first, _), (second, _) = numbers(out, "export")
        assert first == second > 800 * MIB, out
        equal(numbers(out, "in the end"), numbers(out, "at first"))


def test_memory_that_outlives_its_owner():
    """What a group's member has opened by IPC counts for the group, also after the owner's end."""
    piece = 16 << 20
    group = {"group": wire.variable(b"jobs")}
    with mps.Service(SETTINGS) as service:
        service.command("group", "create", "jobs", "-device_pinned_mem_limit", "0", "64M")
        with session.Asker(service, **group) as keeper:
            equal(keeper.ask("device_open")[0], 0)
            kept = 0
            for _ in range(3):
                with session.Asker(service, **group) as owner:
                    equal(owner.ask("device_open")[0], 0)
                    while (made := owner.ask("memory_alloc", size=piece))[0] == 0:
                        shared = owner.ask("ipc_memory_export", address=made[1]["address"],
                                           size=piece)
                        equal(shared[0], 0)
                        equal(keeper.ask("ipc_memory_open", token=shared[1]["token"])[0], 0)
                        kept += piece
                    equal(made[0], OUT_OF_MEMORY)
                    equal(kept, 64 << 20)
                wait_for("the owner's end", lambda: len(service.clients()) == 1)


def test_memory_with_a_descriptor():
    """It stays charged, even if its only descriptor is closed and it is freed."""
    with mps.Service(SETTINGS) as service:
        equal(service.run("dma_buf", "again", env=LIMIT)[:2], (0, "0 2\ndma_buf: ok\n"))
        equal(service.run("dma_buf", "again")[:2], (0, "0 0\ndma_buf: ok\n"))


def test_pinned_memory_is_not_counted():
    with mps.Service(SETTINGS) as service:
        for way in "host", "host_pool":
            out, _ = run(service, way, 16 * MIB, LIMIT)
            equal(numbers(out, way)[0], (1024 * MIB, 0), out)


if __name__ == "__main__":
    harness.main(globals())
