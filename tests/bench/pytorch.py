# SPDX-License-Identifier: Apache-2.0
"""PyTorch: steps per second of one client and of eight that do the same."""

import contextlib

from goals import MODELS
from group import MODELS_PROGRAM, Group
from rounds import alternate

# Python's speed on a virtual machine changes from second to second.
ROUNDS = 4
COUNTS = (1, 8)


def measure_count(ways, options, results, count):
    with contextlib.ExitStack() as stack:
        groups = {way: stack.enter_context(Group(way, count, MODELS_PROGRAM)) for way in ways}
        for what in MODELS:
            row = "PyTorch %s, %d client%s" % (what, count, "s" * (count > 1))
            with results.attempt(row):
                # Makes the model, which takes each process a different time.
                for group in groups.values():
                    group.measure(what, 0)
                found = alternate(ways, ROUNDS, lambda way, what=what: {"steps": sum(
                    answer["per_s"] for answer in groups[way].measure(what, options.seconds))})
                results.add(row, "/s", found["steps"])


def measure(ways, options, results):
    for count in COUNTS:
        if count in options.clients:
            measure_count(ways, options, results, count)
