#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Means that make the service faster: with each and without, programs get the same results."""

import os

import harness
import mps
from harness import contains, equal

WORDS = ("helpers", "hold", "quiet", "spin", "turns")
UNKNOWN = ('The word "%s" in MPS_DISABLE is unknown and has no effect. '
           "The known words: client, dlopen, helpers, hold, place, quiet, registered, spin, turns")
# Each run has other seeds.
ROUNDS = "4000" if os.environ.get("MPS_TEST_LONG") else "1500"
# Of the programs at the same time; 2 is background.
PRIORITIES = ("0", "2", "2")


def run_at_random(settings, priorities=PRIORITIES):
    """Random orders of work, alone, beside others and in the background."""
    dice = harness.dice()
    with mps.Service(settings) as service:
        seeds = [str(dice.randrange(1 << 31)) for _ in range(1 + len(priorities))]
        service.run_ok("awaited", seeds[0], ROUNDS, env=settings)
        several = [service.popen("awaited", number, ROUNDS,
                                 env=dict(settings, CUDA_MPS_CLIENT_PRIORITY=priority))
                   for number, priority in zip(seeds[1:], priorities)]
        for number, process in zip(seeds[1:], several):
            code, out, err = service.finish(process)
            equal((code, out), (0, "awaited: ok\n"), "awaited %s with %s: %s" % (
                number, settings, err))
        log = service.server_log()
        assert "Printed by" not in log, "a kernel has printed"
        return log


def test_all_on():
    run_at_random({})


def test_all_off():
    run_at_random({"MPS_DISABLE": ",".join(WORDS)})


def test_each_off():
    for word in WORDS:
        run_at_random({"MPS_DISABLE": word})


def test_shares_change():
    """The share of the SMs of background clients changes at each launch."""
    log = run_at_random({"MPS_TEST": "shares", "MPS_SERVER_ENV": "MPS_TEST"})
    contains(log, "MPS_TEST=shares: the share of background clients changes at each launch")


def test_no_client():
    """MPS_DISABLE=client: the program uses the driver beside a daemon, and says nothing."""
    with mps.Service() as service:
        out, err = service.run_ok("process1", env={"MPS_DISABLE": "client"})
        equal((out, err), ("process1: ok\n", ""))
        equal(service.servers(), [])
        service.run_ok("process1", env={"MPS_DISABLE": "clients"})
        equal(len(service.servers()), 1)


def test_unknown_words():
    """The server's log and the client's name each, and the known words still have an effect."""
    with mps.Service({"MPS_DISABLE": "holds, spin,0"}) as service:
        code, out, err = service.run("registered_private",
                                     env={"MPS_DISABLE": "registered,helper spin"})
        equal(code, 1, out + err)
        contains(err, UNKNOWN % "helper")
        contains(err, "MPS_DISABLE=registered forbids")
        equal(err.count("is unknown"), 1, err)
        log = service.server_log()
        contains(log, UNKNOWN % "holds")
        contains(log, UNKNOWN % "0")
        equal(log.count("is unknown"), 2, log)


if __name__ == "__main__":
    harness.main(globals())
