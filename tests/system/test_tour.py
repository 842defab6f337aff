#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tour.md: each step is in its file, and leads to the next one.

A step is `FILE:NAME', a function or an object; FILE of generated code begins with gen/. Within
a list, a step leads to the next if the code of either names the other. A list leads to the next of
its flow if a message or a frame of the first is handled in the other, or if one of its names
occurs there.
"""

import os
import re

import harness
from harness import ROOT, equal

BUILD = os.environ.get("MPS_BUILD", os.path.join(ROOT, "build"))
STEP = re.compile(r"^(\d+)\. `([\w./]+):(\w+)`: (.+)", re.M)
FLOWS = 8


def read(path):
    base = BUILD if path.startswith("gen/") else ROOT
    with open(os.path.join(base, path), encoding="utf-8") as file:
        return file.read()


def flows():
    """title -> its lists of steps: (file, name)."""
    found = {}
    for section in re.split(r"^## ", read("docs/tour.md"), flags=re.M)[1:]:
        title, lists = section.split("\n", 1)[0], []
        for number, path, name, _ in STEP.findall(section):
            if number == "1":
                lists.append([])
            equal(len(lists[-1]) + 1, int(number), "the number of %s" % name)
            lists[-1].append((path, name))
        found[title] = lists
    return found


def definition(path, name):
    """The text that defines a name in a file; None if there is none."""
    text = read(path)
    found = (re.search(r"^[A-Za-z_][^;{}=]*?\b%s\([^;{]*\)\n\{\n.*?^\}" % name, text, re.M | re.S)
             or re.search(r"^[A-Za-z_][^;()=]*\b%s(?:\[\w*\])* = .*?^\};" % name, text,
                          re.M | re.S))
    return found.group(0) if found else None


def words(step):
    return set(re.findall(r"\w+", definition(*step)))


def leads(step, following):
    return following[1] in words(step) or step[1] in words(following)


def frames(step):
    return {word for word in words(step) if word.startswith("FRAME_")}


def list_leads(steps, following):
    """Whether a message, a frame or a shared name leads from one list to the next."""
    sent = {step[1][len("send_"):] for step in steps if step[1].startswith("send_")}
    done = {step[1][len("do_"):] for step in following if step[1].startswith("do_")}
    if following[0][1].startswith(("local_", "answer_")):
        return True  # the program calls
    if sent & done or (sent and any(name.startswith("dispatch_") for _, name in following)):
        return True
    if frames(steps[-1]) & frames(following[0]):
        return True
    return any(leads(a, b) or (words(a) & words(b) & SHARED) for a in steps for b in following)


# What a thread or call leaves for another without calling it.
SHARED = {"is_ending", "is_done", "capture", "default_file", "limits", "quota", "faults"}


def test_steps_exist():
    for title, lists in flows().items():
        for path, name in sum(lists, []):
            assert definition(path, name), "%s: %s has no %s" % (title, path, name)


def test_each_step_leads_to_the_next():
    for title, lists in flows().items():
        for steps in lists:
            for step, following in zip(steps, steps[1:]):
                assert leads(step, following), "%s: %s:%s does not lead to %s:%s" % (
                    title, *step, *following)


def test_each_list_leads_to_the_next():
    for title, lists in flows().items():
        for steps, following in zip(lists, lists[1:]):
            assert list_leads(steps, following), "%s: %s does not lead to %s" % (
                title, steps[-1][1], following[0][1])


def test_flows():
    equal(len(flows()), FLOWS)
    for title, lists in flows().items():
        assert sum(map(len, lists)) > 8, title


if __name__ == "__main__":
    harness.main(globals())
