#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Programs compute the same if their objects end at every rest, and are made again from the record.

MPS_TEST_LONG=1 runs all programs.
"""

import os
import re

import harness
import mps
from harness import contains

IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
# One or two for each kind of object.
PROGRAMS = ("graph_capture", "graph_params", "graph_update", "green_ended", "stream_overlap", "callbacks", "convolution",
            "context_events", "events", "pinning_thread", "managed_linked", "constants", "surface",
            "texture_layered_mip")


def replays(log):
    return [int(n) for n in re.findall(r": (\d+) objects are made again", log)]


def run_all(made, names):
    wrong, most = [], {}
    for name in names:
        before = len(made.server_log())
        code, out, err = made.run(name)
        log = made.server_log()[before:]
        most[name] = max(replays(log), default=0)
        if (code, out) != (0, name + ": ok\n") or "cannot go on" in log:
            wrong.append((name, code, out, err, re.findall("cannot go on.*", log)))
    assert not wrong, wrong
    return most


def test_every_rest():
    with mps.Service({"MPS_TEST": "replay", "MPS_OVERSUBSCRIBE": "1"}) as made:
        most = run_all(made, mps.PROGRAMS_ONCE if IS_LONG else PROGRAMS)
        contains(made.server_log(), "MPS_TEST=replay: objects of a client are made again")
    # How often they rest depends on the machine.
    assert sum(n > 0 for n in most.values()) > len(most) / 2, most
    assert most["graph_capture"] >= 3 and most["context_events"] >= 3, most
    print("    %d programs, %d of them with objects that were made again" %
          (len(most), sum(n > 0 for n in most.values())))


if __name__ == "__main__":
    harness.main(globals())
