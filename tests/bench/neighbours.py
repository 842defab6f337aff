# SPDX-License-Identifier: Apache-2.0
"""A client that waits for each launch, alone and beside a client whose work may delay it."""

import contextlib

import mps
from goals import BESIDE
from group import Group
from rounds import alternate, divide
from ways import end_all

ROUNDS = 2
# In these seconds a neighbour has to end; it usually ends after one turn.
END_S = 60


@contextlib.contextmanager
def disturbed(way, what):
    """A neighbour that does that; it has done it once."""
    process = way.start([mps.program("disturb"), what, "60"])
    try:
        line = process.stdout.readline()
        assert line == "disturb: running\n", "%s, disturb %s: %s" % (
            way.name, what, line + process.stdout.read())
        yield
        process.terminate()
        process.wait(END_S)
        text = process.stdout.read()
        assert text.endswith("disturb: ok\n"), "%s, disturb %s: %s" % (way.name, what, text)
    finally:
        process.kill()
        end_all([process])


def tail(group, seconds):
    """p99 of launch + sync."""
    return {"p99": group.measure("sync", seconds)[0]["p99_us"]}


def tail_beside(group, seconds, what):
    with disturbed(group.way, what):
        return tail(group, seconds)


def measure(ways, options, results):
    seconds = 2 * options.seconds
    with contextlib.ExitStack() as stack:
        groups = {way: stack.enter_context(Group(way)) for way in ways}
        alone = alternate(ways, ROUNDS, lambda way: tail(groups[way], seconds))["p99"]
        results.add("p99 alone", "us", alone)
        for what in BESIDE:
            with results.attempt("p99 beside %s" % what):
                found = alternate(ways, ROUNDS, lambda way, what=what: tail_beside(
                    groups[way], seconds, what))["p99"]
                results.add("p99 beside %s" % what, "us", found)
                results.add("p99 beside %s / alone" % what, "", divide(found, alone))
