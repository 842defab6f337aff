#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# without sanitizers: it tests Python code
"""The judge of tests/gpu/samples, and its runs, with this project's programs as samples."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

import harness
from harness import contains, equal

import mps

SCRIPT = os.path.join(harness.ROOT, "tests", "gpu", "samples")


def load():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("samples", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("samples", loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
samples = load()


def verdict(native, client, name="x", log=""):
    """The verdict on an output, or on an exit code and an output."""
    both = [samples.Ended(*(one if isinstance(one, tuple) else (0, one)), 1.0) for one in (native, client)]
    return samples.verdict(name, *both, log)[0]


def test_numbers_that_vary():
    for native, client in (("took 1.25 ms", "took 0.5 ms"), ("7 GB/s at 0x7f00", "12 GB/s at 0x10"),
                           ("in -46341038080.000000ms", "in 0.000000ms"),
                           ("time: 12", "time: 7"), ("a\n\nb", "a\nmps-client[7]: warn: x\nb")):
        equal(verdict(native, client), True, (native, client))
    for native, client in (("12 blocks", "13 blocks"), ("passed", "failed"), ("a\nb", "b\na"), ("a", "")):
        equal(verdict(native, client), False, (native, client))
    equal(verdict("a", (1, "a")), False)
    equal(verdict("a", (-11, "a")), False)
    equal(verdict("a", (None, "a")), False, "a time limit")


def test_samples_that_waive_themselves():
    equal(verdict((2, "two GPUs wanted"), (2, "two GPUs wanted")), None)
    equal(verdict((2, "two GPUs wanted"), "done"), False)
    equal(verdict((2, "two GPUs wanted"), (2, "no memory")), False)
    equal(verdict((None, "a"), (None, "b")), None)


def test_known_differences():
    equal(verdict("a\nb", "b\na", "simpleHyperQ"), True)
    equal(verdict("FOOTPRINT: 0 bytes", "FOOTPRINT: 64 bytes", "graphMemoryFootprint"), True)
    equal(verdict("ptxas info : 8\ndone", "done", "ptxjit"), True)
    equal(verdict("ptxas info : 8\ndone", "ptxas", "ptxjit"), False)
    less = (1, "systemWideAtomics returned ERROR!")
    equal(verdict("a", less, "systemWideAtomics"), True)
    equal(verdict("a", less, "simpleCudaGraphs"), False, "another sample")
    equal(verdict("a", (1, "code=999"), "systemWideAtomics"), False, "another reason")
    equal(verdict("a", (-6, less[1]), "systemWideAtomics"), False, "another end")
    text = "x.cu:1: block: [1,0,0] Assertion `i < N` failed."
    equal(verdict(text + "\ndone", "done", "simpleAssert", "[now] %s\n" % text), True)
    equal(verdict(text + "\ndone", "done", "simpleAssert"), False, "not in server.log")


def test_failures_at_random():
    name, text = "cdpAdvancedQuicksort", "launch %d would exceed cudaLimitDevRuntimePendingLaunchCount"
    equal(verdict((1, text % 7), (1, text % 8), name), True)
    equal(verdict((1, text % 7), (1, text % 8), "scan"), False, "another sample")
    equal(verdict((1, text % 7), (1, "code=999"), name), False, "another reason")
    equal(verdict((1, "code=999"), (1, text % 7), name), False, "another reason natively")
    equal(verdict("done", (1, text % 7), name), False)
    equal(verdict((1, text % 7), (-6, text % 7), name), False, "another end")


class Scripted(samples.Runner):
    """Its native runs end with these exit codes, one after the other."""

    def __init__(self, *codes):  # pylint: disable=super-init-not-called
        self.codes = list(codes)

    def run(self, folder, name, is_client):
        equal(is_client, False, "a client runs once")
        return samples.Ended(self.codes.pop(0), "", 1.0)

    def ends(self, name, client):
        """The exit code of the native run with which the client is compared."""
        return self.native_like("", name, self.run("", name, False),
                                samples.Ended(client, "", 1.0)).code


def test_native_runs_are_repeated():
    name = "cdpAdvancedQuicksort"
    equal(Scripted(1, 0).ends(name, 0), 0)
    equal(Scripted(0, 0, 1).ends(name, 1), 1)
    equal(Scripted(*samples.NATIVE_RUNS * [0]).ends(name, 1), 0, "never natively")
    equal(Scripted(0, 1).ends("scan", 1), 0, "another sample")


def run(*programs):
    """(exit code, output of the script) with these example programs as samples."""
    with tempfile.TemporaryDirectory() as folder:
        for name in programs:
            os.makedirs(os.path.join(folder, "bin", name))
            shutil.copy(mps.program(name), os.path.join(folder, "bin", name, name))
        subprocess.run(["tar", "-czf", "samples.tar.gz", "bin"], cwd=folder, check=True)
        shutil.rmtree(os.path.join(folder, "bin"))
        limit = str(5 * mps.SLOW)
        done = subprocess.run([sys.executable, SCRIPT, "run", folder, "--software", "--limit", limit],
                              capture_output=True, text=True, timeout=150 * mps.SLOW, check=False)
    return done.returncode, done.stdout + done.stderr


def test_runs():
    code, said = run("scan", "transpose")
    equal((code, said.splitlines()[-1]), (0, "2 passed, 0 failed"), said)


def test_late_samples_are_ended():
    code, said = run("scan", "stuck")
    equal((code, said.splitlines()[-1]), (1, "1 passed, 1 failed"), said)
    contains(said, "time limit")


if __name__ == "__main__":
    harness.main(globals())
