# SPDX-License-Identifier: Apache-2.0
"""Runs a unit of a suite, such as a module of tests, in processes of its own.

A test during which the process dies has crashed, a test that reports nothing for too long hangs.
What is left of the unit then runs in a new process, as it does after an error that stays with the
context. A test that never began is `not run', which is an outcome, too.
"""

import collections
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import mps

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "SUITES_UNIT"
CRASH, HANG, NOT_RUN, PASSED = "crash", "hang", "not run", "passed"
# Of the process as a whole.
END = "(end)"
LATE = "time limit of the unit"

# Set by a signal: processes end, and no further one starts.
STOP = threading.Event()

Outcome = collections.namedtuple("Outcome", "outcome seconds detail")


class Attempt:
    """One process of a unit, and what it has reported so far."""

    def __init__(self, words, env, folder, log):
        self.results = os.path.join(folder, "results")
        with open(self.results, "w", encoding="utf-8"):
            pass
        self.offset, self.is_done = 0, False
        self.found, self.ended, self.running = [], {}, {}
        self.heard = time.monotonic()
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                words, env=dict(env, SUITES_RESULTS=self.results), cwd=folder,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def read(self):
        """Takes in the whole lines that are new."""
        with open(self.results, "rb") as file:
            file.seek(self.offset)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self.offset += len(text)
        for line in text.decode("utf-8", "replace").splitlines():
            self.heard = time.monotonic()
            self.take(line.split("\t"))

    def take(self, words):
        """One line, by its first word (outcomes.py)."""
        if words[0] == "found":
            self.found.append(words[1])
        elif words[0] == "begin":
            self.running[words[1]] = time.monotonic()
        elif words[0] == "end" and len(words) == 5:
            self.running.pop(words[1], None)
            self.ended[words[1]] = Outcome(words[2], float(words[3]), words[4])
        elif words[0] == "done":
            self.is_done = True

    def wait(self, stall_s, deadline):
        """Waits for the end; returns None, or why the process was ended."""
        while self.process.poll() is None:
            self.read()
            is_late = STOP.is_set() or time.monotonic() > deadline
            if is_late or time.monotonic() > self.heard + stall_s:
                self.kill()
                self.read()
                return LATE if is_late else "nothing for %d s" % stall_s
            time.sleep(0.02)
        self.read()
        return None

    def kill(self):
        """Ends the process, which first writes its stacks into the log (faulthandler)."""
        for number in (signal.SIGABRT, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
            except (subprocess.TimeoutExpired, ProcessLookupError):
                pass

    @staticmethod
    def kind(why):
        """What became of a test during which the process ended."""
        if not why:
            return CRASH
        return NOT_RUN if why == LATE else HANG

    def interrupted(self, why):
        """Outcomes of the tests that the end of the process has interrupted."""
        kind = self.kind(why)
        why = why or "exit code %d" % self.process.returncode
        now = time.monotonic()
        return {test: Outcome(kind, now - began, why) for test, began in self.running.items()}

    def end(self, why):
        """How the process ended after its last test."""
        if why:
            return Outcome(self.kind(why), 0, why)
        if self.process.returncode < 0:
            return Outcome(CRASH, 0, "signal %d at the end" % -self.process.returncode)
        return Outcome(PASSED, 0, "")


class Unit:
    """A unit on one side; run() returns the outcome of each test by its name."""

    def __init__(self, suite, side, name, log):
        self.suite, self.side, self.name, self.log = suite, side, name, log
        self.left = []
        self.seconds = 0.0

    def run(self, only=None):
        """Runs all tests, or `only' these."""
        folder = tempfile.mkdtemp(prefix="mps-suite-")
        began = time.monotonic()
        try:
            return self.run_in(folder, only, began + self.suite.unit_limit_s)
        finally:
            self.seconds = time.monotonic() - began
            shutil.rmtree(folder, ignore_errors=True)

    def environment(self, folder, finished, only):
        """The variables of the process; also in its children, to find them."""
        env = dict(self.side.env, **self.suite.env)
        env.update({MARK: folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1",
                    "PYTHONPATH": HERE, "PYTHONUNBUFFERED": "1"})
        for variable, names in (("SUITES_SKIP", finished), ("SUITES_ONLY", only),
                                ("SUITES_LEFT_OUT", self.suite.left_out_tests(self.name))):
            if names is None:
                continue
            env[variable] = os.path.join(folder, variable)
            with open(env[variable], "w", encoding="utf-8") as file:
                file.write("".join(name + "\n" for name in names))
        for variable in self.suite.folders:
            env[variable] = os.path.join(folder, variable)
            os.makedirs(env[variable], exist_ok=True)
        return env

    def run_in(self, folder, only, deadline):
        """Processes, one after the other, until each test has an outcome."""
        finished, found = {}, {}
        words = self.side.words(self.suite.words(self.name))
        while True:
            attempt = Attempt(words, self.environment(folder, finished, only), folder, self.log)
            try:
                why = attempt.wait(self.suite.stall_s, deadline)
            except BaseException:  # such as a signal to the main thread
                attempt.kill()
                raise
            found.update(dict.fromkeys(attempt.found))
            fresh = dict(attempt.interrupted(why), **attempt.ended)
            finished.update(fresh)
            self.remove_processes(folder)
            if attempt.is_done:
                finished[END] = attempt.end(why)
                break
            if not fresh or STOP.is_set() or time.monotonic() > deadline:
                finished[END] = attempt.end(why) if why else Outcome(
                    CRASH, 0, "exit code %d" % attempt.process.returncode)
                break
        for test in found:
            finished.setdefault(test, Outcome(NOT_RUN, 0, finished[END].detail))
        return finished

    def remove_processes(self, folder):
        """Notes and ends what the unit's process has left running."""
        deadline = time.monotonic() + 5
        while (pids := mps.processes_with(MARK, folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in pids:
            self.left.append("process of %s: %s" % (self.name, mps.command_line(pid)))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
