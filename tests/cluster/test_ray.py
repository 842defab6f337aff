#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1800 s
"""Actors and tasks of Ray with fractions of a GPU are clients, as docs/clusters/ray starts them."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from python_cluster import Cluster  # pylint: disable=wrong-import-position
from test_dask import listed  # pylint: disable=wrong-import-position

ADDRESS = "127.0.0.1:6379"
# On a busy machine, everything takes longer than Ray expects, and its workers give way to others.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
               "RAY_worker_register_timeout_seconds": "600",
               "RAY_health_check_failure_threshold": "100"}
TRIES = 4


def start(cluster):
    """Starts a cluster of one node, with a GPU that Ray does not find by itself.

    Ray gives up after 30 seconds, which are too few on a busy machine: then once more.
    """
    for number in range(TRIES):
        name = "ray-%d" % number
        node = start_node(cluster, name)
        wait_for("Ray, or its end", lambda node=node, name=name: node.poll() is not None or
                 "Ray runtime started" in cluster.read(name + ".out"), cluster.SECONDS)
        if node.poll() is None:
            return node
        contains(cluster.read(name + ".out"), "timed out during startup")
    raise AssertionError("Ray does not start")


def start_node(cluster, name):
    return cluster.start_process(
        name, "mps-run", "ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1",
        "--port=" + ADDRESS.partition(":")[2], "--num-gpus=1", "--num-cpus=8",
        "--include-dashboard=false", "--include-log-monitor=false",
        "--object-store-memory=100000000",
        "--temp-dir=" + os.path.join(cluster.folder, name), **ENVIRONMENT)


def test_shares():
    """All are clients at once, and use their part of the SMs; their results are right."""
    with Cluster() as cluster:
        node = start(cluster)
        out = cluster.run_example("ray/shares.py", RAY_ADDRESS=ADDRESS, **ENVIRONMENT)
        contains(out, "SMs of each actor: 32 32\n")
        equal(len(listed(out)), 4, out)
        equal(len(re.findall(r"ray::Column", out)), 2, out)
        equal(len(cluster.servers()), 1)
        # The actors and tasks end with the program, the cluster does not.
        cluster.wait_for_no_clients()
        equal(node.poll(), None)
        cluster.end_process(node)


if __name__ == "__main__":
    harness.main(globals())
