# SPDX-License-Identifier: Apache-2.0
"""Runs a suite on both sides, compares, and says what differs."""

import concurrent.futures
import datetime
import os
import threading
import time

import sides
import suite as suites
import units
import verdict

# How often a difference has to show again; further differences than these do not run again.
RERUNS, RERUN_TESTS_MAX = 2, 20
TABLE_HEAD = ("| suite | date | GPU | tests | natively | as clients | time | differences |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- |\n")


def say(*words):
    print(*words, flush=True)


class Comparison:
    """One suite: outcomes by side, then what follows from them."""

    def __init__(self, suite, jobs, out):
        self.suite, self.jobs, self.out = suite, jobs, out
        self.outcomes, self.seconds = {}, {}
        self.left, self.unstable, self.new, self.explained, self.unused = [], [], [], [], []
        self.clients = 0
        self.lock = threading.Lock()

    # ---- running

    def run_unit(self, side, unit, only=None):
        """The outcomes of one unit on one side, by UNIT:TEST."""
        folder = os.path.join(self.out, self.suite.name + "-logs", side.name)
        os.makedirs(folder, exist_ok=True)
        log = os.path.join(folder, unit + (".again" if only else "") + ".log")
        one = units.Unit(self.suite, side, unit, log)
        if not only and os.path.exists(log):
            os.unlink(log)
        found = {"%s:%s" % (unit, test): outcome for test, outcome in one.run(only).items()}
        with self.lock:
            self.seconds[side.name] = self.seconds.get(side.name, 0) + (not only) * one.seconds
            side.left += one.left
            if self.jobs == 1:
                side.after_unit(unit)
            say("%s %s %s: %s (%.0f s)" % (self.suite.name, side.name, unit,
                                           verdict.in_words(verdict.count(found)), one.seconds))
        return found

    def run_side(self, side, wanted):
        """All units on one side."""
        outcomes = {}
        with side, concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                for found in pool.map(lambda unit: self.run_unit(side, unit), wanted):
                    outcomes.update(found)
            except BaseException:
                units.STOP.set()
                pool.shutdown(cancel_futures=True)
                raise
        self.outcomes[side.name] = outcomes
        self.left += ["%s: %s" % (side.name, what) for what in side.left]
        self.clients += side.clients
        self.write(side.name)

    def write(self, name):
        """The outcomes of a side, as text."""
        with open(os.path.join(self.out, "%s.%s" % (self.suite.name, name)), "w",
                  encoding="utf-8") as file:
            for test, outcome in sorted(self.outcomes[name].items()):
                file.write("%s\t%s\t%.3f\t%s\n" % (test, *outcome))

    def again(self, test):
        """Runs a test alone on both sides; returns whether the outcomes differ."""
        unit, _, name = test.partition(":")
        # The end of the process and the import of the module are of the unit as a whole.
        only = None if name.startswith("(") else [name]
        pair = []
        for kind in (sides.Native, sides.Client):
            with kind(self.suite.real, self.out) as side:
                found = self.run_unit(side, unit, only)
                pair.append(verdict.outcome_of(found, test))
        return pair[0] != pair[1]

    # ---- judging

    def judge(self, known):
        """Finds the differences that remain when their tests run again."""
        found = verdict.differences(self.outcomes["native"], self.outcomes["client"])
        new, self.explained = verdict.split_known(self.suite.name, found, known)
        self.new = new[RERUN_TESTS_MAX:]
        for difference in new[:RERUN_TESTS_MAX]:
            say("%s differs: %s: %s -> %s; runs again, alone" % (self.suite.name, *difference))
            if all(self.again(difference.test) for _ in range(RERUNS)):
                self.new.append(difference)
            else:
                self.unstable.append(difference)
        self.unused = verdict.unused(self.suite.name, known, self.explained, self.outcomes["native"])
        if not self.clients:
            self.left.append("no client: the programs did not use the service")

    def is_good(self):
        return not self.new and not self.left

    def tell(self):
        """What was found, as text."""
        say("\n== %s (%s)" % (self.suite.name, self.suite.title))
        for name, about in (("native", "natively"), ("client", "as clients")):
            outcomes = self.outcomes[name]
            say("%s: %s, in %.0f s" % (about, verdict.in_words(verdict.count(outcomes)),
                                       self.seconds.get(name, 0)))
            for test, outcome in sorted(outcomes.items()):
                if outcome.outcome in (units.HANG, units.CRASH, units.NOT_RUN):
                    say("  %s: %s (%s)" % (outcome.outcome, test, outcome.detail))
        for pattern, why in self.suite.left_out.items():
            say("left out: %s: %s" % (pattern, why))
        for difference, entry in self.explained:
            say("known difference: %s: %s -> %s: %s" % (*difference, entry.reason))
        for difference in self.unstable:
            say("unstable: %s: %s -> %s, but not each time when run again" % difference)
        for entry in self.unused:
            say("known:%d explains no difference of this run: %s" % (entry.line, entry.pattern))
        for what in self.left:
            say("LEFT BEHIND: %s" % what)
        for difference in self.new:
            say("DIFFERENCE: %s: %s -> %s: %s" % (*difference, self.detail(difference)))

    def detail(self, difference):
        """What the side that did worse says about the test."""
        for name in ("client", "native"):
            outcome = self.outcomes[name].get(difference.test)
            if outcome and outcome.detail:
                return outcome.detail
        return ""

    def row(self, gpu):
        """A row of the table in docs/compat/suites.md."""
        counts = [verdict.count(self.outcomes[name]) for name in ("native", "client")]
        return "| %s | %s | %s | %d | %s | %s | %.0f s, %.0f s | %s |\n" % (
            self.suite.title, datetime.date.today(), gpu, sum(counts[0].values()),
            *map(verdict.in_words, counts), self.seconds.get("native", 0),
            self.seconds.get("client", 0),
            ", ".join(["%d known" % len(self.explained)] * bool(self.explained)
                      + ["%d new" % len(self.new)] * bool(self.new)) or "none")


def judge(path, real, known, args):
    """Installs and runs one suite; returns its Comparison. None: not here; False: it failed."""
    one = suites.Suite(path, real, args.out)
    if one.needs_gpu() and not real:
        say("%s: not run: needs a GPU's own machine code" % one.name)
        return None
    if args.short and not one.about.SHORT:
        say("%s: not part of a short run" % one.name)
        return None
    began = time.monotonic()
    try:
        one.install()
    except suites.CannotInstall as why:
        say("%s: %s" % (one.name, why))
        return False
    say("%s: installed in %.0f s" % (one.name, time.monotonic() - began))
    found = Comparison(one, args.jobs, args.out)
    wanted = [unit for unit in one.units(args.short) if not args.only or args.only in unit]
    for kind in (sides.Native, sides.Client):
        found.run_side(kind(real, args.out), wanted)
    found.judge(known)
    found.tell()
    return found


def finish(results, real, out):
    """The table and the sum; returns the exit code."""
    ran = [one for one in results if one]
    gpu = sides.gpu_name(real)
    table = TABLE_HEAD + "".join(one.row(gpu) for one in ran)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table)
    say("\n" + table)
    good = sum(one.is_good() for one in ran)
    failed = len(ran) - good + results.count(False)
    say("%d passed, %d failed, %d skipped" % (good, failed, results.count(None)))
    return 1 if failed else 0
