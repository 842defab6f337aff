#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Graphs of background clients whose share of the SMs changes at each launch, and random graphs."""

import json
import os
import time

import harness
import mps
from harness import contains, equal, wait_for
from test_kill import gives_back, settle
from test_priorities import sms_of
from test_survivors import renamed

SHARES = {"MPS_TEST": "shares"}
BACKGROUND = {"CUDA_MPS_CLIENT_PRIORITY": "2"}
# Settings of a service, and the environment of a client.
MODES = {
    "plainly": ({}, {}),
    "while the share changes": (SHARES, BACKGROUND),
    "evicted at every rest": ({"MPS_TEST": "evict", "MPS_OVERSUBSCRIBE": "1"}, {}),
}
# Programs that make graphs or capture them, also through a header.
GRAPHS = r"(?m)(cu|cuda)Graph[A-Z]|#include .*(graph_driver|driver_graphs|conditional)\.h"
ROUNDS = "6000" if os.environ.get("MPS_TEST_LONG") else "1500"
KILLS = 24


def test_programs():
    """They compute the same, but for one that expects all SMs."""
    names = [name for name in mps.programs_that(GRAPHS)
             if name in mps.PROGRAMS_ONCE and name != "green_contexts"]
    assert {"graph_capture", "graph_nodes", "graph_random", "graph_update"} <= set(names), names
    with mps.Service(SHARES) as service:
        for name in names:
            code, out, err = service.run(name, env=BACKGROUND)
            equal((code, out), (0, name + ": ok\n"), "%s: %s" % (name, err))


def at_random(service, dice, rounds, env):
    """A client with random graphs, in which it disables nodes of all kinds, and its seed."""
    seed = str(dice.randrange(1 << 31))
    return seed, service.popen("graph_random", seed, rounds, "40", "fills", env=env)


def test_modes():
    """Random graphs in each mode."""
    dice = harness.dice()
    for mode, (settings, env) in MODES.items():
        with mps.Service(settings) as service:
            seed, process = at_random(service, dice, ROUNDS, env)
            code, out, err = service.finish(process)
            equal((code, out), (0, "graph_random: ok\n"), "%s, seed %s: %s" % (mode, seed, err))


def test_random():
    """Random graphs of several clients at once, one of which is in the foreground."""
    dice = harness.dice()
    with mps.Service(SHARES) as service:
        for _ in range(3):
            running = [at_random(service, dice, ROUNDS, env)
                       for env in (BACKGROUND, BACKGROUND, None)]
            for seed, process in running:
                code, out, err = service.finish(process)
                equal((code, out), (0, "graph_random: ok\n"), "graph_random %s: %s" % (seed, err))


def test_limit():
    """A percentage is an upper bound: graphs of a client with half of the SMs keep to these."""
    half = dict(BACKGROUND, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50")
    numbers = set()
    with mps.Service(SHARES) as service:
        for _ in range(8):
            # The program fails if a way of launching uses more.
            found = sms_of(service.run_ok("smids", "--fewer", "--sms", "66", env=half)[0])
            numbers |= {found["graph"], found["captured"]}
        service.run_ok("graph_random", str(harness.dice().randrange(1 << 31)), env=half)
    assert len(numbers) > 1, numbers


def stop(service, process):
    equal(process.poll(), None, "it should not have ended by itself")
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    service.started.remove(process)


def test_kill():
    """Killed at any moment, they leave nothing behind."""
    dice = harness.dice()
    with mps.Service(SHARES) as service:
        service.run_ok("graph_random", "1", env=BACKGROUND)
        server = service.server()
        before = settle(service, server)
        for _ in range(KILLS):
            _, process = at_random(service, dice, "1000000", BACKGROUND)
            time.sleep(0.3 * dice.random())
            stop(service, process)
        equal(service.servers(), [server], "the server was replaced")
        gives_back(service, server, before)


def survivors(service):
    return [client["pid"] for fault in json.loads(service.command("get_last_fault", "--json").stdout)
            for client in fault["survivors"]]


def test_fault():
    """The fault of another client ends those with work, and the next server has working graphs."""
    dice = harness.dice()
    with mps.Service(SHARES) as service:
        for number in range(3):
            running = [at_random(service, dice, "1000000", BACKGROUND)[1] for _ in range(2)]
            time.sleep(0.2 + 0.3 * dice.random())
            equal([process.poll() for process in running], [None, None])
            service.run(renamed(service, "fault", number))
            for process in running:
                wait_for("the end of a client, or its next server", lambda process=process:
                         process.poll() is not None or process.pid in survivors(service))
                if process.pid in survivors(service):
                    time.sleep(0.3)
                    assert process.poll() is None, service.finish(process)
                    stop(service, process)
                else:
                    code, _, err = service.finish(process)
                    equal(code, 1, err)
            service.run_ok("graph_random", env=BACKGROUND)
        contains(service.server_log(), "MPS_TEST=shares: the share of background clients changes")


if __name__ == "__main__":
    harness.main(globals())
