# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: variables of images in the memory of their client."""

import mps
from examples import native
from harness import equal
from table import row, save

PROGRAMS = ("variables", "variables_cubin", "variables_linked")


def step_variables():
    """From PTX, in machine code, and linked by the driver."""
    with mps.Service({"MPS_OVERSUBSCRIBE": "1"}, library=None) as service:
        bad = []
        for name in PROGRAMS:
            natively, got = native(name), service.run(name, "placed")
            is_right = natively[:2] == got[:2] == (0, name + ": ok\n")
            row("%s: placed, and right as natively" % name, "yes" if is_right else "NO", "yes",
                is_right)
            if not is_right:
                bad.append((natively, got))
        log = service.server_log()
        save(service, "variables")
    stay = [line for line in log.splitlines() if "variables stay" in line]
    equal((bad, stay), ([], []))


STEPS = [(step_variables, 60)]
