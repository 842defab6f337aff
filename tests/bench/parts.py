# SPDX-License-Identifier: Apache-2.0
"""The parts of a run, and how one of them runs: within its time, and without an end of others."""

import collections
import importlib.util
import signal

import clients
import cpu
import neighbours
import one_client
import pairs
import pytorch
from harness import Skip
from results import OutOfTime
from ways import open_ways

# `limit_s' is for a part that hangs: at least twice the time that the part takes on an H200. The
# software GPU has no part that needs NVIDIA's libraries, or that takes it minutes. `needs' is what
# a part on a GPU needs.
Part = collections.namedtuple("Part", "name measure limit_s is_for_software needs")

PARTS = {part.name: part for part in (
    Part("one", one_client.measure, 200, True, None),
    Part("clients", clients.measure, 400, True, None),
    Part("neighbours", neighbours.measure, 200, False, None),
    Part("pytorch", pytorch.measure, 400, False, "torch"),
    Part("pairs", pairs.measure, 2000, True, "torch"),
    Part("cpu", cpu.measure, 90, True, None))}


def on_alarm(_signal, _frame):
    raise OutOfTime("not done in time")


def run_part(part, options, results):
    signal.signal(signal.SIGALRM, on_alarm)
    with results.in_part(part.name):
        is_needed = part.needs and (options.is_real or not part.is_for_software)
        if is_needed and not importlib.util.find_spec(part.needs):
            raise Skip("%s is not installed" % part.needs)
        signal.alarm(part.limit_s)
        try:
            with open_ways(options.is_real, options.ways, results) as ways:
                part.measure(ways, options, results)
        finally:
            signal.alarm(0)
