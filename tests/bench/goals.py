# SPDX-License-Identifier: Apache-2.0
"""What the figures should be on an H200: rows of the table, a way to compare with, and a bound.

A figure that misses its goal is no error.
"""

import collections

from ways import LABELS, NATIVE, OURS, THEIRS

# `against' is the way whose figure divides ours; OURS: the figure itself.
Goal = collections.namedtuple("Goal", "row against sign bound")
AT_MOST, AT_LEAST = "<=", ">="
MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"

BESIDE = ("launch", "jit", "load", "copy_pinned", "copy", "free", "pin")
BOUND_BY_LAUNCHES = ("mlp", "resnet", "decode")
MODELS = BOUND_BY_LAUNCHES + ("gemm", "upload")

GOALS = [
    Goal("launch in bursts of 64, the thread's time", NATIVE, AT_MOST, 0.1),
    Goal("launch + sync", NATIVE, AT_MOST, 0.85),
    Goal("sustained launches", NATIVE, AT_LEAST, 2.3),
    Goal("malloc + free of 1 MiB", NATIVE, AT_MOST, 0.02),
    Goal("start to first result on a warm server", OURS, AT_MOST, 5),
    Goal("GPU memory a client adds", OURS, AT_MOST, 16),
    *(Goal("copy pageable %s 256 MiB" % direction, NATIVE, AT_LEAST, 3)
      for direction in ("in", "out")),
    *(Goal("copy pinned %s %s" % (direction, size), NATIVE, AT_LEAST, 0.99)
      for size in ("1 MiB", "16 MiB", "256 MiB") for direction in ("in", "out")),
    *(Goal("%d clients, empty kernel + sync" % n, THEIRS, AT_LEAST, 1.0) for n in (8, 16)),
    *(Goal("%d clients, 20 us kernel + sync" % n, THEIRS, AT_LEAST, 1.0) for n in (8, 16)),
    Goal("8 clients, bursts of 64 launches", THEIRS, AT_LEAST, 4),
    Goal("48 clients / 8 clients, empty kernel + sync", OURS, AT_LEAST, 1.0),
    Goal("48 clients, empty kernel + sync, slowest / fastest", OURS, AT_LEAST, 0.8),
    *(Goal("p99 beside %s / alone" % what, OURS, AT_MOST, 1.5) for what in BESIDE),
    *(Goal("p99 beside %s" % what, THEIRS, AT_MOST, 1.0) for what in ("copy",)),
    *(Goal("PyTorch %s, 1 client" % name, NATIVE, AT_LEAST,
           1.1 if name in BOUND_BY_LAUNCHES else 1.0) for name in MODELS),
    *(Goal("PyTorch %s, 8 clients" % name, THEIRS, AT_LEAST,
           1.15 if name in BOUND_BY_LAUNCHES else 1.0) for name in MODELS),
    Goal("beside background work, median / alone", OURS, AT_MOST, 1.05),
    Goal("beside background work, p99 / alone", OURS, AT_MOST, 1.10),
    Goal("beside background work, p99 / alone, worst pair", OURS, AT_MOST, 1.25),
    Goal("background beside a busy foreground / full speed", OURS, AT_LEAST, 0.8),
    Goal("background beside a pausing foreground / full speed", OURS, AT_LEAST, 0.95),
    Goal("first request after a pause / bound", OURS, AT_MOST, 1.10),
    Goal("idle server with 48 clients", OURS, AT_MOST, 1),
]


def words(goal):
    text = "%s %g" % (goal.sign, goal.bound)
    return text if goal.against == OURS else "%s x %s" % (text, LABELS[goal.against])


def judge(goal, medians):
    """The verdict, given the median of each way."""
    against = 1 if goal.against == OURS else medians.get(goal.against)
    if OURS not in medians or not against:
        return NOT_MEASURED
    value = medians[OURS] / against
    is_met = value <= goal.bound if goal.sign == AT_MOST else value >= goal.bound
    return MET if is_met else MISSED
