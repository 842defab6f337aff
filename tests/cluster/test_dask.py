#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1800 s
"""Workers of Dask, each with a share of a GPU, are clients, as docs/clusters/dask starts them."""

import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from python_cluster import Cluster  # pylint: disable=wrong-import-position

ENVIRONMENT = {"DASK_SCHEDULER_ADDRESS": "tcp://127.0.0.1:8786"}
WORKERS = 4


def listed(text):
    """The PIDs of the clients in the output of `mps-control ps'."""
    return [int(pid) for pid in re.findall(r"^(\d+) +\d+ +\d+ +GPU-", text, re.M)]


def start(cluster):
    """Starts a scheduler and workers with a quarter of the GPU each; returns both processes."""
    scheduler = cluster.start_process("scheduler", "dask", "scheduler", "--host", "127.0.0.1",
                                      "--no-dashboard")
    cluster.wait_for_text("scheduler.out", "Scheduler at:", scheduler)
    workers = cluster.start_process(
        "workers", "mps-run", "dask", "worker", "--nworkers", str(WORKERS), "--nthreads", "1",
        "--no-dashboard", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25", **ENVIRONMENT)
    return scheduler, workers


def test_shares():
    """All workers are clients at once, and use a quarter of the SMs; their results are right."""
    with Cluster() as cluster:
        scheduler, workers = start(cluster)
        out = cluster.run_example("dask/shares.py", **ENVIRONMENT)
        contains(out, "SMs of each worker: 32 32 32 32\n")
        equal(len(listed(out)), WORKERS)
        equal(sorted(cluster.clients()), sorted(listed(out)))
        # Dask replaces a worker that is killed; the others keep their places.
        killed = listed(out)[0]
        os.kill(killed, signal.SIGKILL)
        wait_for("the end of the client", lambda: killed not in cluster.clients())
        out = cluster.run_example("dask/shares.py", **ENVIRONMENT)
        equal(len(listed(out)), WORKERS)
        assert killed not in listed(out)
        equal(len(cluster.servers()), 1)
        cluster.end_process(workers)
        cluster.wait_for_no_clients()
        cluster.end_process(scheduler)


if __name__ == "__main__":
    harness.main(globals())
