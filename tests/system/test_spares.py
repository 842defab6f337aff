#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""MPS_SPARE_SERVER: a process that has done cuInit() waits to take a server's clients."""

import contextlib
import json
import os
import signal
import time

import card
import harness
import mps
import test_restart
import test_survivors
from harness import contains, equal, wait_for

CARD_MIB = 256
# Of cuInit(), in a process that takes no spare: as of a GPU.
INIT_MS = 300


@contextlib.contextmanager
def with_spares(spares="1"):
    # Idle servers are looked for as often as spares: four times in this time.
    settings = {"MPS_IDLE_S": "1", "MPS_SPARE_SERVER": spares}
    with card.Card(CARD_MIB) as small, mps.Service(dict(small.settings, **settings)) as service:
        yield service
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def spare_of(service, server):
    """The PID of its spare, which waits; or None."""
    rows = json.loads(service.command("get_server_list", "--json").stdout)["servers"]
    spare, = [row["spare"] for row in rows if row["pid"] == server]
    if spare and "NEW SERVER %d: Ready" % spare in service.control_log():
        return spare
    return None


def test_takes_the_clients():
    """The spare is in no list, takes the clients, and is followed by another one."""
    with with_spares() as service:
        client = test_restart.Resident(service)
        old = service.server()
        for _ in range(2):
            spare = wait_for("a spare", lambda old=old: spare_of(service, old))
            equal(service.servers(), [old])
            contains(service.command("restart_server", str(old)).stdout,
                     "has moved its 1 clients to server %d" % spare)
            wait_for("the end of the old server", lambda old=old: not mps.is_alive(old))
            client.ask()
            old = spare
        client.end()


def test_after_a_fault():
    """The spare takes those whom the fault spares."""
    with with_spares() as service:
        client = test_restart.Resident(service)
        old = service.server()
        spare = wait_for("a spare", lambda: spare_of(service, old))
        test_survivors.fault(service)
        equal(test_survivors.next_server(service, old), spare)
        client.ask()
        client.end()


def test_ends():
    """It ends with the last client, with the daemon, and with its server; nothing of it is left."""
    with with_spares() as service:
        client = test_restart.Resident(service)
        server = service.server()
        spare = wait_for("a spare", lambda: spare_of(service, server))
        service.restart_killed()
        wait_for("the end with the daemon", lambda: not mps.is_alive(spare))
        spare = wait_for("the next daemon's", lambda: spare_of(service, server))
        client.ask()
        client.end()
        wait_for("the end with the client", lambda: not mps.is_alive(spare))

        client = test_restart.Resident(service)
        server = service.server()
        spare = wait_for("a spare", lambda: spare_of(service, server))
        os.kill(server, signal.SIGKILL)
        wait_for("the end with the server", lambda: not mps.is_alive(spare))
        equal(test_restart.goes_on(client), False)


def test_killed_spare():
    """Nobody notices, and a restart takes a new process."""
    with with_spares() as service:
        client = test_restart.Resident(service)
        server = service.server()
        spare = wait_for("a spare", lambda: spare_of(service, server))
        os.kill(spare, signal.SIGKILL)
        wait_for("its end", lambda: "Server %d was ended by signal 9" % spare in
                 service.control_log())
        client.ask()
        contains(test_restart.restart(service), "moved its 1 clients")
        client.ask()
        client.end()


def time_restart_of(service, client, has_spare):
    """Seconds of the command, and of the longest of the client's rounds meanwhile."""
    server = service.server()
    if has_spare:
        wait_for("a spare", lambda: spare_of(service, server))
    client.ask()
    began = time.monotonic()
    command = test_restart.begin_restart(service, server)
    longest, end = 0, None
    while not end or time.monotonic() < end + 0.2:
        if not end and command.poll() is not None:
            end = time.monotonic()
        asked = time.monotonic()
        client.ask()
        longest = max(longest, time.monotonic() - asked)
    return end - began, longest


def time_restart(spares):
    with with_spares(spares) as service:
        client = test_restart.Resident(service)
        if spares == "1":
            wait_for("a spare", lambda: spare_of(service, service.server()))
        service.switch.set(1, mps.Switch.STALL, INIT_MS, only="cuInit")
        times = time_restart_of(service, client, spares == "1")
        service.switch.set(0)
        client.end()
        return times


def test_time():
    """What a spare saves, on a software GPU whose cuInit() takes as long as that of a GPU."""
    for spares in "01" * 2:
        print("    %s: restart_server %.3f s, longest round %.3f s" % (
            ("without", "with")[int(spares)], *time_restart(spares)))


if __name__ == "__main__":
    harness.main(globals())
