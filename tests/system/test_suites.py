#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
# without sanitizers: it tests Python code
"""The judge of `make suites`, and a run of it with a suite of this test's own."""

import collections
import os
import subprocess
import sys
import tempfile
import textwrap

import harness
from harness import contains, equal

SUITES = os.path.join(harness.ROOT, "tests", "suites")
sys.dont_write_bytecode = True
sys.path.insert(0, SUITES)

import sides  # pylint: disable=wrong-import-position
import units  # pylint: disable=wrong-import-position
import verdict  # pylint: disable=wrong-import-position

CATALOGUE = """
    TITLE, DISTRIBUTION = "fake", ""
    PACKAGE = "json"
    REQUIREMENTS = []
    SHORT = %r
    LEFT_OUT = {"test_left_out": "never ends"}
    STALL_S = 3

    def units(_):
        return UNITS + ["test_left_out"]

    def command(_, unit):
        return ["-c", "import sys; sys.path[:0] = [%%r]; import outcomes; "
                "outcomes.main(['unittest', %%r])" %% (FOLDER, unit)]
"""
HEAD = """
    import ctypes, os, signal, subprocess, time, unittest
    IS_CLIENT = "CUDA_MPS_PIPE_DIRECTORY" in os.environ

    class Test(unittest.TestCase):
        def test_gpu(self):
            self.assertEqual(ctypes.CDLL("libcuda.so.1").cuInit(0), 0)
            context = ctypes.c_void_p()
            retain = ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxRetain
            self.assertEqual(retain(ctypes.byref(context), 0), 0)
"""
FINE = """
        def test_skipped(self):
            self.skipTest("on both sides")

        def test_failed(self):
            self.fail("on both sides")

        @unittest.expectedFailure
        def test_expected(self):
            self.fail("as its authors know")
"""


def outcomes(**tests):
    return {"u:" + test: units.Outcome(outcome, 0.0, "") for test, outcome in tests.items()}


def write(folder, name, *parts):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write("".join(textwrap.dedent(part) if i == 0 else textwrap.indent(
            textwrap.dedent(part), " " * 4) for i, part in enumerate(parts)))


def run(modules, known="", *args, short=("test_fine",)):
    """Runs a suite of these modules; returns the exit code and the output."""
    if os.environ.get("MPS_SAN"):
        raise harness.Skip("Python loads no sanitized libraries through mps-run")
    with tempfile.TemporaryDirectory(prefix="mps-suites-") as folder:
        os.mkdir(folder + "/catalogue")
        about = "FOLDER = %r\nUNITS = %r\n" % (folder, sorted(modules))
        write(folder, "catalogue/fake.py", about + textwrap.dedent(CATALOGUE) % (short,))
        write(folder, "known", known)
        for name, text in modules.items():
            write(folder, name + ".py", HEAD, text)
        done = subprocess.run(
            [SUITES + "/run", "--catalogue", folder + "/catalogue", "--known", folder + "/known",
             "--out", folder + "/out", *args], capture_output=True, text=True, check=False,
            timeout=200, stdin=subprocess.DEVNULL,
            env=dict(os.environ, SUITES_PYTHON=sys.executable, SUITES_FOLDER=folder))
        return done.returncode, done.stdout + done.stderr


def test_differences():
    native = outcomes(a="passed", b="failed", c="passed", d="passed")
    client = outcomes(a="passed", b="failed", c="hang", e="passed")
    equal([tuple(one) for one in verdict.differences(native, client)],
          [("u:c", "passed", "hang"), ("u:d", "passed", "absent"), ("u:e", "absent", "passed")])
    equal(verdict.in_words(verdict.count(client)), "2 passed, 1 failed, 1 hang")


def test_known():
    known = verdict.read_known("# comment\n\ns | u:c* | passed -> any | a reason\n"
                               "s | u:x | passed -> failed | not used\n"
                               "s | v:x | passed -> failed | did not run\n")
    found = [verdict.Difference("u:c", "passed", "hang"), verdict.Difference("u:x", "failed", "passed")]
    new, explained = verdict.split_known("s", found, known)
    equal(new, found[1:])
    equal([entry.reason for _, entry in explained], ["a reason"])
    equal([entry.line for entry in verdict.unused("s", known, explained, ["u:c", "u:x"])], [4])
    equal(verdict.split_known("other", found, known)[0], found)


def test_bad_known():
    for text in ("s | u | passed -> failed", "s | u | passed | why", "s | u | passed -> lost | why",
                 "s | u | passed -> failed | ", "s | u | any -> any | why\n" * 21):
        try:
            verdict.read_known(text)
        except verdict.BadFile:
            continue
        raise AssertionError("accepted: " + text)


