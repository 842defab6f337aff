# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: variables of images in the memory of their client."""

import mps
from examples import native
from table import need, row, save

PLACED = ("variables", "variables_cubin")


def step_variables():
    """From PTX and in machine code; the driver's own linker may leave them where they are."""
    with mps.Service({"MPS_OVERSUBSCRIBE": "1"}, library=None) as service:
        for name in PLACED:
            natively, got = native(name), service.run(name, "placed")
            need("%s: placed, and right as natively" % name,
                 natively[:2] == got[:2] == (0, name + ": ok\n"), str((natively, got)))
        natively, got = native("variables_linked"), service.run("variables_linked")
        need("variables_linked: right as natively",
             natively[:2] == got[:2] == (0, "variables_linked: ok\n"), str((natively, got)))
        is_placed = service.run("variables_linked", "placed")[0] == 0
        row("variables of linked code placed", "yes" if is_placed else "no")
        log = service.server_log()
        save(service, "variables")
    need("the driver takes code whose variables are placed", "driver refused" not in log, log)


STEPS = [(step_variables, 60)]
