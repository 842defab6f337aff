# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: variables of images in the memory of their client."""

import os

import harness
import mps
import test_moves
from examples import native
from harness import equal
from table import row, save

PROGRAMS = ("variables", "variables_cubin", "variables_linked")
RUNS = 2


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


def move(service, dice, name, *args):
    """Restarts the server of the program, which must not notice. How often the program moved, and
    why not."""
    results = []
    for _ in range(RUNS):
        client = service.popen(name, *args)
        active = "Status of client {PID: %d, " % client.pid
        harness.wait_for("work", lambda active=active, client=client:
                         active in service.server_log() or client.poll() is not None)
        results += test_moves.restart_at_random(service, client, dice)
        code, out, err = service.finish(client, 60)
        equal((code, out), (0, name + ": ok\n"), "%s %s" % (results, err))
    return results.count(""), sorted(set(filter(None, results)))


def step_moved_variables():
    """Variables with virtual tables, and constants, in the next server."""
    dice = harness.dice()
    with mps.Service({"MPS_OVERSUBSCRIBE": "1"}, library=None) as service:
        service.command("start_server", "-uid", str(os.getuid()))
        for name, *args in [(name, "placed", "slowly") for name in PROGRAMS] + [("constants",)]:
            n_moves, reasons = move(service, dice, name, *args)
            row("%s: moves, right as natively" % name, n_moves, "> 0; stays: %s" % reasons,
                n_moves > 0)
        save(service, "moved_variables")


STEPS = [(step_variables, 60), (step_moved_variables, 90)]
