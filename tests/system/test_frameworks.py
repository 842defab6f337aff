#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# without sanitizers: it tests Python code
"""The judge of tests/gpu/frameworks: which results are equal, and that all its processes end."""

import json
import math
import os
import sys
import tempfile
import threading

import harness
from harness import equal

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "gpu"))

import compare  # pylint: disable=wrong-import-position
import copies  # pylint: disable=wrong-import-position
import judge  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position


def record(sample, digest=None, kind="float32"):
    return {"digest": digest or str(sample), "type": "%s[%d]" % (kind, len(sample)), "sample": sample,
            "norm": math.hypot(*sample)}


def said(natives, *ours):
    """The verdict on one result."""
    found = compare.judge([{"x": native} for native in natives], [{"x": one} for one in ours])
    return found["x"][0]


def test_bit_for_bit():
    one, other = record([1.0, 2.0], "a"), record([1.0, 2.0], "b")
    equal(said([one, one], one, one), compare.EQUAL)
    equal(said([one, one], one, other), compare.WRONG, "another digest, where all native ones agree")
    equal(said([one, one], record([1.0, 2.0], "a", "float64")), compare.WRONG, "another type")


def test_within_the_spread():
    natives = [record([1.0, 2.0]), record([1.001, 2.0])]
    equal(said(natives, record([1.002, 2.0])), compare.WITHIN)
    equal(said(natives, record([0.997, 2.003])), compare.WITHIN)
    equal(said(natives, record([1.002, 2.0]), record([1.2, 2.0])), compare.WRONG, "one of two")
    equal(said(natives, record([1.001, 2.0, 2.0])), compare.WRONG, "another shape")
    equal(said(natives, record([math.nan, 2.0])), compare.WRONG)


def test_norm_shows_what_samples_do_not():
    natives = [dict(record([1.0] * 64, name), type="float32[1000, 1000]", norm=norm)
               for name, norm in (("a", 1000.0), ("b", 1000.001))]
    equal(said(natives, dict(natives[0], digest="c", norm=1000.0005)), compare.WITHIN)
    equal(said(natives, dict(natives[0], digest="c", norm=900.0)), compare.WRONG)


def test_not_finite():
    natives = [record([math.nan, math.inf, 1.0]), record([math.nan, math.inf, 1.1])]
    for native in natives:
        native["norm"] = math.nan
    equal(said(natives, dict(natives[0], digest="c")), compare.WITHIN)
    equal(said(natives, dict(natives[0], digest="c", sample=[math.nan, -math.inf, 1.0])), compare.WRONG)


def test_texts_and_names():
    equal(said([{"text": "a"}] * 2, {"text": "a"}), compare.EQUAL)
    equal(said([{"text": "a"}] * 2, {"text": "b"}), compare.WRONG)
    equal(said([{"text": "a"}, {"text": "b"}], {"text": "b"}), compare.WITHIN)
    equal(said([{"text": "a"}, {"text": "b"}], {"text": "c"}), compare.WRONG)
    found = compare.judge([{"x": {"text": "a"}}], [{"y": {"text": "a"}}])
    equal({name: what for name, (what, _) in found.items()}, dict.fromkeys("xy", compare.WRONG))


def test_lines():
    text = "\n".join(["noise", json.dumps({"record": "a", "text": "b"}), '{"note": "n", "value": 3}'])
    equal(compare.told(text, "record"), {"a": {"text": "b"}})
    equal(compare.told(text, "note"), {"n": {"value": 3}})


def run(script, limit):
    """Two copies of a script; how they ended, and which processes were left."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        program = copies.Program("script", file.name, {"SETTING": "x"}, 2, 1, limit, False)
        both = copies.Copies(program, dict(os.environ), 2)
        try:
            ended = both.wait(threading.Event(), limit)
            return program, ended, both.tree()
        finally:
            both.remove()


def test_copies_end():
    program, ended, left = run("import os\nprint(os.environ['SETTING'])\nprint('script: ok')\n", 60)
    equal([(copy.code, copy.out) for copy in ended], [(0, "x\nscript: ok\n")] * 2)
    equal([judge.failed(copy, program) for copy in ended], [None, None])
    equal(left, [])
    program, ended, left = run("print('script: not ok')\nraise SystemExit(3)\n", 60)
    equal([judge.failed(copy, program) for copy in ended], ["exit code 3"] * 2)
    _, ended, _ = run("import no_such_module\n", 60)
    equal(judge.missing(ended[0]), "ModuleNotFoundError: No module named 'no_such_module'")


def test_late_copies_are_ended():
    program, ended, left = run(
        "import subprocess, time\nsubprocess.Popen(['sleep', '50'], start_new_session=True)\n"
        "time.sleep(50)\n", 2)
    equal([judge.failed(copy, program) for copy in ended], ["exit code none after 2 s"] * 2)
    equal(left, [], "and what they had started is too")


def test_programs_are_found():
    found = {program.name: program for program in copies.programs()}
    equal(found["model_server"].copies, 8)
    assert found["model_server"].takes_seconds and not found["torch_products"].takes_seconds
    equal(found["torch_memory expandable"].env,
          {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    assert all(os.path.dirname(p.path) == os.path.join(mps.ROOT, "tests", "frameworks")
               for p in found.values()) and "outputs" not in found


if __name__ == "__main__":
    harness.main(globals())
