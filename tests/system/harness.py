# SPDX-License-Identifier: Apache-2.0
"""The loop and the checks of a test script.

A test is a function test_*() without arguments; an exception makes it fail. A test that
cannot run here raises Skip with the reason. harness.main(globals()) runs the tests in
order (or those named on the command line) and ends with the line
`N passed, N failed'.
"""

import os
import random
import subprocess
import sys
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("MPS_BUILD", os.path.join(ROOT, "build")))


# The longest time of a step before it counts as hanging; sanitized interpreters are slow.
SLOW = 6 if os.environ.get("MPS_SAN") else 1


class Skip(Exception):
    """This test cannot run here; the text says why."""


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def need_mounts():
    """A namespace of mounts: root in a chroot whose root is no mount has none."""
    need_root()
    done = subprocess.run(["unshare", "--mount", "true"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip("no mount namespaces here: " + done.stderr.strip())


def equal(got, want, about=""):
    assert got == want, "got %r, want %r %s" % (got, want, about)


def contains(text, part, about=""):
    assert part in text, "%r is not in:\n%s%s" % (part, text, about)


def seed(default=None):
    """The seed of random choices: MPS_TEST_SEED, or `default'; without either, a new one each time.

    It is printed, so that a failed run can be repeated.
    """
    if default is None:
        default = random.randrange(1 << 30)
    number = int(os.environ.get("MPS_TEST_SEED") or default)
    print("    MPS_TEST_SEED=%d" % number, flush=True)
    return number


def dice(default=None):
    """Random choices from seed(default)."""
    return random.Random(seed(default))


def wait_for(what, condition, timeout_s=20.0 * SLOW):
    """Waits until condition() is true, and returns its value.

    The time limit only detects a hang: it is much longer than needed, as the machine may be busy.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.0002
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, "%s: not within %g s" % (what, timeout_s)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)


def settled(observe, still_s=0.5, timeout_s=10.0):
    """The value of observe(), once it has been stable for a while."""
    last, since = observe(), time.monotonic()
    deadline = since + timeout_s
    while time.monotonic() - since < still_s and time.monotonic() < deadline:
        time.sleep(0.05)
        now = observe()
        if now != last:
            last, since = now, time.monotonic()
    return last


def main(names):
    tests = [(n, f) for n, f in names.items() if n.startswith("test_") and callable(f)]
    if len(sys.argv) > 1:
        tests = [(n, f) for n, f in tests if n in sys.argv[1:]]
    # Files of a test are for other users too, whatever the caller's umask is.
    os.umask(0o022)
    passed = failed = 0
    for name, test in tests:
        began = time.monotonic()
        try:
            test()
        except Skip as why:
            print("  %s skipped: %s" % (name, why))
            continue
        except Exception:  # a failed test does not end the others
            failed += 1
            print("  %s FAILED (%.1f s)" % (name, time.monotonic() - began))
            traceback.print_exc(file=sys.stdout)
        else:
            passed += 1
            print("  %s ok (%.1f s)" % (name, time.monotonic() - began))
        sys.stdout.flush()
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)
