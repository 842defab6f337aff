#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""200 clients of 20 users beside every hostile act, scrapes and restarts (tests/system/crowd.py).

MPS_TEST_CROWD_USERS and MPS_TEST_CROWD_S set other numbers; `tests/soak --crowd' takes longer.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import crowd
import floods
import harness

USERS = int(os.environ.get("MPS_TEST_CROWD_USERS", 20))
SECONDS = int(os.environ.get("MPS_TEST_CROWD_S", 45))


def test_crowd():
    act_s = SECONDS / len(floods.ACTS)
    crowd.play(harness.dice(), USERS, SECONDS, restart_s=SECONDS / 4, act_s=act_s)


if __name__ == "__main__":
    harness.main(globals())
