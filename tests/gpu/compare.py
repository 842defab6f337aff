# SPDX-License-Identifier: Apache-2.0
"""Compares the results of clients with those of native runs.

A result that is equal in every native run, to the last bit, must be equal in every client. Other
results differ natively too, as the parts of a sum are added in random order: a client's may then
differ from the nearest native one by TIMES the largest difference of two native ones.
"""

import itertools
import json
import math
import re

# A few native runs show less than the largest possible difference.
TIMES = 4
# One rounding relative to the largest number, for a native spread that the samples do not show.
ROUNDING = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10,
            "bfloat16": 2.0 ** -7, "complex64": 2.0 ** -23, "complex128": 2.0 ** -52}
EQUAL, WITHIN, WRONG = "equal", "within", "wrong"


def told(text, kind):
    """The lines of that kind ("record", "note") in a program's output, by name."""
    found = {}
    for line in text.splitlines():
        if line.startswith('{"%s": ' % kind):
            said = json.loads(line)
            name = said.pop(kind)
            assert name not in found, "two results are called %r" % name
            found[name] = said
    return found


def same(one, other):
    return all(one.get(key) == other.get(key) for key in ("digest", "text", "type"))


def apart(one, other):
    """The largest difference of two records' samples, and that of their norms."""
    if "text" in one or "text" in other or one["type"] != other["type"]:
        return (0.0, 0.0) if same(one, other) else (math.inf, math.inf)

    def distance(a, b):
        # NaN beside NaN, infinity beside the same infinity.
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        return abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf
    return (max(map(distance, one["sample"], other["sample"]), default=0.0),
            distance(one["norm"], other["norm"]))


def allowed(natives):
    """How far a client's samples and norm may differ from the nearest native ones."""
    spread = [max(column) for column in zip(*(
        apart(a, b) for a, b in itertools.combinations(natives, 2)))]
    if "text" in natives[0]:
        return spread
    kind, _, shape = natives[0]["type"].partition("[")
    largest = max((abs(x) for x in natives[0]["sample"] if math.isfinite(x)), default=0)
    one = max(spread[0], ROUNDING.get(kind, 0) * largest)
    # Two norms may be close by chance: they may differ as much as such arrays may.
    size = math.prod(int(n) for n in re.findall(r"\d+", shape))
    return TIMES * one, TIMES * max(spread[1], one * math.sqrt(size))


def judge_one(natives, ours):
    """(EQUAL, WITHIN or WRONG, a text about it) for one result of one client."""
    if all(same(native, natives[0]) for native in natives):
        if same(ours, natives[0]):
            return EQUAL, ""
        return WRONG, "%s, natively always the same" % describe(natives, ours)
    limits = allowed(natives)
    # An infinite difference, such as another shape or text, is never allowed.
    if any(all(d <= most and math.isfinite(d) for d, most in zip(apart(native, ours), limits))
           for native in natives):
        return WITHIN, ""
    return WRONG, "%s, allowed are %.3g and %.3g" % (describe(natives, ours), *limits)


def describe(natives, ours):
    if "text" in ours or "text" in natives[0]:
        return "%r instead of %r" % (ours.get("text"), natives[0].get("text"))
    if ours["type"] != natives[0]["type"]:
        return "%s instead of %s" % (ours["type"], natives[0]["type"])
    off = min(apart(native, ours) for native in natives)
    return "samples differ by %.3g, the norm %.6g by %.3g" % (off[0], natives[0]["norm"], off[1])


def judge(natives, ours):
    """Compares the outputs of clients with those of native runs, each as returned by told().

    Returns {name: (EQUAL, WITHIN or WRONG, a text about it)}, for the worst of the clients.
    """
    found = {}
    order = (EQUAL, WITHIN, WRONG)
    for name in dict.fromkeys(itertools.chain.from_iterable(natives + ours)):
        mine = [native[name] for native in natives if name in native]
        theirs = [client[name] for client in ours if name in client]
        if len(mine) < len(natives) or len(theirs) < len(ours):
            found[name] = WRONG, "in %d of %d native runs and in %d of %d clients" % (
                len(mine), len(natives), len(theirs), len(ours))
        else:
            found[name] = max((judge_one(mine, one) for one in theirs),
                              key=lambda said: order.index(said[0]))
    return found
