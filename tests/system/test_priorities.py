#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Priorities: which one a client gets, programs work with each, and background clients are delayed."""

import json
import re
import time

import harness
import mps
from harness import contains, equal, wait_for


def run(service, name, value):
    code, out, err = service.run(name, env={"CUDA_MPS_CLIENT_PRIORITY": value})
    equal(code, 0, out + err)
    contains(out, "%s: ok" % name)
    return err


def told(service):
    """The priorities in the log, of clients that are not normal."""
    return re.findall(r"memory limit all, priority (-?\d+)$", service.server_log(), re.M)


def test_streams():
    """A stream has the priority that its program sets, within the reported range."""
    with mps.Service() as service:
        for value in (None, "", "0", "1", "2"):
            for name in ("stream_attributes", "stream_overlap"):
                equal(run(service, name, value), "")
        equal(told(service), ["1", "1", "2", "2"])


def test_first_client():
    """The first client of a server, which opens the GPU for it, has the same range as later ones."""
    for value, greatest in (("0", -2), ("1", -1), ("2", 0)):
        with mps.Service() as service:
            for _ in range(2):
                out, _ = service.run_ok("stream_attributes", "range",
                                        env={"CUDA_MPS_CLIENT_PRIORITY": value})
                contains(out, "stream_attributes: priorities 0 to %d\n" % greatest)


def test_nonsense():
    """It is reported to the program and to the operator, and ignored."""
    with mps.Service() as service:
        for value in ("3", "-1", "low", "1 "):
            contains(run(service, "stream_attributes", value),
                     "CUDA_MPS_CLIENT_PRIORITY=%s is ignored: the value must be 0 (normal)"
                     % value)
            service.wait_for_log('CUDA_MPS_CLIENT_PRIORITY="%s", which is ignored' % value)
        equal(told(service), [])


def saturate(service, priority):
    """How long it took, in seconds. Its kernels take milliseconds on the software GPU."""
    began = time.monotonic()
    service.run_ok("saturate", "--blocks", "16", "--turns", "300",
                   env={"CUDA_MPS_CLIENT_PRIORITY": priority})
    return time.monotonic() - began


def delayed_s(service):
    """For how long launches were delayed, also of clients that have ended."""
    users = json.loads(service.command("stats", "--json").stdout)["users"]
    return sum(user["delayed_ns"] for user in users) / 1e9


def test_background_is_delayed():
    """Beside work that never ends, its launches wait, each for a bounded time."""
    with mps.Service({"MPS_BACKGROUND_DELAY_US": "50000"}) as service:
        for others_priority in "0", "1":
            other = service.popen("stuck", "busy",
                                  env={"CUDA_MPS_CLIENT_PRIORITY": others_priority})
            equal(other.stdout.readline(), "stuck: running\n")
            before = delayed_s(service)
            took = saturate(service, "2")
            other.kill()
            service.finish(other)
            # Several of its 70 launches wait, for 50 ms each.
            delayed = delayed_s(service) - before
            assert 0.25 <= delayed <= took, (delayed, took)


def test_background_is_not_delayed():
    """... nor beside others in the background, nor if the operator does not want it."""
    for settings, others_priority in ({"MPS_BACKGROUND_DELAY_US": "1000000"}, "2"), (
            {"MPS_BACKGROUND_DELAY_US": "0"}, "0"):
        with mps.Service(settings) as service:
            other = service.popen("stuck", "busy",
                                  env={"CUDA_MPS_CLIENT_PRIORITY": others_priority})
            equal(other.stdout.readline(), "stuck: running\n")
            saturate(service, "2")
            other.kill()
            service.finish(other)
            equal(delayed_s(service), 0)


def test_end_while_delayed():
    """A client whose launch is delayed can be killed and terminated, and the server lets it go at once."""
    with mps.Service({"MPS_BACKGROUND_DELAY_US": "1000000"}) as service:
        other = service.popen("stuck", "busy")
        equal(other.stdout.readline(), "stuck: running\n")
        server = service.server()
        for end in (lambda process: process.kill(),
                    lambda process: service.command("terminate_client %s %d" % (server, process.pid))):
            client = service.popen("saturate", "--blocks", "16", "--turns", "300", "--seconds", "60",
                                 env={"CUDA_MPS_CLIENT_PRIORITY": "2"})
            wait_for("both clients", lambda: len(service.clients(server)) == 2, 20)
            time.sleep(0.3)
            end(client)
            service.finish(client)
            wait_for("it to be gone", lambda: len(service.clients(server)) == 1, 20)
        equal(service.servers(), [server])
        other.kill()
        service.finish(other)


def test_nonsense_delay():
    with mps.Service({"MPS_BACKGROUND_DELAY_US": "1ms"}) as service:
        service.run_ok("process1")
        service.wait_for_log("MPS_BACKGROUND_DELAY_US=1ms is not a number of microseconds from 0 to "
                             "1000000: 250 is used")


if __name__ == "__main__":
    harness.main(globals())
