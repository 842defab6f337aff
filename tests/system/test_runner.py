#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# without sanitizers: it tests Python code
"""The test runner itself: every kind of error in a test counts as a failure."""

import os
import subprocess
import sys
import tempfile

import harness

RUN = os.path.join(harness.ROOT, "tests", "run")


def runner_of(scripts, *args, mode=0o755, env=None):
    """Runs the runner with scripts by name; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, script in scripts.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            os.chmod(path, mode)
        done = subprocess.run([sys.executable, RUN, "--folder", folder, "--grace", "0.5", *args],
                              env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout


def runner(script, *args, **more):
    """The same for one script."""
    return runner_of({"test_it": script}, *args, **more)


def expect(script, code, last, says, *args):
    got, output = runner(script, *args)
    harness.equal(output.splitlines()[-1], last, output)
    harness.equal(got, code, output)
    harness.contains(output, says)


def test_pass():
    expect("#!/bin/sh\necho 3 passed, 0 failed\n", 0, "3 passed, 0 failed", "ok ")


def test_silent_pass():
    expect("#!/bin/sh\nexit 0\n", 0, "1 passed, 0 failed", "ok ")


def test_cmocka():
    expect("#!/bin/sh\necho '[  PASSED  ] 4 test(s).' >&2\n"
           "echo '[  FAILED  ] group: 2 test(s), listed below:' >&2\nexit 2\n",
           1, "4 passed, 2 failed", "exit code 2")


def test_fail():
    expect("#!/bin/sh\necho 3 passed, 2 failed\nexit 1\n", 1, "3 passed, 2 failed", "exit code 1")


def test_liar():
    expect("#!/bin/sh\necho 3 passed, 0 failed\nexit 1\n", 1, "3 passed, 1 failed", "exit code 1")
    expect("#!/bin/sh\necho 3 passed, 1 failed\n", 1, "3 passed, 1 failed", "exits with 0")


def test_not_executable():
    code, output = runner("#!/bin/sh\nexit 0\n", mode=0o644)
    harness.equal((code, output.splitlines()[-1]), (1, "0 passed, 1 failed"))
    harness.contains(output, "chmod +x")


def test_strays():
    """What Python or an editor leaves beside a script is no test."""
    code, output = runner_of({"test_it.py": "#!/bin/sh\nexit 0\n", "test_it.pyc": "\0",
                              "test_it.py~": "#!/bin/sh\nexit 1\n"})
    harness.equal((code, output.splitlines()[-1]), (0, "1 passed, 0 failed"), output)


def test_crash():
    expect("#!/bin/sh\necho 3 passed, 0 failed\nkill -SEGV $$\n",
           1, "3 passed, 1 failed", "ended by signal 11")


def test_hang():
    expect("#!/bin/sh\nsleep 50\n", 1, "0 passed, 1 failed", "not done after 1 s", "--limit", "1")
    expect("#!/bin/sh\n# time limit: 1 s\ntrap '' TERM\nsleep 50\nsleep 50\n",
           1, "0 passed, 1 failed", "not done after 1 s")


def test_leftover():
    expect("#!/bin/sh\nsetsid sleep 50 &\nsleep 0.3\n", 1, "0 passed, 1 failed", "left behind: sleep")


def test_longest_first():
    """Two at a time: the third starts when one of the two with longer limits has ended."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "began")
        scripts = {"test_%s" % name: "#!/bin/sh\n# time limit: %d s\necho %s >>%s\nsleep 0.3\n" % (
            limit, name, log) for name, limit in (("a", 20), ("b", 60), ("c", 40))}
        code, output = runner_of(scripts, "--jobs", "2")
        harness.equal((code, output.splitlines()[-1]), (0, "3 passed, 0 failed"))
        with open(log, encoding="utf-8") as file:
            began = file.read().split()
        harness.equal((sorted(began[:2]), began[2:]), (["b", "c"], ["a"]))


def test_waits_beside():
    """Two at a time, and a third that mostly waits: each ends only when all three have begun."""
    with tempfile.TemporaryDirectory() as folder:
        wait = "cd %s; touch $$\nuntil [ $(ls | wc -l) = 3 ]; do sleep 0.05; done\n" % folder
        scripts = {"test_a": "#!/bin/sh\n" + wait, "test_b": "#!/bin/sh\n" + wait,
                   "test_c": "#!/bin/sh\n# mostly waits\n" + wait}
        code, output = runner_of(scripts, "--jobs", "2", "--limit", "20")
        harness.equal((code, output.splitlines()[-1]), (0, "3 passed, 0 failed"), output)


def test_without_sanitizers():
    script = "#!/bin/sh\n# without sanitizers: they would be slow\nexit 0\n"
    for value, last in (None, "1 passed, 0 failed"), ("address", "0 passed, 1 failed"):
        env = {key: text for key, text in os.environ.items() if key != "MPS_SAN"}
        env.update({"MPS_SAN": value} if value else {})
        code, output = runner(script, env=env)
        harness.equal((code, output.splitlines()[-1]), (int(value is not None), last))


def test_none():
    expect("#!/bin/sh\n", 1, "0 passed, 1 failed", "no tests found", "nothing-has-this-name")


if __name__ == "__main__":
    harness.main(globals())
