#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Variables of images in memory of the session."""

import harness
import mps
from harness import contains, equal

# Variables are placed for clients whose memory may leave.
MAY_LEAVE = {"MPS_OVERSUBSCRIBE": "1"}
# The software GPU refuses machine code that the server has changed.
PROGRAMS = ("variables", "variables_linked")


def test_placed():
    """On two GPUs; beside another client of the same image, which has its own variables."""
    with mps.Service(dict(MAY_LEAVE, SOFTGPU_DEVICES="2")) as service:
        several = [service.popen(name, "placed") for name in PROGRAMS + PROGRAMS]
        for process in several:
            code, out, err = service.finish(process)
            assert code == 0 and out.endswith(": ok\n"), out + err


def test_evicted():
    """They leave the GPU whenever the client rests, and come back with their values."""
    with mps.Service({"MPS_TEST": "evict"}) as service:
        for name in PROGRAMS:
            service.run_ok(name, "placed")


def test_refused_by_the_driver():
    """The program does not notice, and server.log says so."""
    with mps.Service(MAY_LEAVE) as service:
        service.run_ok("variables_cubin")
        contains(service.server_log(), "its variables stay in the driver's memory: the driver refused code "
                 "whose variables were placed")


def test_not_placed():
    """Where memory never leaves, and where the operator says so."""
    for settings in {}, dict(MAY_LEAVE, MPS_DISABLE="place"):
        with mps.Service(settings) as service:
            service.run_ok("variables")
            code, out, _ = service.run("variables", "placed")
            equal(code, 1)
            contains(out, "a variable lies at")


if __name__ == "__main__":
    harness.main(globals())
