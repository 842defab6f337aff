#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# without sanitizers: it tests Python code
"""What `tests/gpu/run shares' makes of the speeds that it measures."""

import os
import sys

import harness
from harness import equal

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(harness.ROOT, "tests", name) for name in ("gpu", "bench")]

import share_steps  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position


def speeds(speed):
    return dict.fromkeys(share_steps.WAYS, speed)


def a_round(before, alone, four, after):
    return share_steps.Round(speeds(before), speeds(alone), [speeds(speed) for speed in four],
                             speeds(after))


def verdicts(*rounds):
    """Of three rows: enough rounds count; a client with a quarter, alone; four such clients."""
    del table.ROWS[:]
    share_steps.report_way(list(rounds), "plain")
    return [good for _, _, _, good in table.ROWS if good is not None]


RIGHT = a_round(100, 25, [24, 25, 22, 23], 101)


def test_rounds_that_count():
    equal(verdicts(RIGHT, RIGHT), [True, True, True])
    equal(verdicts(RIGHT, a_round(100, 31, [25, 25, 25, 25], 100)), [True, False, True])
    equal(verdicts(RIGHT, a_round(100, 25, [25, 25, 25, 19], 100)), [True, True, False])


def test_rounds_that_do_not_count():
    disturbed = a_round(100, 21, [17, 16, 19, 17], 16)
    equal(verdicts(disturbed), [False, False, False])
    equal(verdicts(RIGHT, disturbed), [False, True, True], "too few")
    equal(verdicts(RIGHT, disturbed, RIGHT), [True, True, True])


def test_rounds_are_repeated_until_enough_count():
    whole = iter([100, 16, 100, 100, 100])
    old = share_steps.numbers, share_steps.four_at_once
    share_steps.numbers = lambda *_, env=None: speeds(25 if env else next(whole))
    share_steps.four_at_once = lambda _: [speeds(25)] * 4
    try:
        rounds = share_steps.measured_rounds(None)
    finally:
        share_steps.numbers, share_steps.four_at_once = old
    equal([each.counts("plain") for each in rounds], [False, False, True, True])


if __name__ == "__main__":
    harness.main(globals())
