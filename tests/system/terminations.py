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


def one_after_the_other(service, clients, bystander=None):
    server = service.server()
    slowest = 0
    for i, victim in enumerate(clients):
        began = time.monotonic()
        equal(terminate(service, server, victim.pid), "0\n")
        slowest = max(slowest, time.monotonic() - began)
        assert slowest < BOUND_S * mps.SLOW, "%.1f s" % slowest
        contains(service.finish(victim)[1], "(%d)" % TERMINATED)
        ended = [other.communicate() for other in clients[i + 1:] if other.poll() is not None]
        assert not ended, ended
        equal((bystander and bystander.poll(), service.server()), (None, server))
    for victim in clients:
        service.started.remove(victim)
    return slowest


def victims(service, count):
    """So many clients at work, which start together."""
    started = [service.popen("victim") for _ in range(count)]
    for process in started:
        equal(process.stdout.readline(), "victim: running\n")
    return started


def in_turn(clients, rounds, library=mps.SOFTGPU, limit_s=float("inf")):
    """Terminates so many busy clients in turn, so often; none hangs, no other is affected.

    No round begins after the time limit. Returns the number of rounds, and the seconds of the
    slowest command.
    """
    began = time.monotonic()
    with mps.Service(library=library) as service:
        # The first clients leave what the server keeps for all later ones.
        one_after_the_other(service, victims(service, clients))
        server = service.server()
        before = test_kill.settle(service, server)
        bystander = service.popen("process1", "--seconds", "7200")
        service.wait_for_active(bystander)
        slowest = n_rounds = 0
        while n_rounds < rounds and time.monotonic() - began < limit_s:
            slowest = max(slowest, one_after_the_other(
                service, victims(service, clients), bystander))
            n_rounds += 1
        print("    the slowest command took %.2f s" % slowest)
        bystander.kill()
        bystander.wait()
        test_kill.gives_back(service, server, before)
    return n_rounds, slowest
