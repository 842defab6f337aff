#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Clients that are never idle, and do not fit on the card together, have it in turn."""

import re

import harness
import mps
import oversubscribed
from harness import contains, equal, wait_for

SOON = {"MPS_OVERSUBSCRIBE_STAY": "1"}


def busy(service, mib, seconds, *more):
    return service.popen(oversubscribed.PROGRAM, str(mib), *oversubscribed.SPARSELY, "--seconds",
                         str(seconds), *more)


def moves(service, client):
    """How often the memory of a client that has ended has left, by the log."""
    service.wait_for_log("Client process %d disconnected" % client.pid)
    found = re.search(r"PID: %d, Context ID: \d+}: its memory was evicted (\d+) times" % client.pid,
                      service.server_log())
    return int(found[1]) if found else 0


def test_in_turn():
    """Each gets its turns, and computes what it computes alone."""
    with oversubscribed.service(SOON) as (service, small):
        clients = [busy(service, oversubscribed.LARGE_MIB, 4) for _ in range(2)]
        for client in clients:
            code, out, err = service.finish(client)
            equal(code, 0, out + err)
        contains(service.server_log(), "they take turns, and each stays for 1 s at least")
        numbers = [moves(service, client) for client in clients]
        assert min(numbers) > 0, numbers


def test_kernel_that_does_not_end():
    """It keeps its memory, and the log names its client. Whoever waits learns of the server's end."""
    with oversubscribed.service({**SOON, "MPS_GRACE_MS": "500"}) as (service, _):
        stuck = service.popen("stuck", "kernel", "40")
        equal(stuck.stdout.readline(), "stuck: running\n")
        large = oversubscribed.Worker(service, 40, waits=False)
        wait_for("the log to name the client", lambda: re.search(
            r"Client \{PID: %d, Context ID: \d+\} has to stop for another one, and stays on device 0"
            % stuck.pid, service.server_log()), 30 * mps.SLOW)
        wait_for("JSON to say why", lambda: "its work does not end" in [
            row["stays"] for row in service.counters() if row["pid"] == stuck.pid])
        equal((stuck.poll(), large.process.poll()), (None, None))
        stuck.kill()
        large.process.stdin.close()
        large.process.stdin = None
        assert service.finish(large.process)[0] != 0


if __name__ == "__main__":
    harness.main(globals())
