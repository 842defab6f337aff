#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""Ten seconds of tests/fuzz/clients with a fixed seed, and ten with a new seed each time."""

import os
import random
import subprocess

import harness
from harness import equal


def play(seed):
    program = os.path.join(harness.ROOT, "tests", "fuzz", "clients")
    done = subprocess.run([program, "--seconds", "10", "--seed", str(seed)], check=False)
    equal(done.returncode, 0)


def test_fixed_seed():
    play(1)


def test_another_seed():
    play(os.environ.get("MPS_TEST_SEED") or random.randrange(1 << 30))


if __name__ == "__main__":
    harness.main(globals())
