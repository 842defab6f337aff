#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# without sanitizers: it tests Python code
"""The measurements of tests/bench: their tables are complete, and a broken part ends no other.

No figure is looked at: a machine may be as slow as it likes.
"""

import argparse
import contextlib
import glob
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from unittest import mock

import harness
import mps
from harness import BUILD, ROOT, contains, equal

sys.path[:0] = [os.path.join(ROOT, "tests", name) for name in ("bench", "gpu", "pictures")]

import clients  # pylint: disable=wrong-import-position
import copies  # pylint: disable=wrong-import-position
import cpu  # pylint: disable=wrong-import-position
import goals  # pylint: disable=wrong-import-position
import neighbours  # pylint: disable=wrong-import-position
import one_client  # pylint: disable=wrong-import-position
import pairs  # pylint: disable=wrong-import-position
import parts  # pylint: disable=wrong-import-position
import plots  # pylint: disable=wrong-import-position
import pytorch  # pylint: disable=wrong-import-position
import ways  # pylint: disable=wrong-import-position
from results import Results  # pylint: disable=wrong-import-position
from ways import NAMES, NATIVE, OURS, THEIRS, Way  # pylint: disable=wrong-import-position

RUN = os.path.join(ROOT, "tests", "bench", "run")
SVG = "{http://www.w3.org/2000/svg}"


def bench(*args, build=BUILD):
    """(exit code, output) of a short run on the software GPU."""
    done = subprocess.run(
        [sys.executable, RUN, "--software", "--seconds", "0.02", *args],
        env=dict(os.environ, MPS_BUILD=build), capture_output=True, text=True,
        timeout=100 * mps.SLOW, check=False)
    return done.returncode, done.stdout + done.stderr


def polylines(path):
    return len(xml.etree.ElementTree.parse(path).getroot().findall(SVG + "polyline"))


