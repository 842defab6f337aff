#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 100 s
"""Limits of a GPU that one client raises for all: bounded, and lowered when not needed."""

import subprocess

import harness
import mps
import terminations
from harness import contains, equal, settled, wait_for
from session import Asker

STACK, PRINTF, HEAP = 0, 1, 2
MIB = 1 << 20
OUT_OF_MEMORY = 2
SETTINGS = {"SOFTGPU_MEMORY_MIB": "4096"}


class Client(Asker):
    """A client that raises limits."""

    def __init__(self, service):
        super().__init__(service)
        equal(self.ask("device_open")[0], 0)

    def limit(self, limit, value):
        """The result of raising a limit to `value'."""
        return self.ask("limit_raise", limit=limit, value=value)[0]

    def free_mib(self):
        result, answer = self.ask("memory_info")
        equal(result, 0)
        return answer["free"] // MIB


def test_bounds():
    """A request beyond the maximum is refused with the reason, and takes no memory."""
    with mps.Service(SETTINGS) as service:
        with Client(service) as client:
            before = client.free_mib()
            equal(client.limit(PRINTF, 64 << 30), OUT_OF_MEMORY)
            equal(client.limit(HEAP, 100 << 30), OUT_OF_MEMORY)
            equal(client.limit(PRINTF, 64 * MIB + 1), OUT_OF_MEMORY)
            equal(client.limit(HEAP, 1024 * MIB + 1), OUT_OF_MEMORY)
            equal(client.free_mib(), before)
            service.wait_for_log("as all clients share it")
            equal(service.server_log().count("as all clients share it"), 1)
            equal(client.limit(PRINTF, 64 * MIB), 0)
            equal(client.limit(HEAP, 1024 * MIB), 0)
            assert client.free_mib() < before - 1000, client.free_mib()
        # Through the library, which logs the reason.
        code, out, err = service.run("limits_refused")
        equal(code, 0, out + err)
        contains(out, "limits_refused: ok")
        contains(err, "cannot grow to 2147483648 bytes: all clients share it, and a client may "
                      "request at most 1024 MiB")


def test_lowered_at_the_end():
    """The memory is freed when the client has left, and the stack has its first size."""
    with mps.Service(SETTINGS) as service:
        with Client(service) as client:
            before = client.free_mib()
            equal(client.limit(STACK, 16 << 10), 0)
            equal(client.limit(PRINTF, 64 * MIB), 0)
            equal(client.limit(HEAP, 512 * MIB), 0)
            assert client.free_mib() < before - 490, client.free_mib()
        with Client(service) as client:
            wait_for("the memory to be back", lambda: client.free_mib() == before, 10 * mps.SLOW)
            service.wait_for_log("Lowered the stack of a thread of device 0 to 1024 bytes")
            service.wait_for_log("Lowered the heap of device 0 to 67108864 bytes")
        service.run_ok("limits")
        service.run_ok("limits")


def test_largest_of_the_live_clients():
    with mps.Service(SETTINGS) as service:
        with Client(service) as looker, Client(service) as first:
            before = looker.free_mib()
            equal(first.limit(HEAP, 256 * MIB), 0)
            with Client(service) as second:
                equal(second.limit(HEAP, 768 * MIB), 0)
                # No more than the existing size: it counts as a request nevertheless.
                equal(first.limit(HEAP, 512 * MIB), 0)
                equal(before - looker.free_mib(), 768 - 64)
            wait_for("the heap to be smaller", lambda: before - looker.free_mib() == 512 - 64,
                     10 * mps.SLOW)
            first.__exit__()
            wait_for("the heap to be as at first", lambda: looker.free_mib() == before,
                     10 * mps.SLOW)


def with_graphs(way, may_lower):
    """A program that has graphs from when the stack was large, beside clients with a large stack."""
    with mps.Service(SETTINGS) as service:
        program = service.popen("graph_stack", way, stdin=subprocess.PIPE)

        def step(name):
            equal(program.stdout.readline(), name + "\n")

        def proceed():
            program.stdin.write("\n")
            program.stdin.flush()

        step("opened")
        with Client(service) as tall:
            equal(tall.limit(STACK, 16 << 10), 0)
            proceed()
            step("made")
        wait_for("the client to be gone", lambda: len(service.clients()) == 1, 10 * mps.SLOW)
        if may_lower:
            service.wait_for_log("Lowered the stack of a thread of device 0 to 1024 bytes")
        else:
            log = settled(service.server_log)
            assert "Lowered" not in log, log
        proceed()
        step("again")
        proceed()
        step("ended")
        service.wait_for_log("Lowered the stack of a thread of device 0 to 1024 bytes")
        proceed()
        code, out, err = service.finish(program)
        equal((code, out), (0, "graph_stack: ok\n"), err)


def test_a_graph_keeps_the_stack():
    """Launched after the stack was lowered, the graph would end the context."""
    with_graphs("graph", False)


def test_launch_batches_do_not():
    """When their client is idle, the server makes its own graphs anew."""
    with_graphs("bursts", True)


def test_work_is_not_delayed():
    """A change of the stack waits for kernels: the stack stays while any kernel runs."""
    with mps.Service(dict(SETTINGS, SOFTGPU_LAUNCH_US="20000")) as service:
        with Client(service) as client:
            equal(client.limit(STACK, 16 << 10), 0)
            worker = terminations.running(service, "stuck", "busy")
        wait_for("the client to be gone", lambda: len(service.clients()) == 1, 10 * mps.SLOW)
        log = settled(service.server_log)
        assert "Lowered" not in log, log
        equal(worker.poll(), None)
        worker.kill()
        service.wait_for_log("Lowered the stack of a thread of device 0 to 1024 bytes")


if __name__ == "__main__":
    harness.main(globals())
