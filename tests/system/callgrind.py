# SPDX-License-Identifier: Apache-2.0
"""Instructions of this project's own code in a run under callgrind."""

import re

OURS = re.compile(r"(^|/)(client|server|proto|include|gen)/")
# Not the tests' own code, nor libc, whose functions differ between processors.
OTHERS = re.compile(r"(^|/)tests/|^/usr/")


def is_ours(path):
    return bool(OURS.search(path)) and not OTHERS.search(path)


def own_instructions(text):
    """The sum of a profile's lines whose source file is of this project."""
    files, current, total = {}, "", 0
    lines = iter(text.splitlines())
    for line in lines:
        # `fl' is the file of a function, `fi' and `fe' of inlined code, `cfi' of a called function.
        name = re.match(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?$", line)
        cost = re.match(r"(?:[+-]?\d+|\*) (\d+)$", line)
        if name:
            kind, number, path = name.groups()
            if path:
                files[number] = path
            if not kind.startswith("c"):
                current = files[number]
        elif line.startswith("calls="):
            next(lines)  # what the call costs is counted where it happens
        elif cost and is_ours(current):
            total += int(cost.group(1))
    return total
