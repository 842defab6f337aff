# SPDX-License-Identifier: Apache-2.0
"""A foreground client beside a background one: what the first feels, and what the second loses.

A client is in the background by CUDA_MPS_CLIENT_PRIORITY. Natively there is no such thing: both
are equals. Each kind of work has a process of its own in each way, which works when it is told to.
In each pair, the foreground works alone, both work, and the background works alone, in turns: each
figure is compared with those around it, because the pace of a machine changes from second to
second. Then the foreground works for a tenth of the time.
"""

import collections
import concurrent.futures
import contextlib
import statistics

from group import MODELS_PROGRAM, START_S, Group, soon
from rounds import alternate

ROUNDS = 1

# `program': the command of its process; None: bench. `what': the order.
Kind = collections.namedtuple("Kind", "what program")

FOREGROUNDS = {
    "resnet18": Kind("resnet", MODELS_PROGRAM), "token": Kind("decode", MODELS_PROGRAM),
    "encoder": Kind("encoder", MODELS_PROGRAM), "empty": Kind("burst", None),
    "mpi": Kind("step", None)}
BACKGROUNDS = {
    "products4096": Kind("products4096", MODELS_PROGRAM),
    "products8192": Kind("products8192", MODELS_PROGRAM),
    "resnet50": Kind("train_resnet50", MODELS_PROGRAM),
    "transformer": Kind("train_transformer", MODELS_PROGRAM),
    "elementwise": Kind("elementwise", MODELS_PROGRAM), "prefill": Kind("prefill", MODELS_PROGRAM)}
# On the software GPU.
SOFTWARE_FOREGROUNDS = {"empty": FOREGROUNDS["empty"]}
SOFTWARE_BACKGROUNDS = {"launches": Kind("burst", None)}

# In seconds for each --seconds: each measurement.
ALONE, FULL, BESIDE, PAUSING = 1, 1, 2, 6
TURNS = 3
# The time before the first measurement of both in which a share is found, and before later ones.
SETTLE_S, SETTLE_AGAIN_S = 1, 0.3
# Before both begin to work, each does some steps.
WARM_UP_S = 0.2
# A foreground that pauses works a tenth of the time.
WORK_S, PAUSE_S = 0.02, 0.18
PAUSES_MIN = 3
# The answers of a pair may be late by so much.
LATE_S = 30

# The rows of ratios_of(), of each pair, and of the mean of all.
PAIR_ROWS = (": median / alone", ": p99 / alone", ": background / full speed",
             ", pausing: first request / bound", ", pausing: background / full speed")
MEAN_ROWS = ("beside background work, median / alone", "beside background work, p99 / alone",
             "background beside a busy foreground / full speed",
             "first request after a pause / bound",
             "background beside a pausing foreground / full speed")
WORST_ROW = "beside background work, p99 / alone, worst pair"


class Client:
    """A process of a kind in a way. It is started again after its first failure."""

    FAILURES_MAX = 2

    def __init__(self, way, kind, env):
        self.way, self.kind, self.env = way, kind, env
        self.group, self.failures = None, 0
        self.alone = {}  # figures that do not depend on the other client

    def start(self):
        """With its model, which takes each process a different time."""
        if self.group:
            return
        assert self.failures < self.FAILURES_MAX, "%s has failed before, %s" % (
            self.kind.what, self.way.name)
        self.failures += 1
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(Group(self.way, 1, self.kind.program, self.env))
            with group.limited(START_S):
                group.measure(self.kind.what, 0)
            stack.pop_all()
        self.group, self.failures = group, self.failures - 1

    def end(self):
        if self.group:
            # It has no process any more if that has ended by itself, or was too late.
            self.failures += not self.group.processes
            self.group.end()
        self.group = None

    def ask(self, seconds, at, *times, what=None):
        self.group.ask(what or self.kind.what, seconds, at, *times)

    def answer(self):
        return self.group.answers()[0]

    def measure(self, seconds, *times, what=None):
        self.ask(seconds, soon(1), *times, what=what)
        return self.answer()


def longest_us(client, seconds):
    """The time of the background's longest kernel alone."""
    if "longest" not in client.alone:
        what = "longest_" + client.kind.what if client.kind.program else client.kind.what
        client.alone["longest"] = client.measure(seconds, what=what)["us"]
    return client.alone["longest"]


def first_us(client, seconds):
    """The time of the first request after a pause, alone."""
    if "first" not in client.alone:
        client.alone["first"] = client.measure(seconds, 0, WORK_S, PAUSE_S)["first_us"]
    return client.alone["first"]


def both(foreground, background, seconds, settle, *pauses):
    """The answers of both, which work at the same time."""
    at = soon(2) + WARM_UP_S
    foreground.ask(seconds, at, settle, *pauses)
    background.ask(seconds, at, settle)
    return foreground.answer(), background.answer()


