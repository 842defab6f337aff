#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Which calls wait for the GPU: CUDA's table, by call, memory and stream (sync_matrix).

The program checks itself. Here it runs on the software GPU, natively and as a client, in strict
mode, and the lists of checked calls are compared.
"""

import os
import subprocess

import harness
import mps
from harness import equal

TWO = {"SOFTGPU_DEVICES": "2"}
ARGUMENTS = ("--strict", "--table")
OK = "sync_matrix: ok\n"


def checked(code, out, err):
    """The program's output; an error if it reported any, with its text."""
    about = [line for line in out.splitlines() if line.startswith("sync_matrix:")]
    equal((code, err), (0, ""), "\n".join(about))
    return out


def native(*args):
    """On the software GPU."""
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU), **TWO)
    env["LD_PRELOAD"] = ":".join(mps.sanitizer_preload())
    done = subprocess.run([mps.program("sync_matrix"), *args], env=env, capture_output=True,
                          text=True, timeout=100 * mps.SLOW, check=False)
    return checked(done.returncode, done.stdout, done.stderr)


def client(*args):
    with mps.Service(TWO) as service:
        return checked(*service.run("sync_matrix", *args, timeout=100))


def is_comparable(line):
    """Excludes calls that differ for clients, or that the software GPU does not have.

    For clients, private registered memory is out of the GPU's reach (docs/compat/registered.md).
    """
    return "registered " not in line.replace(",", " ") and "BatchAsync(" not in line


def test_table():
    tables = [[line for line in table.splitlines() if is_comparable(line)]
              for table in (native(*ARGUMENTS, "--no-batches"), client(*ARGUMENTS))]
    assert len(tables[0]) > 5000, len(tables[0])
    for ours, theirs in zip(*tables):
        equal(theirs, ours)
    equal(*map(len, tables))


def test_natively():
    """In the mode for a real GPU, where it has to pass too."""
    equal(native(), OK)


if __name__ == "__main__":
    harness.main(globals())
