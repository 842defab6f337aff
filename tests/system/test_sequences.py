#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""Random sequences of commands, clients, kills, stops and faults; tests/hostile has 1000.

MPS_TEST_LONG=1 plays 200 with commands of protocol 3.
"""

import os

import harness
import named_sequences
import sequences

N = 25
NAMED = 200 if os.environ.get("MPS_TEST_LONG") else 6


def test_sequences():
    sequences.play(harness.dice(), N)


def test_named_sequences():
    """Named servers and namespaces come and go."""
    sequences.play(harness.dice(), NAMED, named_sequences.NamedWorld)


if __name__ == "__main__":
    harness.main(globals())
