# SPDX-License-Identifier: Apache-2.0
"""Example programs beside a service: natively, and as clients of the vendor's."""

import re
import subprocess

import mps
import ways
from harness import equal

NATIVELY = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}


def values(text):
    """The key=value lines of a program's output, as numbers."""
    return {k: float(v) for k, v in re.findall(r"^(\w+)=([\d.]+)$", text, re.M)}


def native(name, *args, timeout=60, env=None):
    path = name if "/" in name else mps.program(name)
    done = subprocess.run([path, *args], env=dict(mps.clean_environment(True), **(env or NATIVELY)),
                          capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def numbers(service, name, *args, timeout=60, env=None):
    """What a program measures as a client of the service, or natively without one."""
    code, out, err = service.run(name, *args, timeout=timeout, env=env) if service else native(
        name, *args, timeout=timeout)
    equal(code, 0, out + err)
    return values(out)


def vendor(measure):
    """measure(environment) with the vendor's service, or None if it is not here."""
    control = ways.vendor_control()
    if not control:
        return None
    with ways.vendor(control) as way:
        return measure(way.env)