def test_the_file():
    """The file of the repository can be read."""
    with open(os.path.join(SUITES, "known"), encoding="utf-8") as file:
        verdict.read_known(file.read())


def test_equal():
    code, text = run({"test_fine": FINE})
    equal(code, 0, text)
    contains(text, "natively: 2 passed, 1 failed, 1 skipped")
    contains(text, "as clients: 2 passed, 1 failed, 1 skipped")
    contains(text, "left out: test_left_out: never ends")
    contains(text, "1 passed, 0 failed, 0 skipped\n")


def test_short():
    """A suite without units of a short run is left out, and not installed."""
    code, text = run({"test_fine": FINE}, "", "--short")
    equal(code, 0, text)
    contains(text, "1 passed, 0 failed, 0 skipped\n")
    code, text = run({"test_fine": FINE}, "", "--short", short=())
    equal(code, 0, text)
    contains(text, "fake: not part of a short run\n")
    contains(text, "0 passed, 0 failed, 1 skipped\n")


def test_different():
    code, text = run({"test_other": """
        def test_known(self):
            self.assertFalse(IS_CLIENT)

        def test_new(self):
            self.assertFalse(IS_CLIENT, "only natively")

        def test_unstable(self):
            path = os.environ["SUITES_FOLDER"] + "/once"
            if IS_CLIENT and not os.path.exists(path):
                open(path, "w").close()
                self.fail("the first time")
        """}, "fake | test_other:*known | passed -> failed | as this test wants\n"
                     "fake | test_other:*gpu | passed -> failed | nothing\n")
    equal(code, 1, text)
    contains(text, "DIFFERENCE: test_other:Test.test_new: passed -> failed: True is not false : only natively")
    contains(text, "known difference: test_other:Test.test_known: passed -> failed: as this test wants")
    contains(text, "unstable: test_other:Test.test_unstable: passed -> failed, but not each time")
    contains(text, "known:2 explains no difference of this run: test_other:*gpu")
    equal(text.count("DIFFERENCE"), 1, text)


def test_hang_and_crash():
    code, text = run({"test_ends": """
        def test_a_crash(self):
            os.kill(os.getpid(), signal.SIGSEGV if IS_CLIENT else 0)

        def test_b_hang(self):
            time.sleep(100 if IS_CLIENT else 0)

        def test_c_last(self):
            pass
        """})
    equal(code, 1, text)
    contains(text, "DIFFERENCE: test_ends:Test.test_a_crash: passed -> crash: exit code -11")
    contains(text, "DIFFERENCE: test_ends:Test.test_b_hang: passed -> hang: nothing for 3 s")
    contains(text, "as clients: 2 passed, 1 hang, 1 crash")


def test_left_behind():
    name = "suites-test-%d" % os.getpid()
    try:
        code, text = run({"test_leaves": """
            def test_process(self):
                if IS_CLIENT:
                    subprocess.Popen(["sleep", "77"], start_new_session=True)

            def test_file(self):
                if IS_CLIENT:
                    open("/dev/shm/%s", "w").close()
            """ % name})
    finally:
        if os.path.exists("/dev/shm/" + name):
            os.unlink("/dev/shm/" + name)
    equal(code, 1, text)
    contains(text, "LEFT BEHIND: client: process of test_leaves: sleep 77")
    contains(text, "LEFT BEHIND: client: file /dev/shm/" + name)


def look(counts):
    """What a look at a server finds, whose libraries are first one, then each of `counts` in turn."""
    class Service:
        def stats(self, _):
            now = counts.pop(0) if len(counts) > 1 else counts[0]
            return collections.Counter(libraries=now, launches=now)

    side = sides.Client.__new__(sides.Client)
    side.service, side.left = Service(), []
    side.servers = {os.getpid(): (1 << 30, 1 << 30, collections.Counter(libraries=1))}
    side.look_at(os.getpid(), "unit")
    return side.left


def test_late_end():
    """A server that unloads code a moment after its last client leaves nothing behind."""
    equal(look([3, 3, 1]), [])
    sides.END_S = 1
    equal(look([3]), ["libraries in the server after unit: 3, before 1"])


def test_lost_context():
    """After an error that stays, the other tests run in a new process."""
    code, text = run({"test_lost": """
        def test_a_lost(self):
            import outcomes
            outcomes.is_poisoned = lambda: True
            self.fail("a fault")

        def test_b_after(self):
            import outcomes
            self.assertNotEqual(outcomes.is_poisoned.__name__, "<lambda>")
        """})
    equal(code, 0, text)
    contains(text, "natively: 2 passed, 1 failed")


if __name__ == "__main__":
    harness.main(globals())
