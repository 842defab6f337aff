#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reliability names tests that exist."""

import glob
import os
import re

import harness
from harness import ROOT


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_named_tests_exist():
    files = [path for end in ("py", "c") for path in
             glob.glob(os.path.join(ROOT, "tests", "**", "test_*." + end), recursive=True)]
    known = {os.path.splitext(os.path.basename(path))[0] for path in files}
    for path in files:
        known.update(re.findall(r"^(?:def|static void) (test_\w+)\(", read(path), re.M))
    # Built from the spec, or from a fuzzer.
    known.update(("test_wire", "test_rules"))
    known.update("test_" + os.path.basename(path)[:-2]
                 for path in glob.glob(os.path.join(ROOT, "tests", "fuzz", "fuzz_*.c")))
    pages = glob.glob(os.path.join(ROOT, "docs", "reliability", "*.md"))
    text = "\n".join(map(read, sorted(pages)))
    named = set(re.findall(r"\btest_\w+", text))
    assert len(named) > 40, "only %d tests are named" % len(named)
    assert not named - known, "no such tests: %s" % sorted(named - known)
    paths = re.findall(r"\bunit/[\w/]+\.c", text)
    assert len(paths) > 10, "only %d unit tests are named" % len(paths)
    missing = [path for path in paths if not os.path.exists(os.path.join(ROOT, "tests", path))]
    assert not missing, "no such unit tests: %s" % missing


if __name__ == "__main__":
    harness.main(globals())
