#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""The instructions of a launch, in the client and in the server, beside those of an earlier day.

    tests/system/test_instructions.py --record

writes instructions.txt anew for the compiler of this build. Do that after a change that makes a
launch cheaper, or dearer for a reason; the commit says which.
"""

import os
import re
import subprocess
import sys
import tempfile

import callgrind
import harness
import mps
from harness import Skip, contains, equal

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.txt")
# Counts of one build differ by less than 1 %.
GROWTH_MAX = 1.10
FEW, MANY = 320, 960
BATCHES = os.path.join(harness.BUILD, "tests", "test_server_launch_batch")


def compiler():
    """Which compiler has made the library, as it says itself."""
    said = subprocess.run(["readelf", "-p", ".comment", mps.LIBRARY], capture_output=True,
                          text=True, check=True).stdout
    found = {"%s %s" % pair for pair in re.findall(r"(GCC|clang)\b.*?(\d+\.\d+\.\d+)$", said, re.M)}
    return " and ".join(sorted(found))


def recorded():
    """{compiler: {what: instructions}}"""
    found = {}
    with open(RECORD, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                who, what, number = line.strip().split(": ")
                found.setdefault(who, {})[what] = int(number)
    return found


def profile(function, path, run):
    """The instructions of our code within a function; run(command) runs under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        run([mps.need_program("valgrind"), "--tool=callgrind", "--callgrind-out-file=" + out,
             "--collect-atstart=no", "--toggle-collect=" + function, *path])
        with open(out, encoding="utf-8", errors="replace") as file:
            return callgrind.own_instructions(file.read())


def per_launch(count):
    """Instructions of one launch, from a count of few launches and one of many."""
    return round((count(MANY) - count(FEW)) / (MANY - FEW))


def client():
    with mps.Service() as service:
        def run(command):
            code, out, err = service.run(*command, timeout=100)
            equal(code, 0, out + err)
            contains(out, "many_launches: ok")
        return per_launch(lambda n: profile(
            "cuLaunchKernel", [mps.program("many_launches"), str(n)], run))


def server(burst):
    def run(command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
    return per_launch(lambda n: profile(
        "harness_serve", [BATCHES, str(n // burst), str(burst)], run))


FIGURES = {"client, a launch": client,
           "server, a launch alone": lambda: server(1),
           "server, a launch in a burst of 16": lambda: server(16)}


def need_plain_build():
    if os.environ.get("MPS_SAN") or any(name.startswith("GCOV_") for name in os.environ):
        raise Skip("this build has instructions of its own")


def check(what):
    need_plain_build()
    mps.need_program("valgrind")
    known = recorded().get(compiler())
    if not known:
        raise Skip("%s has no line for %s: --record adds them" % (
            os.path.basename(RECORD), compiler()))
    count = FIGURES[what]()
    print("    %s: %d instructions, recorded %d" % (what, count, known[what]))
    assert count > 0, "nothing was counted"
    assert count <= GROWTH_MAX * known[what], (
        "%s: %d instructions, more than 10 %% above the recorded %d. If there is a reason, record "
        "the new number with tests/system/test_instructions.py --record" % (
            what, count, known[what]))


def test_client():
    check("client, a launch")


def test_server_alone():
    check("server, a launch alone")


def test_server_burst():
    check("server, a launch in a burst of 16")


def test_own_code():
    """A profile's lines count once, if they are of this project, and inlined code counts too."""
    equal(callgrind.own_instructions(
        "fl=(1) /a/tests/server/main.c\nfn=(1) f\n10 5\n+1 7\nfi=(2) /a/./include/base.h\n* 3\nfe=(1)\n11 2\n"
        "cfi=(3) /usr/x.c\ncfn=(2) g\ncalls=1 0\n12 1000\nfl=(3)\nfn=(2)\n0 900\n"
        "fl=(4) /a/server/tests/fuzz/replay.c\nfn=(3) h\n1 50\n"
        "fl=(5) /a/server/build/gen/send.c\nfn=(4) i\n1 4\n"), 21)


def record():
    lines = ["# Instructions of a launch (test_instructions.py): compiler: what: how many"]
    known = recorded()
    known[compiler()] = {what: count() for what, count in FIGURES.items()}
    for who in sorted(known):
        lines += ["%s: %s: %d" % (who, *pair) for pair in known[who].items()]
    with open(RECORD, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        harness.main(globals())
