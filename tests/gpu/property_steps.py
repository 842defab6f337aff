# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: what a program can ask about the GPU, in each of three ways."""

import subprocess

import mps
import properties
from examples import native, vendor
from harness import equal
from table import keep, need, row, save, show


def theirs(env):
    """The answers under the vendor's MPS. The first run starts the vendor's server."""
    done = subprocess.run([mps.program("properties")], env=env, capture_output=True, text=True,
                          timeout=60, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    return properties.read(done.stdout)


def step_properties():
    """In three ways; tests/gpu/properties.txt keeps the table."""
    code, out, err = native("properties")
    equal(code, 0, out + err)
    natively, under_vendor = properties.read(out), vendor(theirs)
    with mps.Service(library=None) as service:
        client = properties.read(service.run_ok("properties")[0])
        save(service, "properties")
    text = properties.table([natively, under_vendor or {}, client])
    keep("properties_table.txt", text)
    show(text)
    row("properties", len(natively), "the vendor's MPS is %s" % (
        "here" if under_vendor else "not here"))
    if under_vendor:
        for line in properties.unexplained(natively, under_vendor, ()):
            print("      under the vendor's MPS: " + line)
    unknown = properties.unexplained(natively, client)
    need("a client's properties differ only as documented", not unknown, "\n".join(unknown))


STEPS = [(step_properties, 120)]