def to_those_around(figure, beside, alone):
    """The ratio of the figure in each turn to those before and after it: their median."""
    return statistics.median(
        one[figure] / statistics.mean((before[figure], after[figure]))
        for one, before, after in zip(beside, alone, alone[1:]))


def in_turns(foreground, background, unit, settle):
    """The answers of each alone, and of both beside the other, in turns."""
    alone, full, turns = [foreground.measure(ALONE * unit)], [background.measure(FULL * unit)], []
    for i in range(TURNS):
        turns.append(both(foreground, background, BESIDE * unit,
                          min(settle, SETTLE_AGAIN_S) if i else settle))
        full.append(background.measure(FULL * unit))
        alone.append(foreground.measure(ALONE * unit))
    return alone, full, turns


def figures(foreground, background, unit, settle):
    """All figures of a pair in one way."""
    pausing_s = max(PAUSING * unit, PAUSES_MIN * (WORK_S + PAUSE_S))
    bound = first_us(foreground, pausing_s) + longest_us(background, FULL * unit)
    alone, full, turns = in_turns(foreground, background, unit, settle)
    busy, beside_busy = zip(*turns)
    pausing, beside_pausing = both(foreground, background, pausing_s, 0, WORK_S, PAUSE_S)
    return {"median": to_those_around("us", busy, alone),
            "p99": to_those_around("p99_us", busy, alone),
            "speed": to_those_around("per_s", beside_busy, full),
            "first": pausing["first_us"] / bound,
            "pausing": beside_pausing["per_s"] / full[-1]["per_s"]}


def together(foreground, background, unit, settle):
    """The same, in bounded time. After a failure, an answer may be under way: both end."""
    clients = foreground, background
    seconds = ((TURNS + 1) * (ALONE + FULL + BESIDE) + 2 * PAUSING) * unit + settle + LATE_S
    try:
        for client in clients:
            client.start()
        with foreground.group.limited(seconds), background.group.limited(seconds):
            return figures(foreground, background, unit, settle)
    except BaseException:
        for client in clients:
            client.end()
        raise


def ratios_of(found):
    """What the rows of a pair tell, each as {way: [value]}."""
    return tuple(found[figure] for figure in ("median", "p99", "speed", "first", "pausing"))


def of_all(ratios, choose):
    """One value of all pairs, of each way."""
    names = {way for ratio in ratios for way in ratio}
    return {way: [choose(ratio[way][0] for ratio in ratios if way in ratio)] for way in names}


def wanted_pairs(foregrounds, backgrounds, texts):
    """`texts' are FOREGROUND:BACKGROUND,..., where an absent name means all; None: all pairs."""
    pairs = [(one, other) for other in backgrounds for one in foregrounds]
    found = set() if texts else set(pairs)
    for text in texts.split(",") if texts else ():
        one, _, other = text.partition(":")
        chosen = {pair for pair in pairs if one in ("", pair[0]) and other in ("", pair[1])}
        assert chosen, "there is no pair %s; foregrounds: %s; backgrounds: %s" % (
            text, ", ".join(foregrounds), ", ".join(backgrounds))
        found |= chosen
    return [pair for pair in pairs if pair in found]


class Clients:
    """The processes of all ways."""

    def __init__(self, ways, pairs, kinds):
        self.of = {}
        for way in ways:
            for foreground, background in pairs:
                self.of[way, foreground] = Client(way, kinds[foreground], None)
                self.of[way, background] = Client(way, kinds[background], way.background)

    def __enter__(self):
        """Starts all at the same time. What fails here is tried again in its pairs."""
        with concurrent.futures.ThreadPoolExecutor(len(self.of)) as pool:
            for client in self.of.values():
                pool.submit(client.start)
        return self

    def __exit__(self, *_):
        for client in self.of.values():
            client.end()

    def together(self, way, pair, *times):
        foreground, background = pair
        return together(self.of[way, foreground], self.of[way, background], *times)


def measure(ways, options, results):
    foregrounds = FOREGROUNDS if options.is_real else SOFTWARE_FOREGROUNDS
    backgrounds = BACKGROUNDS if options.is_real else SOFTWARE_BACKGROUNDS
    settle = SETTLE_S if options.is_real else 0
    pairs = wanted_pairs(foregrounds, backgrounds, options.pairs)
    told = []
    with Clients(ways, pairs, {**foregrounds, **backgrounds}) as clients:
        for pair in pairs:
            name = "%s beside %s" % pair
            with results.attempt(name):
                found = alternate(ways, ROUNDS, lambda way, pair=pair: clients.together(
                    way, pair, options.seconds, settle))
                told.append(ratios_of(found))
                for row, ratio in zip(PAIR_ROWS, told[-1]):
                    results.add(name + row, "", ratio)
    for row, ratios in zip(MEAN_ROWS, zip(*told)):
        results.add(row, "", of_all(ratios, statistics.mean))
    if told:
        results.add(WORST_ROW, "", of_all([ratios[1] for ratios in told], max))
