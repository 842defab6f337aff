#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 60 s
"""What a program can ask about its GPU: a client's answers beside native ones."""

import os
import re

import harness
import mps
import properties
from harness import equal
from test_native import native


def documented():
    """The table in docs/compat/devices.md: (name, value, reason); links as *TITLE*."""
    with open(os.path.join(harness.ROOT, "docs", "compat", "devices.md"), encoding="utf-8") as file:
        text = file.read().partition("\n### Properties that differ\n")[2].partition("\n#")[0]
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"*\1*", text)
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip(" `") for cell in row[:2]) + (row[2].strip(),) for row in rows]


def compare(natively, client):
    """Nothing differs without a reason; returns which differences there are."""
    equal(properties.unexplained(natively, client), [])
    return {name for name, _, _ in properties.DIFFERENCES if natively[name] != client[name]}


def test_client():
    """On the software GPU, which answers as an H200 does, and in the table of an H100."""
    code, out, err = native("properties")
    equal(code, 0, out + err)
    with mps.Service() as service:
        client = properties.read(service.run_ok("properties")[0])
    differ = compare(properties.read(out), client)
    on_h100, _, as_client = properties.read_table()
    differ |= compare(on_h100, as_client)
    equal({name for name, _, _ in properties.DIFFERENCES} - differ, set())


def test_documented():
    equal(documented(), list(properties.DIFFERENCES))


if __name__ == "__main__":
    harness.main(globals())
