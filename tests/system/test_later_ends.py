#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
# mostly waits
"""What a program gave up while it was in use ends with that use, though the program makes no more
calls."""

import subprocess
import time

import harness
import mps
from harness import equal, wait_for

SIZE = 200 << 20
STREAMS = 8


def gives_up(service, what):
    process = service.popen("later_ends", what, stdin=subprocess.PIPE)
    equal(process.stdout.readline(), "later_ends: waiting\n")
    return process


def end_use(process):
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for_thread(process):
    """The client's thread ends when nothing more can end."""
    wait_for("the end of the client's thread", lambda: mps.thread_count(process.pid) == 1, 10)


def check_memory(what):
    with mps.Service() as service:
        service.run_ok("process1")
        process = gives_up(service, what)
        server = service.server()
        time.sleep(0.5)
        before = service.stats(server)["device_bytes"]
        assert before >= SIZE, before
        end_use(process)
        wait_for("the end of the memory",
                 lambda: service.stats(server)["device_bytes"] <= before - SIZE, 10)
        wait_for_thread(process)
        equal(service.finish(process)[:2], (0, ""))


def test_memory_freed_in_the_order_of_a_stream():
    check_memory("memory")


def test_memory_of_a_destroyed_pool():
    check_memory("pool")


def test_memory_that_another_process_has_open():
    check_memory("shared")


def test_streams():
    """The server gives the streams to the next client."""
    with mps.Service() as service:
        service.run_ok("process1")
        first = gives_up(service, "streams")
        server = service.server()
        time.sleep(0.5)
        before = service.stats(server)["streams"]
        equal(mps.thread_count(first.pid), 2)
        end_use(first)
        wait_for_thread(first)
        second = gives_up(service, "streams")
        assert service.stats(server)["streams"] < before + STREAMS, (before, service.stats(server))
        end_use(second)
        for process in (first, second):
            equal(service.finish(process)[:2], (0, ""))


if __name__ == "__main__":
    harness.main(globals())
