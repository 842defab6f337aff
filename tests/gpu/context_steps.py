# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: every driver call without its context, natively and as a client."""

import os

import contexts
import mps
from harness import equal
from table import keep, need, row, save

# The answers there depend on what the memory of an ended object holds now.
UNSTABLE = "stale"


def changed(natively):
    """Cells whose answer is another one than in tests/contexts/driver.txt."""
    driver = contexts.read_table()
    equal(sorted(natively), sorted(driver))
    return ["%s %s: %s, not %s" % (call, state, result, driver[call][state])
            for call, results in natively.items() for state, result in results.items()
            if state != UNSTABLE and result not in (driver[call][state], contexts.NOT_RUN)]


def step_contexts():
    natively = contexts.run(mps.clean_environment(True))
    keep("contexts.txt", "\n".join(contexts.table(natively)) + "\n")
    row("contexts", len(natively), "calls")
    for line in changed(natively):
        print("      the driver has changed: " + line)
    with mps.Service(library=None) as service:
        env = dict(service.env, LD_LIBRARY_PATH=os.path.dirname(mps.LIBRARY))
        wrong, _ = contexts.unexplained(contexts.run(env), "client")
        save(service, "contexts")
    need("a client's calls without their context differ only as documented", not wrong,
         "\n".join(wrong))


STEPS = [(step_contexts, 300)]
