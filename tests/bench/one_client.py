# SPDX-License-Identifier: Apache-2.0
"""One client alone: launches, events, graphs, allocations, copies, its start and its memory.

The placement of a process makes its copies some percent faster or slower, so each round has a new
process.
"""

import contextlib

import copies
from group import Group
from rounds import alternate

ROUNDS, STARTS = 3, 5
BURST = 64  # as in bench.cu

# What bench measures, which value of the answer, times what, and the row.
FIGURES = (
    ("burst", "enqueue_us", 1 / BURST, "launch in bursts of 64, the thread's time", "us"),
    ("burst", "us", 1 / BURST, "launch in bursts of 64, with a part of the sync", "us"),
    ("sustained", "per_s", BURST, "sustained launches", "/s"),
    ("sync", "us", 1, "launch + sync", "us"),
    ("sync", "p99_us", 1, "launch + sync, p99", "us"),
    ("query", "us", 1 / BURST, "event query", "us"),
    ("alloc", "us", 1, "malloc + free of 1 MiB", "us"),
    ("alloc", "p99_us", 1, "malloc + free of 1 MiB, p99", "us"),
    ("graph", "enqueue_us", 1, "launch of a graph of 16 kernels, the thread's time", "us"),
    ("graph", "us", 1, "graph of 16 kernels + sync", "us"),
)
SIZES = (("4 KiB", 4 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20), ("16 MiB", 16 << 20),
         ("256 MiB", 256 << 20))


def copy_rows(largest):
    """(order to bench, bytes, row) of each copy."""
    return [("%s_%s_%d" % (kind, direction, size), size, "copy %s %s %s" % (kind, direction, text))
            for kind in ("pinned", "pageable") for text, size in SIZES if size <= largest
            for direction in ("in", "out")]


def figures(way, seconds, largest):
    """{row: value} of one process."""
    found = {}
    with Group(way) as group:
        answers = {what: group.measure(what, seconds)[0]
                   for what in dict.fromkeys(figure[0] for figure in FIGURES)}
        for what, key, factor, row, _ in FIGURES:
            found[row] = answers[what][key] * factor
        for what, size, row in copy_rows(largest):
            found[row] = size / group.measure(what, seconds / 3)[0]["us"] / 1e3
    return found


def start_ms(way):
    with Group(way) as group:
        return {"start": group.start_ms[0]}


def added_mib(way):
    before = copies.gpu_memory_mib()
    with Group(way):
        return {"memory": copies.gpu_memory_mib() - before}


def measure(ways, options, results):
    largest = SIZES[-1][1] if options.is_real else 1 << 20
    found = alternate(ways, ROUNDS, lambda way: figures(way, options.seconds, largest))
    for _, _, _, row, unit in FIGURES:
        results.add(row, unit, found[row])
    for _, _, row in copy_rows(largest):
        results.add(row, "GB/s", found[row])
    with contextlib.ExitStack() as stack:
        # An idle client of each way keeps the driver and the servers warm.
        for way in ways:
            stack.enter_context(Group(way))
        results.add("start to first result on a warm server", "ms",
                    alternate(ways, STARTS, start_ms)["start"])
        if options.is_real:
            results.add("GPU memory a client adds", "MiB",
                        alternate(ways, ROUNDS, added_mib)["memory"])
