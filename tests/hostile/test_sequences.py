#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 7200 s
"""1000 random sequences of commands, clients, kills, stops and faults (tests/system/sequences.py).

MPS_TEST_SEQUENCES sets another number.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import sequences

N = int(os.environ.get("MPS_TEST_SEQUENCES", 1000))


def test_sequences():
    sequences.play(harness.dice(), N)


if __name__ == "__main__":
    harness.main(globals())
