# SPDX-License-Identifier: Apache-2.0
"""Instructions of this project's own code in a run under callgrind."""

import functools
import os
import re

import harness

# Not the tests' own code, nor libc, whose functions differ between processors.
OURS = ("client/", "server/", "proto/", "include/", "gen/")


@functools.cache
def is_ours(path):
    """
    By the name of the file in this folder or in the build: an object from ccache has the folder in
    which another build has made it.
    """
    parts = os.path.normpath(path).split("/")
    names = ["/".join(parts[i:]) for i in range(1 if path.startswith("/") else 0, len(parts))]
    found = [name for name in names for folder in (harness.ROOT, harness.BUILD)
             if os.path.isfile(os.path.join(folder, name))]
    return bool(found) and found[0].removeprefix("build/").startswith(OURS) and not path.startswith("/usr/")


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
