# SPDX-License-Identifier: Apache-2.0
"""The table of a run: for each row the values of each way, their medians, and our ratios."""

import contextlib
import json
import statistics
import time

import goals
from harness import Skip
from ways import LABELS, NAMES, NATIVE, OURS, THEIRS

LINE = "%-52s %-5s %12s %12s %12s  %8s %8s  %s"
HEADER = LINE % ("", "", *LABELS.values(), "/native", "/NVIDIA", "goal")


class OutOfTime(BaseException):
    """A part has exceeded its limit. It is no Exception, so that only the part's end catches it."""


class Row:
    """Values of each way. `at' is (chart, quantity, number of clients) of a row that plots show."""

    def __init__(self, part, name, unit, values, at=None):
        self.part, self.name, self.unit, self.values, self.at = part, name, unit, values, at
        self.medians = {way: statistics.median(found) for way, found in values.items() if found}
        self.goals = []  # (words, verdict)

    def ratio(self, way):
        """Ours divided by that way's, or None."""
        if OURS not in self.medians or not self.medians.get(way):
            return None
        return self.medians[OURS] / self.medians[way]

    def __str__(self):
        return (LINE % (
            self.name, self.unit, *(shorten(self.medians.get(way)) for way in NAMES),
            *(shorten(self.ratio(way)) for way in (NATIVE, THEIRS)),
            "; ".join("%s: %s" % pair for pair in self.goals))).rstrip()

    def as_json(self):
        return {"part": self.part, "row": self.name, "unit": self.unit, "values": self.values,
                "medians": self.medians,
                "ratios": {way: self.ratio(way) for way in (NATIVE, THEIRS) if self.ratio(way)},
                "goals": [{"goal": text, "verdict": verdict} for text, verdict in self.goals]}


def shorten(value):
    if value is None:
        return ""
    return "%.0f" % value if abs(value) >= 1000 else "%.4g" % value


class Results:
    """`wanted' are the goals to compare with."""

    def __init__(self, wanted=goals.GOALS):
        self.wanted = wanted
        self.rows, self.failures, self.skipped, self.seconds = [], [], [], {}
        self.part = ""

    def add(self, name, unit, values, at=None):
        row = Row(self.part, name, unit, values, at)
        row.goals = [(goals.words(goal), goals.judge(goal, row.medians)) for goal in self.wanted
                     if goal.row == name]
        self.rows.append(row)
        print(row, flush=True)
        return row

    def fail(self, name, error):
        """A row for what could not be measured."""
        text = "%s: %s" % (type(error).__name__, str(error)[:2000] or "no more is known")
        self.failures.append({"part": self.part, "row": name, "error": text})
        print("%-52s FAILED: %s" % (name, text), flush=True)

    @contextlib.contextmanager
    def attempt(self, name):
        """The run goes on if this fails."""
        try:
            yield
        except Skip as why:
            self.skipped.append({"part": self.part, "row": name, "why": str(why)})
            print("%-52s skipped: %s" % (name, why), flush=True)
        except Exception as error:
            self.fail(name, error)

    @contextlib.contextmanager
    def in_part(self, name):
        """Rows until the end belong to that part, which may fail."""
        self.part, began = name, time.monotonic()
        print("== %s" % name, flush=True)
        try:
            with self.attempt(name):
                yield
        except OutOfTime as error:
            self.fail(name, error)
        finally:
            self.seconds[name] = round(time.monotonic() - began, 1)
            print("   (%.1f s)" % self.seconds[name], flush=True)

    def failed_parts(self):
        return {failure["part"] for failure in self.failures}

    def not_measured(self):
        """The goals for which there is no row."""
        names = {row.name for row in self.rows}
        return [goal for goal in self.wanted if goal.row not in names]

    def text(self):
        """The whole table."""
        return "\n".join([HEADER, *map(str, self.rows), self.summary()])

    def summary(self):
        """What has failed, and each goal with its verdict."""
        lines = ["%-52s FAILED: %s" % (one["row"], one["error"].splitlines()[0])
                 for one in self.failures]
        lines += ["%-52s skipped: %s" % (one["row"], one["why"]) for one in self.skipped]
        told = [(row.name, *pair) for row in self.rows for pair in row.goals]
        told += [(goal.row, goals.words(goal), goals.NOT_MEASURED) for goal in self.not_measured()]
        lines += ["%-64s %-16s %s" % line for line in told]
        verdicts = [verdict for _, _, verdict in told]
        lines.append("goals: %s" % ", ".join(
            "%d %s" % (verdicts.count(verdict), verdict)
            for verdict in (goals.MET, goals.MISSED, goals.NOT_MEASURED)))
        return "\n".join(lines)

    def as_json(self, facts):
        return json.dumps({
            "facts": facts, "seconds": self.seconds, "rows": [row.as_json() for row in self.rows],
            "failed": self.failures, "skipped": self.skipped,
            "not measured": [{"row": goal.row, "goal": goals.words(goal)}
                             for goal in self.not_measured()]}, indent=1)
