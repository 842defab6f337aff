#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Clients that load code, begin and end beside a kernel that does not end: only they wait.

The driver waits for such a kernel with its lock held (server/schedule/quiet.h).
"""

import signal
import subprocess

import harness
import mps
import terminations
import test_trace
from harness import contains, equal, wait_for


def goes_on(service, process):
    """Waits until the client has launched more kernels."""
    def launches():
        return test_trace.clients(service)[process.pid]["launches"]

    before = launches()
    wait_for("launches", lambda: launches() > before + 100, 20 * mps.SLOW)


def start(service):
    """A client that launches all the time, and one with a kernel that waits for another one."""
    busy = terminations.running(service, "stuck", "busy")
    return busy, terminations.running(service, "await_kernel", stdin=subprocess.PIPE)


def release(service, waiting):
    """The client launches the kernel for which its first one waits."""
    waiting.stdin.write("\n")
    waiting.stdin.flush()
    code, out, err = service.finish(waiting)
    equal(code, 0, out + err)


def says_waits(service, process):
    wait_for("a line", lambda: [line for line in service.server_log().splitlines() if
                                "{PID: %d," % process.pid in line and
                                "waits until the work on the GPU ends" in line], 30 * mps.SLOW)


def test_loads_beside_a_kernel():
    with mps.Service() as service:
        busy, waiting = start(service)
        loader = service.popen("process1")
        says_waits(service, loader)
        goes_on(service, busy)
        equal(loader.poll(), None, "it did not wait")
        release(service, waiting)
        equal(service.finish(loader)[0], 0)
        goes_on(service, busy)


def test_ends_beside_a_kernel():
    """The server unpins memory, and unloads code, only after the kernel."""
    with mps.Service() as service:
        idle = service.popen_going_round("process2", 60)
        server = service.server()
        busy, waiting = start(service)
        idle.send_signal(signal.SIGKILL)
        idle.wait()
        says_waits(service, idle)
        goes_on(service, busy)
        release(service, waiting)
        wait_for("its end", lambda: idle.pid not in service.clients(server), 30 * mps.SLOW)
        goes_on(service, busy)


def test_killed_while_it_waits():
    with mps.Service() as service:
        busy, waiting = start(service)
        server = service.server()
        loader = service.popen("process1")
        says_waits(service, loader)
        loader.kill()
        loader.wait()
        goes_on(service, busy)
        release(service, waiting)
        wait_for("its end", lambda: loader.pid not in service.clients(server), 30 * mps.SLOW)
        contains(service.server_log(), "Client process %d disconnected" % loader.pid)
        service.run_ok("process1")
        equal(service.server(), server)


def test_many_load_beside_kernels_that_end():
    """Loads get their turn between the kernels of a client that always has some queued."""
    with mps.Service({"SOFTGPU_LAUNCH_US": "20000"}) as service:
        busy = terminations.running(service, "stuck", "busy")
        loaders = [service.popen("process1") for _ in range(6)]
        for loader in loaders:
            equal(service.finish(loader, 100)[0], 0)
        goes_on(service, busy)


if __name__ == "__main__":
    harness.main(globals())
