#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
# without sanitizers: programs without a service
"""The example programs on the software GPU itself, without a service.

The programs are right on a real GPU. So a program that fails here shows a gap of the software GPU.
"""

import os
import re
import subprocess

import harness
import mps
from harness import equal

# What the software GPU lacks. A program that no longer fails must leave this table.
GAPS = {
    "context_events": "cuCtxRecordEvent",
    "diagnostics": "core dumps",
    "eager": "an image that fails is refused at its first use only",
    "green_ended": "the runtime's error after the end of a current green context",
    "green_contexts": "cuGreenCtxRecordEvent",
    "launch_blocking": "CUDA_LAUNCH_BLOCKING",
    "managed_cubin": "an initialised __managed__ variable cannot be freed",
    "managed_debug": "an initialised __managed__ variable cannot be freed",
    "managed_linked": "an initialised __managed__ variable cannot be freed",
    "managed_parts": "an initialised __managed__ variable cannot be freed",
    "managed_variable": "an initialised __managed__ variable cannot be freed",
    "pool_attributes": "pools keep no memory",
    "pool_ipc": "pools shared between processes",
    "print": "the size of the buffer of printf",
    "process_state": "a handler of SIGSEGV tells the program's errors from those of kernels",
}


def native_env(**settings):
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU), **settings)
    env["LD_PRELOAD"] = ":".join(mps.sanitizer_preload())
    return env


def native(name, *args, **settings):
    done = subprocess.run([mps.program(name), *args], env=native_env(**settings),
                          capture_output=True, text=True, timeout=60 * mps.SLOW, check=False)
    return done.returncode, done.stdout, done.stderr


def test_programs():
    for name in mps.PROGRAMS_ONCE:
        code, out, err = native(name)
        equal((code, out) == (0, name + ": ok\n"), name not in GAPS, (name, code, out, err))


def test_disabled_fill():
    """As on a GPU with driver 580: work behind a disabled fill is too early."""
    code, out, err = native("graph_random", "1", "1000", "40", "fills")
    wrong = re.match(r"graph_random: round \d+: result \d+ is \d+, not \d+\n", out)
    assert code == 1 and wrong, (code, out, err)


def test_graph_memory():
    equal(native("graph_memory", "unordered")[:2], (0, "graph_memory: ok\n"))
    code, out, err = native("graph_memory", "footprint")
    equal((code, re.sub(r"\d+", "N", out)),
          (0, "graph_memory: N of N bytes\ngraph_memory: ok\n"), err)


def test_ipc_without_the_owner():
    equal(native("ipc_memory", "orphan"), (0, "ipc_memory: ok\n", ""))


def test_topology():
    """A client has the places of SMs from the server's driver, also with a share of the SMs."""
    code, out, err = native("topology", "show")
    equal(code, 0, out + err)
    with mps.Service() as service:
        equal(service.run("topology", "show")[:2], (0, out))
        part = service.run_ok("topology", "show", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"})
    places = part[0].splitlines()[0]
    assert len(places) < len(out.splitlines()[0]) and out.startswith(places), (places, out)


if __name__ == "__main__":
    harness.main(globals())
