#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""The cost of clients: equal images, and memory between allocations."""

import os
import re
import subprocess

import harness
import mps
from harness import contains, equal, settled, wait_for
from test_kill import gives_back, settle

IMAGE_MIB = 8
TRACE = os.path.join(harness.ROOT, "tests", "traces", "pytorch_training.txt")
# The memory that the server may hold of a GPU for the trace, relative to the trace's peak.
HELD_MAX = 1.35
STOPS = 24
# Free blocks that a program keeps (docs/compat/memory.md).
KEPT = 32 << 20


def start(service, name, *args):
    """A program that pauses until it reads a line."""
    process = subprocess.Popen(
        [mps.program(name), *map(str, args)], env=service.client_env(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    service.started.append(process)
    return process


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


# ---- images


def images(server):
    """Resident KiB of a server's images, and its share, without the driver's translations."""
    with open("/proc/%d/smaps" % server, encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"/memfd:mps-image .*\n(?:\w+:.*\n)*?Rss:\s+(\d+) kB\nPss:\s+(\d+)", text)
    return sum(int(rss) for rss, _ in found), sum(int(pss) for _, pss in found)


def load(service, number):
    process = start(service, "large_image", IMAGE_MIB, number)
    equal(process.stdout.readline(), "large_image: loaded\n")
    return process


def test_equal_images():
    """Of six clients, four have one image and two another: the server has each once."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        equal(images(server), (0, 0))
        running = [load(service, 1)]
        one, _ = images(server)
        assert IMAGE_MIB << 10 <= one < (IMAGE_MIB << 10) + 64, one
        running += [load(service, 1) for _ in range(3)]
        # No other process has the bytes any more, so that the server's share is all of them.
        equal(images(server), (one, one))
        running += [load(service, 2) for _ in range(2)]
        equal(images(server), (2 * one, 2 * one))
        # The client that brought an image ends, killed or not: the image stays for the others.
        running.pop(0).kill()
        for process in running[2:]:
            go_on(process)
            contains(process.communicate(timeout=30)[0], "large_image: ok")
        wait_for("three to be gone", lambda: len(service.clients(server)) == 2)
        wait_for("the second image to go", lambda: images(server) == (one, one))
        for process in running[:2]:
            go_on(process)
            contains(process.communicate(timeout=30)[0], "large_image: ok")
        wait_for("the first to go", lambda: images(server) == (0, 0))
        gives_back(service, server, before)


# ---- memory


def replay(how):
    """The trace's peak in bytes, and the server's peak for it; and what was left."""
    with mps.Service({"SOFTGPU_MEMORY_MIB": "2048"}) as service:
        service.run_ok("process1")
        server = service.server()
        before = settled(lambda: service.stats(server)["device_bytes"])

        def held():
            return service.stats(server)["device_bytes"] - before

        process = start(service, "alloc_trace", TRACE, how, STOPS)
        live_most = held_most = 0
        for line in iter(process.stdout.readline, "alloc_trace: ok\n"):
            contains(line, "live=")
            live_most = max(live_most, int(line[5:]))
            left = settled(held, 0.1, 2)
            held_most = max(held_most, left)
            go_on(process)
        equal(process.wait(20), 0)
        wait_for("all of it to be back", lambda: held() == 0)
        return live_most, held_most, left


def fits(how, live_most):
    """It runs on a GPU with only that memory, and the server's own."""
    mib = int(HELD_MAX * live_most) >> 20
    with mps.Service({"SOFTGPU_MEMORY_MIB": str(mib)}) as service:
        service.run_ok("alloc_trace", TRACE, how)


def test_trace_plain():
    """Every tensor of a training is a separate cuMemAlloc(), as without a caching allocator."""
    live, held, left = replay("plain")
    assert held <= HELD_MAX * live, (held, live)
    assert left <= KEPT, left
    fits("plain", live)


def test_trace_in_a_stream():
    """The same with cuMemAllocAsync()."""
    live, held, left = replay("async")
    assert held <= HELD_MAX * live, (held, live)
    equal(left, 0)
    fits("async", live)


if __name__ == "__main__":
    harness.main(globals())
