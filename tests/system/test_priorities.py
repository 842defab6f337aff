#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Priorities: which one a client gets, programs work with each, and background clients leave SMs to others."""

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


def sms_of(out):
    """{way: number of SMs} of the lines of smids: "plain: 0-7,16-23"."""
    found = {}
    for way, ranges in re.findall(r"^(?:smids: )?(\w+): ([\d,-]+)$", out, re.M):
        ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
        found[way] = sum(end[-1] - end[0] + 1 for end in ends)
    return found


def background(service, *arguments):
    """The SMs that each way of launching used in the background."""
    return sms_of(service.run("smids", *arguments, env={"CUDA_MPS_CLIENT_PRIORITY": "2"})[1])


def yielded_s(service):
    """What background clients left to others, also those that have ended."""
    users = json.loads(service.command("stats", "--json").stdout)["users"]
    return sum(user["yielded_ns"] for user in users) / 1e9


def test_background_leaves_sms():
    """Beside work that never ends, it has a share of the SMs; without such work it has all SMs."""
    with mps.Service() as service:
        everything = sms_of(service.run_ok("smids")[0])
        def has_left_some():
            """Not at once if the other client's process did not run for some milliseconds."""
            found = background(service, "--fewer")
            # This launch fits nowhere else.
            equal(found["cooperative"], everything["cooperative"])
            return all(0 < found[way] < everything[way]
                       for way in ("plain", "stream", "burst", "graph", "captured"))

        for others_priority in "0", "1":
            other = service.popen("stuck", "busy",
                                  env={"CUDA_MPS_CLIENT_PRIORITY": others_priority})
            equal(other.stdout.readline(), "stuck: running\n")
            before = yielded_s(service)
            wait_for("a share of the SMs", has_left_some, 30)
            assert yielded_s(service) > before
            other.kill()
            service.finish(other)
        equal(background(service), everything)


def test_background_beside_background():
    """... and beside others in the background it has all SMs."""
    with mps.Service() as service:
        everything = sms_of(service.run_ok("smids")[0])
        other = service.popen("stuck", "busy", env={"CUDA_MPS_CLIENT_PRIORITY": "2"})
        equal(other.stdout.readline(), "stuck: running\n")
        equal(background(service), everything)
        other.kill()
        service.finish(other)
        equal(yielded_s(service), 0)


def shares(service):
    """(SMs of its share, SMs) of each client on a GPU, by its name."""
    rows = json.loads(service.command("ps", "-l", "--json").stdout)["clients"]
    return {row["command"].rpartition("/")[2]: (row["share_sms"], row["sms"]) for row in rows}


def test_seen():
    """The present share of a background client is seen; without such a client nothing is."""
    with mps.Service() as service:
        other = service.popen("stuck", "busy")
        equal(other.stdout.readline(), "stuck: running\n")
        equal(shares(service)["stuck"][0], None)
        client = service.popen("saturate", "--blocks", "16", "--turns", "300", "--seconds", "60",
                               env={"CUDA_MPS_CLIENT_PRIORITY": "2"})

        def has_share():
            share, sms = shares(service).get("saturate", (None, 0))
            return share is not None and 0 < share < sms
        wait_for("a share", has_share, 20)
        equal(shares(service)["stuck"][0], None)
        contains(service.command("metrics").stdout, "mps_gpu_background_sms{gpu=")
        contains(service.command("ps", "-l").stdout, "SHARE   SLOWDOWN")
        for process in client, other:
            process.kill()
            service.finish(process)


def test_end_beside_foreground():
    """A background client can be killed and terminated, and the server lets it go at once."""
    with mps.Service() as service:
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


def test_nonsense_settings():
    with mps.Service({"MPS_FOREGROUND_SLOWDOWN": "5%", "MPS_BACKGROUND_FLOOR": "0"}) as service:
        service.run_ok("process1")
        service.wait_for_log("MPS_FOREGROUND_SLOWDOWN=5% is not a number of percent from 1 to "
                             "1000: 5 is used")
        service.wait_for_log("MPS_BACKGROUND_FLOOR=0 is not a number of percent from 1 to 100: 10 "
                             "is used")


if __name__ == "__main__":
    harness.main(globals())
