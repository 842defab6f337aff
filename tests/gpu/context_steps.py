# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: every driver call without its context, natively and as a client."""

import os

import contexts
import mps
from harness import equal
from table import keep, need, row, save


def changed(natively):
    """Cells whose answer is another one than in tests/contexts/driver.txt. Crashes are chance."""
    driver = contexts.read_table()
    equal(sorted(set(natively) ^ set(driver)), [])
    return ["%s %s: %s, not %s" % (call, state, result, driver[call][state])
            for call, results in natively.items() for state, result in results.items()
            if result not in (driver[call][state], contexts.NOT_RUN)
            and not {result, driver[call][state]} & contexts.UNDEFINED]


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
