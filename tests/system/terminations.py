# SPDX-License-Identifier: Apache-2.0
"""Clients that are terminated, one by one, beside others that must not be affected."""

import time

import mps
import test_kill
from harness import contains, equal

TERMINATED = 810
# How long a command may take beside busy clients; the grace is ten times as long.
BOUND_S = 10


def running(service, name, *args, **more):
    """A program that has printed that it runs."""
    process = service.popen(name, *args, **more)
    equal(process.stdout.readline(), "%s: running\n" % name)
    return process


def terminate(service, server, client, strict=False):
    words = ["--strict"] if strict else []
    return service.command(*words, "terminate_client", str(server), str(client)).stdout


def said_by(service, user, line):
    """The output of mps-control for another user."""
    process = service.popen(mps.CONTROL, *line.split(), preload=False, **user)
    return service.finish(process)[1]


def one_after_the_other(service, victims, bystander=None):
    server = service.server()
    slowest = 0
    for i, victim in enumerate(victims):
        began = time.monotonic()
        equal(terminate(service, server, victim.pid), "0\n")
        slowest = max(slowest, time.monotonic() - began)
        assert slowest < BOUND_S * mps.SLOW, "%.1f s" % slowest
        contains(service.finish(victim)[1], "(%d)" % TERMINATED)
        ended = [other.communicate() for other in victims[i + 1:] if other.poll() is not None]
        assert not ended, ended
        equal((bystander and bystander.poll(), service.server()), (None, server))
    for victim in victims:
        service.started.remove(victim)
    return slowest


def in_turn(clients, rounds):
    """Terminates so many busy clients in turn, so often; none hangs, no other is affected."""
    with mps.Service() as service:
        # The first clients leave what the server keeps for all later ones.
        one_after_the_other(service, [running(service, "victim") for _ in range(clients)])
        server = service.server()
        before = test_kill.settle(service, server)
        bystander = service.popen("process1", "--seconds", "7200")
        service.wait_for_active(bystander)
        slowest = 0
        for _ in range(rounds):
            victims = [running(service, "victim") for _ in range(clients)]
            slowest = max(slowest, one_after_the_other(service, victims, bystander))
        print("    the slowest command took %.2f s" % slowest)
        bystander.kill()
        bystander.wait()
        test_kill.gives_back(service, server, before)
