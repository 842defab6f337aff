#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Random sequences of commands, clients, kills, stops and faults; tests/hostile has 1000."""

import harness
import sequences

N = 25


def test_sequences():
    sequences.play(harness.dice(), N)


if __name__ == "__main__":
    harness.main(globals())
