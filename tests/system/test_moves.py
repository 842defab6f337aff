#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Programs compute the same while their server is restarted at random moments.

A program that cannot move goes on in its server, and the reply says why. MPS_TEST_LONG=1 runs all
programs, until a thousand restarts have moved one.
"""

import collections
import math
import os
import re
import signal
import time

import card
import harness
import mps
from harness import wait_for

IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
CARD_MIB = 1024
MOVES = 1000 if IS_LONG else 0
# Restarts of one run, at most, and how long a program runs between two of them.
RESTARTS_MAX = 10 if IS_LONG else 3
BETWEEN_S = (0.0002, 0.02)
# One for each kind of object, and programs with several threads.
PROGRAMS = ("graph_capture", "graph_nodes", "events", "callbacks", "stream_overlap", "transpose",
            "thread_streams", "green_ended", "constants")
REFUSED = re.compile(r"keeps its clients: client \d+ cannot move: (.*)")


def restart(service, client):
    """"": the clients have moved. Or why not. None: the client has ended meanwhile."""
    servers = service.servers()
    if not servers or client.poll() is not None:
        return None
    reply = service.command("restart_server", str(servers[0]), "-t", "1", check=False, timeout=60)
    text = reply.stdout + reply.stderr
    refused = REFUSED.search(text)
    if refused:
        return refused.group(1)
    if re.search("has moved its [1-9]", text):
        return ""
    # It has ended, and its server with it.
    assert re.search("moved its 0 clients|keeps its clients: server|STOPPING|not found", text), text
    return None


def restart_at_random(service, client, dice):
    """Mostly the client does not run meanwhile, as it would be over."""
    found = []
    for _ in range(RESTARTS_MAX):
        time.sleep(math.exp(dice.uniform(*map(math.log, BETWEEN_S))))
        if client.poll() is not None:
            break
        is_stopped = dice.random() < 0.75
        if is_stopped:
            client.send_signal(signal.SIGSTOP)
        try:
            found.append(restart(service, client))
        finally:
            if is_stopped:
                client.send_signal(signal.SIGCONT)
    return [result for result in found if result is not None]


def run_moving(service, name, dice):
    client = service.popen(name)
    active = "Status of client {PID: %d, " % client.pid
    wait_for("work", lambda: active in service.server_log() or client.poll() is not None)
    results = restart_at_random(service, client, dice)
    code, out, err = service.finish(client, 120)
    if (code, out) != (0, name + ": ok\n"):
        raise AssertionError("%s with %s: %d %s%s" % (name, results, code, out, err))
    return results


def test_programs():
    dice = harness.dice()
    reasons, moves = collections.Counter(), collections.Counter()
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        # The first server: programs are over soon.
        service.command("start_server", "-uid", str(os.getuid()))
        while True:
            for name in mps.PROGRAMS_ONCE if IS_LONG else PROGRAMS:
                for result in run_moving(service, name, dice):
                    if result:
                        reasons[name + ": " + result] += 1
                    else:
                        moves[name] += 1
            if sum(moves.values()) >= MOVES:
                break
        log = service.server_log()
    assert "cannot go on" not in log, re.findall(".*cannot go on.*", log)
    print("    %d moves of %d programs" % (sum(moves.values()), len(moves)))
    for reason, n in sorted(reasons.items()):
        print("    stayed %d times: %s" % (n, reason))
    assert len(moves) > (len(PROGRAMS) if IS_LONG else len(PROGRAMS) / 2), moves


if __name__ == "__main__":
    harness.main(globals())
