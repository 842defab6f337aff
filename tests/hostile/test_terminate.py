#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 7200 s
"""terminate_client for 40 clients in turn, 20 times, while all work: none hangs."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import terminations

CLIENTS = int(os.environ.get("MPS_TEST_CLIENTS", 40))
ROUNDS = int(os.environ.get("MPS_TEST_ROUNDS", 20))


def test_in_turn():
    terminations.in_turn(CLIENTS, ROUNDS)


if __name__ == "__main__":
    harness.main(globals())