def test_run():
    """Each part has all its rows, in the table and in the JSON, and the plots have all lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.json")
        code, text = bench("--parts", "one,clients,pairs,cpu", "--clients", "1,2", "--json", path,
                           "--plots", folder)
        equal((code, text.splitlines()[-1]), (0, "4 passed, 0 failed"), text)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        wanted = [figure[3] for figure in one_client.FIGURES]
        wanted += [row for _, _, row in one_client.copy_rows(1 << 20)]
        wanted += ["start to first result on a warm server", "idle server with 2 clients",
                   "1 client, empty kernel + sync", "2 clients, bursts of 64 launches, p99",
                   *("empty beside launches" + row for row in pairs.PAIR_ROWS), pairs.WORST_ROW]
        rows = {row["row"]: row for row in found["rows"]}
        for name in wanted:
            contains(text, "\n%-52s " % name)
            assert all(value >= 0 for values in rows[name]["values"].values() for value in values)
            contains(rows[name]["medians"], OURS)
        equal(rows["launch + sync"]["ratios"].keys(), {NATIVE})
        equal(polylines(folder + "/throughput.svg"), 2 * 2)
        equal(polylines(folder + "/latency.svg"), 2 * 2 * 2)


def test_broken_part():
    """A part without its program fails, says so, and the next part runs."""
    with tempfile.TemporaryDirectory() as build:
        for name in ("lib", "softgpu"):
            os.symlink(os.path.join(BUILD, name), os.path.join(build, name))
        os.makedirs(os.path.join(build, "bin", "examples"))
        for path in glob.glob(BUILD + "/bin/mps-*") + [mps.program_path("bench")]:
            os.symlink(path, os.path.join(build, os.path.relpath(path, BUILD)))
        code, text = bench("--parts", "neighbours,clients", "--clients", "1", build=build)
    equal((code, text.splitlines()[-1]), (1, "1 passed, 1 failed"), text)
    contains(text, "%-52s FAILED: AssertionError: %s/bin/examples/disturb is not built" % (
        "p99 beside jit", build))
    contains(text, "\n1 client, empty kernel + sync ")


def test_part_that_hangs():
    """It ends after its limit; nothing that it has measured is lost."""
    def measure(_ways, _options, results):
        results.add("first", "us", {OURS: [1.0]})
        time.sleep(50)
    results = Results(())
    options = argparse.Namespace(is_real=False, ways=[NATIVE])
    with contextlib.redirect_stdout(io.StringIO()):
        parts.run_part(parts.Part("hangs", measure, 1, True, None), options, results)
    equal([row.name for row in results.rows], ["first"])
    equal(results.failures, [{"part": "hangs", "row": "hangs",
                              "error": "OutOfTime: not done in time"}])
    contains(results.text(), "FAILED: OutOfTime")


def test_way_that_does_not_work():
    """The others are measured without it."""
    def try_out(way):
        equal(way.name, OURS)
    results = Results(())
    with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(ways, "try_out", try_out):
        with results.in_part("one"), ways.open_ways(False, NAMES, results) as found:
            equal([way.name for way in found], [OURS])
    equal([failure["row"] for failure in results.failures], ["programs, " + NATIVE])


class FakeGroup:
    """Processes that answer at once. Ours are twice as fast as all others."""

    start_ms = [8.0]

    def __init__(self, way, count=1, _command=None, _env=None):
        self.way, self.count, self.processes = way, count, []
        self.factor = 0.5 if way.name == OURS else 1.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def end(self):
        pass

    def limited(self, _seconds):
        return contextlib.nullcontext()

    def ask(self, what, seconds, at, *times):
        pass

    def answers(self):
        return self.count * [{"us": 8 * self.factor, "p99_us": 16 * self.factor, "first_us": 9,
                              "enqueue_us": 4 * self.factor, "per_s": 1000 / self.factor}]

    def measure(self, _what, _seconds):
        return self.answers()


def simulated():
    """The results of all parts with all ways, as on a GPU, without any process."""
    three = [Way(NATIVE, {})] + [Way(name, {}, {"PRIORITY": "1"}, lambda: [1])
                                 for name in (THEIRS, OURS)]
    options = argparse.Namespace(is_real=True, clients=[1, 8, 16, 48], seconds=0.1, pairs=None)
    results = Results()
    with contextlib.ExitStack() as stack:
        for module in (one_client, clients, neighbours, pytorch, pairs, cpu):
            stack.enter_context(mock.patch.object(module, "Group", FakeGroup))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(mock.patch.object(
            neighbours, "disturbed", lambda way, what: contextlib.nullcontext()))
        stack.enter_context(mock.patch.object(copies, "gpu_memory_mib", lambda: 7))
        stack.enter_context(mock.patch.object(cpu, "cpu_s", lambda pids: 0))
        stack.enter_context(mock.patch.object(cpu.time, "sleep", lambda seconds: None))
        for part in parts.PARTS.values():
            with results.in_part(part.name):
                part.measure(three, options, results)
    return results


def test_goals():
    """Every goal has a row, and is judged by the way that it names."""
    results = simulated()
    equal(results.failures, [])
    equal([goal.row for goal in results.not_measured()], [])
    verdicts = {row.name: row.goals for row in results.rows if row.goals}
    equal(verdicts["launch + sync"], [("<= 0.85 x native", goals.MET)])
    equal(verdicts["sustained launches"], [(">= 2.3 x native", goals.MISSED)])
    equal(verdicts["8 clients, bursts of 64 launches"], [(">= 4 x NVIDIA's MPS", goals.MISSED)])
    equal(verdicts["start to first result on a warm server"], [("<= 5", goals.MISSED)])
    goal = goals.Goal("x", THEIRS, goals.AT_LEAST, 2)
    equal(goals.judge(goal, {NATIVE: 1, OURS: 3}), goals.NOT_MEASURED)
    equal(goals.judge(goal, {THEIRS: 1.5, OURS: 3}), goals.MET)
    equal(len([row for row in results.rows if row.name.endswith(": p99 / alone")]),
          len(pairs.FOREGROUNDS) * len(pairs.BACKGROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        plots.save(results.rows, folder)
        equal(polylines(folder + "/throughput.svg"), len(NAMES) * len(clients.KINDS))


def test_wanted_pairs():
    """--pairs names pairs, or all pairs of a foreground or of a background."""
    def wanted(texts):
        return [":".join(pair) for pair in pairs.wanted_pairs("ab", "xy", texts)]
    equal(wanted(None), ["a:x", "b:x", "a:y", "b:y"])
    equal(wanted("b:y,a:"), ["a:x", "a:y", "b:y"])
    equal(wanted(":x"), ["a:x", "b:x"])
    try:
        wanted("a:x,c:x")
        raise ValueError("no error")
    except AssertionError as error:
        contains(str(error), "there is no pair c:x; foregrounds: a, b; backgrounds: x, y")


def test_turns_of_pairs():
    """Each figure is compared with those around it, so that a steady drift cancels."""
    alone = [{"us": 10.0 * (i + 1)} for i in range(4)]
    equal(pairs.to_those_around("us", [{"us": 30.0}, {"us": 50.0}, {"us": 35.0}], alone), 2.0)


# It answers any order; asked to do `stuck' for some time, it never answers.
ANSWERING = r"""
import sys, time
print("start_ms=1", flush=True)
for line in sys.stdin:
    if line.split()[0] == "stuck" and float(line.split()[1]):
        time.sleep(1000)
    print("us=2\np99_us=4\nfirst_us=3\nper_s=5\ndone", flush=True)
"""


def test_pair_that_hangs():
    """Its processes end; a process is started once more, and no answer is taken for another's."""
    way = Way(OURS, dict(os.environ))
    good, stuck = (pairs.Client(way, pairs.Kind(what, [sys.executable, "-c", ANSWERING]), None)
                   for what in ("good", "stuck"))
    with mock.patch.object(pairs, "LATE_S", 0.5), mock.patch.object(pairs, "WARM_UP_S", 0):
        equal(pairs.together(good, good, 0, 0)["first"], 3 / (3 + 2))
        ended = "%s, a process of %s ended" % (OURS, sys.executable)
        for error in (ended, ended, "stuck has failed before"):
            try:
                pairs.together(good, stuck, 0.01, 0)
                raise ValueError("no error")
            except AssertionError as found:
                contains(str(found), error)
            equal((good.group, stuck.group), (None, None))


def test_document():
    """docs/performance.md has each goal and each part."""
    with open(os.path.join(ROOT, "docs", "performance.md"), encoding="utf-8") as file:
        text = file.read()
    for goal in goals.GOALS:
        contains(text, "\n| %s | %s | " % (goal.row, goals.words(goal)))
    for name in parts.PARTS:
        contains(text, "\n| `%s` | " % name)


if __name__ == "__main__":
    harness.main(globals())
