#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Every driver call without its context: clients and the software GPU beside the real driver.

    tests/system/test_contexts.py --table RESULTS...

prints the table of what build/bin/contexts has printed on a GPU, for tests/contexts/driver.txt.
"""

import os
import re
import subprocess
import sys

import contexts
import harness
import mps

TWO = {"SOFTGPU_DEVICES": "2"}


def check(found, who):
    wrong, unused = contexts.unexplained(found, who)
    assert not wrong, "\n" + "\n".join(wrong)
    assert not unused, "no longer differs:\n" + "\n".join(unused)


def test_software_gpu():
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU), **TWO)
    check(contexts.run(env), "softgpu")


def test_client():
    with mps.Service(TWO) as service:
        env = dict(service.env, LD_LIBRARY_PATH=os.path.dirname(mps.LIBRARY))
        check(contexts.run(env), "client")


def test_checks():
    """A call with arguments that break a check of the spec, and all later ones, says so."""
    with mps.Service() as service:
        env = dict(service.env, LD_LIBRARY_PATH=os.path.dirname(mps.LIBRARY))
        done = subprocess.run([contexts.PROGRAM, "--checks"], env=env, capture_output=True, text=True,
                              timeout=60 * mps.SLOW, check=False)
        *wrong, last = done.stdout.splitlines() or [done.stderr]
        assert not wrong, "\n".join(wrong)
        assert re.fullmatch(r"[2-9]\d\d checks", last), last + done.stderr


def print_table(paths):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += file.read().splitlines()
    print("\n".join(contexts.table(contexts.read_results(lines))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print_table(sys.argv[2:])
    else:
        harness.main(globals())
