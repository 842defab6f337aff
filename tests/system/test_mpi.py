#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Ranks of an Open MPI program are clients of one server.

tests/programs/runtime/halo.cu checks every bit, and that the ranks' kernels run concurrently:
natively each rank would wait for the others' turns.
"""

import os
import signal
import time

import harness
import mps
from harness import Skip, equal, wait_for
from mpi import command, finish, start
from test_kill import gives_back, settle

RANKS = 4
RUN = os.path.join(harness.BUILD, "bin", "mps-run")


def test_halo():
    """Four ranks, one server, one GPU."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        finish(service, start(service))
        before = settle(service, server)
        process = start(service)
        most = 0
        while process.poll() is None:
            most = max(most, len(service.clients(server)))
            time.sleep(0.01)
        equal(finish(service, process)["ranks"], RANKS)
        equal(most, RANKS)
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_mps_run():
    """As docs/clusters.md starts ranks."""
    if mps.sanitizer_preload():
        raise Skip("a sanitized library needs its runtime before it")
    with mps.Service() as service:
        finish(service, service.popen(*command(RANKS, runner=(RUN,)), preload=False))
        equal(service.control_log().count("NEW CLIENT"), RANKS)


def test_halo_on_two_gpus():
    """Every other rank on the second GPU: neighbours access each other's memory."""
    with mps.Service({"SOFTGPU_DEVICES": "2"}) as service:
        finish(service, start(service))


def test_two_jobs():
    with mps.Service() as service:
        several = [start(service) for _ in range(2)]
        for process in several:
            finish(service, process)
        equal(len(service.servers()), 1)


def test_killed():
    """A rank that is killed in its work ends its job, and leaves nothing in the server."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        finish(service, start(service))
        before = settle(service, server)
        for i in range(3):
            process = start(service, "64", "50", "2000")
            wait_for("all ranks", lambda: len(service.clients(server)) == RANKS, 30 * mps.SLOW)
            ranks = service.clients(server)
            time.sleep(0.1 * i)
            os.kill(ranks[i], signal.SIGKILL)
            code, _, err = service.finish(process, 60)
            assert code != 0, err
            # Dead ranks stay clients until their last kernel has ended.
            settle(service, server)
        equal(service.servers(), [server])
        gives_back(service, server, before)
        finish(service, start(service))


if __name__ == "__main__":
    harness.main(globals())
