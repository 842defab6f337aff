#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each part of NVIDIA's protocol 3 has a test, a line of the documentation, or a reason (protocol3.txt)."""

import os
import re

import harness
from harness import equal

SECTIONS = {"start", "grammar", "server", "namespace", "client", "device", "sm-partition", "feature",
            "memacct", "context-share", "refusals", "paths", "users", "limits", "partitions", "memory",
            "policy", "file"} | {"trap %d" % n for n in range(1, 17)}
# The forms of a place: the file, and what the file has of it.
FORMS = ((r"(test_\w+):(test_\w+)", "tests/system/%s.py", "def %s("),
         (r'(test_\w+) "(.+)"', "tests/unit/daemon/%s.c", '"%s"'),
         (r'(\S+\.md) "(.+)"', "docs/%s", "%s"))


def read(path):
    with open(os.path.join(harness.ROOT, path), encoding="utf-8") as file:
        return file.read()


def is_there(place):
    for form, path, text in FORMS:
        found = re.fullmatch(form, place)
        if not found:
            continue
        path = path % found[1]
        whole = " ".join(read(path).split()) if os.path.exists(os.path.join(harness.ROOT, path)) else ""
        return text % found[2] in whole
    return re.fullmatch(r"no: \S.*", place) is not None


def rows():
    return [tuple(cell.strip() for cell in line.split("|"))
            for line in read("tests/system/protocol3.txt").splitlines() if line and line[0] != "#"]


def test_places():
    equal([(row, place) for row in rows() for place in row[2].split("; ") if not is_there(place)], [])


def test_sections():
    equal({len(row) for row in rows()}, {3})
    equal({row[0] for row in rows()}, SECTIONS)


if __name__ == "__main__":
    harness.main(globals())
