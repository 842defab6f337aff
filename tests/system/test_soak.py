#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Twenty seconds of tests/soak, with a new seed each time."""

import os
import subprocess

import harness
from harness import equal


def test_soak():
    done = subprocess.run([os.path.join(harness.ROOT, "tests", "soak"), "--seconds", "20"],
                          capture_output=True, text=True, check=False)
    print("    " + done.stdout.replace("\n", "\n    ").rstrip() + done.stderr)
    equal(done.returncode, 0)


if __name__ == "__main__":
    harness.main(globals())
