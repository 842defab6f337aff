#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 21600 s
"""`make check` in a fresh root of each release of Debian that README.md names."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
from debian_root import ReleaseRoot  # pylint: disable=wrong-import-position
from harness import contains, equal  # pylint: disable=wrong-import-position

LIMIT_S = 7000


def check(release):
    """Prints what fails, and what is skipped."""
    with ReleaseRoot(release) as root:
        said = root.run("make", "-C", "/src", "-s", "check", status=None, timeout=LIMIT_S)
        for line in said.splitlines():
            if re.match("FAIL|  |setup:", line):
                print("    " + line)
        contains(said.splitlines()[-1], " passed, 0 failed")


def test_readme():
    """It names these releases."""
    with open(harness.ROOT + "/README.md", encoding="utf-8") as file:
        named = re.search(r"Debian 12, 13 and testing", file.read())
    equal(bool(named), True)


def test_12():
    check("bookworm")


def test_13():
    check("trixie")


def test_testing():
    check("testing")


if __name__ == "__main__":
    harness.main(globals())
