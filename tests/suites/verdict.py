# SPDX-License-Identifier: Apache-2.0
"""Compares the outcomes of both sides, and knows which differences have a reason.

A line of the file `known' is `SUITE | TEST | NATIVE -> CLIENT | REASON'. TEST is a pattern of the
shell for `UNIT:TEST', NATIVE and CLIENT are outcomes or `any'.
"""

import collections
import fnmatch

KNOWN_MAX = 20
OUTCOMES = ("passed", "failed", "skipped", "error", "hang", "crash", "not run")
ABSENT = "absent"

Difference = collections.namedtuple("Difference", "test native client")
Known = collections.namedtuple("Known", "suite pattern native client reason line")


class BadFile(Exception):
    """The file of known differences breaks a rule."""


def read_known(text):
    """The entries of the file, each with a reason."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = [word.strip() for word in line.split("|")]
        native, arrow, client = words[2].partition(" -> ") if len(words) == 4 else ("", "", "")
        if not (arrow and words[3]):
            raise BadFile("known:%d: want SUITE | TEST | NATIVE -> CLIENT | REASON" % number)
        for outcome in (native, client):
            if outcome not in OUTCOMES + ("any", ABSENT):
                raise BadFile("known:%d: no such outcome: %s" % (number, outcome))
        found.append(Known(words[0], words[1], native, client, words[3], number))
    if len(found) > KNOWN_MAX:
        raise BadFile("known: %d entries, and %d are allowed" % (len(found), KNOWN_MAX))
    return found


def covers(known, suite, difference):
    """Whether the entry is about this difference."""
    return (known.suite == suite and fnmatch.fnmatchcase(difference.test, known.pattern)
            and known.native in ("any", difference.native)
            and known.client in ("any", difference.client))


def outcome_of(outcomes, test):
    return outcomes[test].outcome if test in outcomes else ABSENT


def differences(native, client):
    """The tests whose outcomes differ, in the order of their names."""
    found = []
    for test in sorted(set(native) | set(client)):
        pair = outcome_of(native, test), outcome_of(client, test)
        if pair[0] != pair[1]:
            found.append(Difference(test, *pair))
    return found


def split_known(suite, found, known):
    """Returns (differences without a reason, pairs of difference and entry)."""
    new, explained = [], []
    for difference in found:
        entry = next((one for one in known if covers(one, suite, difference)), None)
        if entry:
            explained.append((difference, entry))
        else:
            new.append(difference)
    return new, explained


def unused(suite, known, explained, tests):
    """Entries of the suite that explained nothing, although their tests ran."""
    used = {entry.line for _, entry in explained}
    return [entry for entry in known if entry.suite == suite and entry.line not in used
            and any(fnmatch.fnmatchcase(test, entry.pattern) for test in tests)]


def count(outcomes):
    """How many tests there are of each outcome; `(end)' and the like are no tests."""
    counted = collections.Counter()
    for test, outcome in outcomes.items():
        if not test.partition(":")[2].startswith("("):
            counted[outcome.outcome] += 1
    return counted


def in_words(counted):
    """The counts as text, in the order of OUTCOMES."""
    said = ["%d %s" % (counted[outcome], outcome) for outcome in OUTCOMES if counted[outcome]]
    return ", ".join(said) or "no test"
