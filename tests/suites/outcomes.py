# SPDX-License-Identifier: Apache-2.0
"""Reports what each test of a unit does, while the unit runs, so that a crash loses nothing.

Runs in the process of the unit, in one of three ways:

    pytest -p outcomes ...                  as a plugin of pytest
    outcomes.py unittest MODULE             runs a module of unittest
    outcomes.run_functions(functions)       in a program that imports this module

A line of the file SUITES_RESULTS is `found TEST', `begin TEST', `end TEST OUTCOME SECONDS DETAIL'
or `done', with tabs between the words. Tests in the file SUITES_SKIP have run before; where
SUITES_ONLY is set, only the tests in that file run. The file SUITES_LEFT_OUT has patterns of the
shell for tests that do not run. After an error that stays with the context,
the process ends with the status POISONED: the tests that are left need a new process.
"""

import ctypes
import faulthandler
import fnmatch
import os
import sys
import time
import traceback
import unittest

PASSED, FAILED, SKIPPED, ERROR = "passed", "failed", "skipped", "error"
POISONED = 75
# Results of the driver after which every other call in this context fails, too.
STICKY = {214, 220, 221, 226, 700, 702, 707, 709, 710, 714, 715, 716, 717, 718, 719, 720, 721,
          805, 806, 807, 809, 999}


def names_in(variable):
    """The lines of the file that the variable names; None if it is not set."""
    path = os.environ.get(variable)
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return set(file.read().split("\n")) - {""}


def one_line(text):
    """The last line of a text that says anything, without tabs."""
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[-1].replace("\t", " ")[:300] if lines else ""


def is_poisoned():
    """Whether the context of this process has an error that stays."""
    try:
        sync = ctypes.CDLL("libcuda.so.1").cuCtxSynchronize
    except (OSError, AttributeError):
        return False
    return sync() in STICKY


class Report:
    """Writes the lines, and knows which tests are wanted."""

    def __init__(self):
        self.file = open(os.environ["SUITES_RESULTS"], "a", encoding="utf-8", buffering=1)
        self.skip = names_in("SUITES_SKIP") or set()
        self.only = names_in("SUITES_ONLY")
        self.left_out = names_in("SUITES_LEFT_OUT") or set()
        self.began = {}
        faulthandler.enable()

    def say(self, *words):
        self.file.write("\t".join(words) + "\n")

    def found(self, names):
        """Says which tests there are, and returns those that are to run now."""
        wanted = [name for name in names if (self.only is None or name in self.only)
                  and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.left_out)]
        for name in wanted:
            self.say("found", name)
        return [name for name in wanted if name not in self.skip]

    def begin(self, name):
        self.began[name] = time.monotonic()
        self.say("begin", name)

    def end(self, name, outcome, detail=""):
        """The outcome of a test. Does not return if the context is lost."""
        seconds = time.monotonic() - self.began.pop(name, time.monotonic())
        self.say("end", name, outcome, "%.3f" % seconds, one_line(detail))
        if outcome in (FAILED, ERROR) and is_poisoned():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(POISONED)

    def done(self):
        self.say("done")


# ---- pytest

class Plugin:
    """Hooks of pytest."""

    def __init__(self):
        self.report = Report()
        self.worst = {}

    @staticmethod
    def name_of(nodeid):
        return nodeid.partition("::")[2] or "(module)"

    @staticmethod
    def why(report):
        """The message of the error, or the reason to skip."""
        if isinstance(report.longrepr, tuple):
            return report.longrepr[2]
        crash = getattr(report.longrepr, "reprcrash", None)
        return crash.message.partition("\n")[0] if crash else report.longreprtext

    def pytest_collectreport(self, report):
        """A module that cannot be imported, or that skips itself."""
        if report.failed or report.skipped:
            name = "(module)"
            self.report.say("found", name)
            self.report.end(name, ERROR if report.failed else SKIPPED, self.why(report))

    def pytest_collection_modifyitems(self, items):
        names = [self.name_of(item.nodeid) for item in items]
        wanted = set(self.report.found(names))
        items[:] = [item for item, name in zip(items, names) if name in wanted]

    def pytest_runtest_logstart(self, nodeid):
        self.worst[nodeid] = (PASSED, "")
        self.report.begin(self.name_of(nodeid))

    def pytest_runtest_logreport(self, report):
        """Set-up, call and end of a test are reported one after the other."""
        if report.outcome == "passed" or self.worst[report.nodeid][0] in (FAILED, ERROR):
            return
        if hasattr(report, "wasxfail"):
            return
        outcome = SKIPPED if report.skipped else FAILED if report.when == "call" else ERROR
        self.worst[report.nodeid] = (outcome, self.why(report))

    def pytest_runtest_logfinish(self, nodeid):
        self.report.end(self.name_of(nodeid), *self.worst.pop(nodeid))

    def pytest_sessionfinish(self):
        self.report.done()


def pytest_configure(config):
    """pytest calls this: the module itself is the plugin."""
    config.pluginmanager.register(Plugin(), "outcomes-report")


# ---- unittest

def short_name(test):
    """Class and name of a test of unittest, which are unique in its module."""
    return ".".join(test.id().split(".")[-2:])


class Result(unittest.TextTestResult):
    """Reports the worst outcome of a test and its subtests when the test has ended."""

    report = None

    def __init__(self, *args):
        super().__init__(*args)
        self.outcome = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome = (PASSED, "")
        self.report.begin(short_name(test))

    def note(self, outcome, detail):
        if self.outcome is None:  # of a class or module, outside any test
            self.report.end("(set-up)", outcome, detail)
        elif self.outcome[0] not in (FAILED, ERROR):
            self.outcome = (outcome, detail)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(FAILED, err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(ERROR, err[1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(FAILED if issubclass(err[0], test.failureException) else ERROR, err[1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(SKIPPED, reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(FAILED, "unexpected success")

    def stopTest(self, test):
        super().stopTest(test)
        outcome, self.outcome = self.outcome, None
        self.report.end(short_name(test), *outcome)


def tests_of(suite):
    """The tests in a suite of suites."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            yield one


def run_unittest(module):
    """Runs the wanted tests of a module, with the set-up of its classes."""
    Result.report = report = Report()
    tests = {short_name(test): test
             for test in tests_of(unittest.defaultTestLoader.loadTestsFromName(module))}
    wanted = report.found(tests)
    suite = unittest.TestSuite(tests[name] for name in wanted)
    unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    report.done()


# ---- a program of functions

def run_functions(functions):
    """Runs functions, by name; one that raises an exception has failed."""
    report = Report()
    for name in report.found(functions):
        report.begin(name)
        try:
            functions[name]()
        except unittest.SkipTest as why:
            report.end(name, SKIPPED, why)
        except Exception as error:  # pylint: disable=broad-exception-caught
            print("==== %s" % name)
            traceback.print_exc(file=sys.stdout)
            report.end(name, FAILED, "%s: %s" % (type(error).__name__, error))
        else:
            report.end(name, PASSED)
    report.done()


def main(words):
    """The command line."""
    assert words[0] == "unittest", words
    run_unittest(words[1])


if __name__ == "__main__":
    main(sys.argv[1:])
