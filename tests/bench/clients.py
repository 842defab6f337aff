# SPDX-License-Identifier: Apache-2.0
"""Several clients at the same time that all do the same: throughput, latency and fairness."""

import contextlib
import statistics

from group import Group
from rounds import alternate, divide

ROUNDS = 2
WARM_UP_S = 0.05

# What bench measures, how many launches a round has, and the name.
KINDS = (("sync", 1, "empty kernel + sync"), ("kernel20", 1, "20 us kernel + sync"),
         ("kernel100", 1, "100 us kernel + sync"), ("burst", 64, "bursts of 64 launches"))
# The software GPU takes milliseconds for such kernels.
ONLY_REAL = ("kernel20", "kernel100")
UNITS = {"total": "/s", "median": "us", "p99": "us", "slowest / fastest": ""}
THROUGHPUT, LATENCY, TAIL = "total", "median", "p99"


def summary(answers, launches):
    """The figures of one measurement of all clients."""
    speeds = [answer["per_s"] for answer in answers]
    return {THROUGHPUT: sum(speeds) * launches,
            LATENCY: statistics.median(answer["us"] for answer in answers),
            TAIL: statistics.median(answer["p99_us"] for answer in answers),
            "slowest / fastest": min(speeds) / max(speeds)}


def measure_count(ways, options, results, count):
    """All kinds with so many clients; returns the throughput of each as {name: {way: values}}."""
    totals = {}
    with contextlib.ExitStack() as stack:
        groups = {way: stack.enter_context(Group(way, count)) for way in ways}
        for what, launches, name in KINDS:
            if what in ONLY_REAL and not options.is_real:
                continue
            # The first launches of each client are slower: images, and launch batches of ours.
            for group in groups.values():
                group.measure(what, WARM_UP_S)
            found = alternate(ways, ROUNDS, lambda way, what=what, launches=launches: summary(
                groups[way].measure(what, options.seconds), launches))
            for quantity, unit in UNITS.items():
                row = "%d client%s, %s" % (count, "s" * (count > 1), name)
                if quantity != THROUGHPUT:
                    row += ", " + quantity
                results.add(row, unit, found[quantity], at=(name, quantity, count))
            totals[name] = found[THROUGHPUT]
    return totals


def measure(ways, options, results):
    totals = {}
    for count in options.clients:
        with results.attempt("%d clients" % count):
            totals[count] = measure_count(ways, options, results, count)
    if 8 in totals and 48 in totals:
        for name, more in totals[48].items():
            results.add("48 clients / 8 clients, " + name, "", divide(more, totals[8][name]))
