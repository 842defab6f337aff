#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Means that make the service faster: with each and without, programs get the same results."""

import harness
import mps
from harness import equal

SERVER = ("MPS_BACKGROUND_DELAY_US", "MPS_HOLD_LAUNCHES", "MPS_QUIET_CALLS", "MPS_SHARE_TURNS",
          "MPS_SPIN")
CLIENT = ("MPS_CLIENT_HELPERS", "MPS_CLIENT_SPIN")
# Of the programs at the same time; 2 is background.
PRIORITIES = ("0", "2", "2")


def run_at_random(off):
    """Random orders of work, alone, beside others and in the background, without the means in `off'."""
    dice = harness.dice()
    settings = {name: "0" for name in off}
    with mps.Service(settings) as service:
        seeds = [str(dice.randrange(1 << 31)) for _ in range(1 + len(PRIORITIES))]
        service.run_ok("awaited", seeds[0], env=settings)
        several = [service.popen("awaited", number,
                                 env=dict(settings, CUDA_MPS_CLIENT_PRIORITY=priority))
                   for number, priority in zip(seeds[1:], PRIORITIES)]
        for number, process in zip(seeds[1:], several):
            code, out, err = service.finish(process)
            equal((code, out), (0, "awaited: ok\n"), "awaited %s without %s: %s" % (
                number, ", ".join(off), err))
        assert "Printed by" not in service.server_log(), "a kernel has printed"


def test_all_on():
    run_at_random(())


def test_all_off():
    run_at_random(SERVER + CLIENT)


def test_each_off():
    for name in SERVER + CLIENT:
        run_at_random((name,))


if __name__ == "__main__":
    harness.main(globals())
