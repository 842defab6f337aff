# SPDX-License-Identifier: Apache-2.0
"""The matrix of contexts: what each driver call answers without the context of its objects.

build/bin/contexts makes the calls. tests/contexts/driver.txt has the answers of a real driver, and
tests/contexts/differences says what differs from them on purpose.
"""

import fnmatch
import os
import subprocess

import harness
import mps
from harness import equal

FOLDER = os.path.join(harness.ROOT, "tests", "contexts")
PROGRAM = os.path.join(harness.BUILD, "bin", "contexts")
STATES = ("own", "none", "null", "other", "dead", "stale", "reset")
# What the driver does to a program that uses an object after its end: in a client, only the program
# must survive. And what was not measured.
UNDEFINED = {"crash", "hang", "fixture", "refused", "absent", "-"}
# Only a reason that begins with the word, and with a colon, allows it.
DEADLY = {"crash", "hang"}
# The answer of a call that the software GPU does not serve, and of one without arguments for that.
UNSERVED = {"801", "fixture"}
NOT_RUN = "-"


def run(env):
    """{call: {state: result}}"""
    # A busy machine is no hang.
    done = subprocess.run([PROGRAM, "--hang-ms", "20000"], env=env, capture_output=True, text=True,
                          timeout=200 * mps.SLOW, check=False)
    equal(done.returncode, 0, done.stderr)
    return read_results(done.stdout.splitlines())


def read_results(lines):
    """Of the lines that the program prints."""
    found = {}
    for line in lines:
        if not line.startswith("#"):
            call, state, result = line.split()
            found.setdefault(call, dict.fromkeys(STATES, NOT_RUN))[state] = result
    return found


def table(found):
    lines = ["# call " + " ".join(STATES)]
    return lines + [" ".join((call, *row.values())) for call, row in found.items()]


def read_table():
    with open(os.path.join(FOLDER, "driver.txt"), encoding="utf-8") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    return {row[0]: dict(zip(STATES, row[1:])) for row in rows}


class Difference:
    """A line of the file: cells that differ on purpose."""

    def __init__(self, line):
        self.line = line
        self.side, self.call, states, self.reason = line.split(None, 3)
        self.states = STATES if states == "*" else tuple(states.split(","))
        # A handle or an address may belong to a new object already, or not.
        self.is_used = self.states == ("stale",)

    def covers(self, call, state):
        return state in self.states and fnmatch.fnmatchcase(call, self.call)


def read_differences(who):
    with open(os.path.join(FOLDER, "differences"), encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return [d for d in map(Difference, lines) if d.side in (who, "both")]


def is_same(ours, driver):
    if ours in DEADLY:
        return False
    return ours in (driver, NOT_RUN) or (driver in UNDEFINED and ours not in UNDEFINED)


def unexplained(found, who):
    """Cells that differ without a reason, and reasons that no cell needs."""
    driver, differences, wrong = read_table(), read_differences(who), []
    equal(sorted(set(found) ^ set(driver)), [], "tests/contexts/driver.txt has all calls")
    for call, row in found.items():
        if who == "softgpu" and row["own"] in UNSERVED:
            continue
        for state in STATES:
            if is_same(row[state], driver[call][state]):
                continue
            covering = [d for d in differences if d.covers(call, state)
                        and (row[state] not in DEADLY or d.reason.startswith(row[state] + ":"))]
            for difference in covering:
                difference.is_used = True
            if not covering:
                wrong.append("%s %s: %s, the driver %s"
                             % (call, state, row[state], driver[call][state]))
    return wrong, [d.line for d in differences if not d.is_used]
