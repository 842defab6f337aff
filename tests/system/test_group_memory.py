#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""The memory limit of a group whose clients have several servers."""

import os
import signal
import time

import card
import mps
from harness import contains, dice, equal, main, need_root, wait_for
from test_memory_limits import OUT_OF_MEMORY, SETTINGS
from test_operator import GUESTS, Holder, row_of, said, user
from test_restart import begin_restart

MEMBER = {"MPS_GROUP": "g"}
ISOLATED = dict(MEMBER, MPS_ISOLATE="1")
# A worker waits so long for a server that does not return what it does not use.
WAIT_S = 4
CARD_MIB = 512


def make_group(service, mib):
    equal(said(service, "group", "create", "g", "-device_pinned_mem_limit", 0, "%dM" % mib), "")


def end(holder):
    holder.process.kill()
    holder.process.wait()


def servers_are(service, n):
    wait_for("%d servers" % n, lambda: len(service.servers()) == n)


def test_isolated_programs():
    """Each has a server, and all of them together have the limit."""
    with mps.Service(SETTINGS) as service:
        make_group(service, 96)
        first = Holder(service, 40, env=MEMBER)
        second = Holder(service, 40, env=ISOLATED)
        servers_are(service, 2)
        # What no client uses counts as free for each of them.
        equal((first.first, second.first), ((0, 56, 96, 96), (0, 16, 96, 96)))
        equal((first.more()[0], second.more()[0]), (OUT_OF_MEMORY,) * 2)
        equal(first.more()[1:], (16, 96, 96))
        third = Holder(service, 12, env=ISOLATED)
        equal(third.first, (0, 4, 96, 96))
        equal(third.more()[0], OUT_OF_MEMORY)

        # What a client frees, another server's client gets.
        end(first)
        wait_for("its end", lambda: len(said(service, "ps").splitlines()) == 3)
        equal([third.more()[0] for _ in range(3)], [0, 0, 0])
        equal(second.more()[0], OUT_OF_MEMORY)
        equal(third.more()[:2], (OUT_OF_MEMORY, 8))


def test_users():
    need_root()
    with mps.Service(SETTINGS) as service:
        make_group(service, 64)
        holders = [Holder(service, 20, env=MEMBER, **user(uid)) for uid in GUESTS]
        servers_are(service, 2)
        equal([holder.first for holder in holders], [(0, 44, 64, 64), (0, 24, 64, 64)])
        equal([holder.more()[0] for holder in holders], [0, OUT_OF_MEMORY])
        # The lower limit takes nothing away, and nobody gets more until enough is free.
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "48M")
        equal([holder.more()[0] for holder in holders], [OUT_OF_MEMORY] * 2)
        end(holders[0])
        wait_for("its end", lambda: len(said(service, "ps").splitlines()) == 2)
        equal(holders[1].more()[:2], (0, 8))
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "96M")
        equal(holders[1].more()[:2], (0, 36))


def test_end_of_a_server():
    """What the clients of a server had is free when its process has ended."""
    with mps.Service(SETTINGS) as service:
        make_group(service, 64)
        first = Holder(service, 40, env=MEMBER)
        second = Holder(service, 20, env=ISOLATED)
        equal(second.more()[0], OUT_OF_MEMORY)
        os.kill(row_of(service, first.process)["server"], signal.SIGKILL)
        servers_are(service, 1)
        equal(second.more()[:2], (0, 24))


def test_next_daemon():
    """It knows which clients are in the group, and what their servers have of the limit."""
    with mps.Service(SETTINGS) as service:
        make_group(service, 64)
        holders = [Holder(service, 20, env=env) for env in (MEMBER, ISOLATED)]
        service.restart_killed()
        wait_for("both clients", lambda: "clients 2" in said(service, "group", "get", "g"))
        equal(said(service, "group", "delete", "g"), "Group g has 2 clients: end them first\n")
        third = Holder(service, 12, env=MEMBER)
        equal(third.first, (0, 12, 64, 64))
        equal([holder.more()[0] for holder in holders], [OUT_OF_MEMORY] * 2)
        end(third)
        wait_for("its end", lambda: "clients 2" in said(service, "group", "get", "g"))
        equal(holders[1].more()[:2], (0, 4))
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "128M")
        equal(holders[0].more()[:2], (0, 48))


def test_without_a_daemon():
    """A server keeps its lease, and its clients' further allocations wait for the next daemon."""
    with mps.Service(SETTINGS) as service:
        make_group(service, 64)
        holders = [Holder(service, 20, env=env) for env in (MEMBER, ISOLATED)]
        service.daemon.kill()
        service.daemon.wait()
        began = time.monotonic()
        equal([holder.more()[0] for holder in holders], [OUT_OF_MEMORY] * 2)
        assert time.monotonic() - began < (2 * WAIT_S + 3) * mps.SLOW
        service.start()


def restart_all(service):
    for server in service.servers():
        contains(said(service, "restart_server", server), "Server %d has moved its 1 clients" % server)
    servers_are(service, 2)


def test_moves():
    """Clients that move keep what they have, and the group has no byte more or less, also after a limit was lowered."""
    with card.Card(CARD_MIB) as small, mps.Service({**SETTINGS, **small.settings}) as service:
        make_group(service, 96)
        holders = [Holder(service, 40, env=env) for env in (MEMBER, ISOLATED)]
        for _ in range(2):
            servers_are(service, 2)
            restart_all(service)
            equal([holder.more() for holder in holders], [(OUT_OF_MEMORY, 16, 96, 96)] * 2)
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "64M", "-active_thread_percentage", 50)
        restart_all(service)
        equal([holder.more() for holder in holders], [(OUT_OF_MEMORY, 0, 64, 64)] * 2)
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "124M")
        restart_all(service)
        equal([holder.more()[:2] for holder in holders], [(0, 4), (OUT_OF_MEMORY, 4)])
        end(holders[0])
        wait_for("its end", lambda: "clients 1" in said(service, "group", "get", "g"))
        equal([holders[1].more()[:2] for _ in range(2)], [(0, 44), (0, 4)])


def test_moves_beside_requests():
    """A server that wants memory of the group while another one moves gets what is free, and never more."""
    with card.Card(CARD_MIB) as small, mps.Service({**SETTINGS, **small.settings}) as service:
        make_group(service, 64)
        holders = [Holder(service, 20, env=env) for env in (MEMBER, ISOLATED)]
        moving = begin_restart(service, row_of(service, holders[0].process)["server"])
        time.sleep(dice().uniform(0, 0.3))
        equal(holders[1].more()[:2], (0, 4))
        equal(moving.wait(60), 0)
        equal(holders[0].more()[:2], (OUT_OF_MEMORY, 4))


def test_stopped_server():
    """Its lease counts as used: an allocation of another server fails in time."""
    with mps.Service(SETTINGS) as service:
        make_group(service, 64)
        first = Holder(service, 20, env=MEMBER)
        second = Holder(service, 20, env=ISOLATED)
        equal(first.more()[0], 0)
        server = row_of(service, first.process)["server"]
        os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        equal(second.more()[0], OUT_OF_MEMORY)
        assert time.monotonic() - began < (WAIT_S + 3) * mps.SLOW
        os.kill(server, signal.SIGCONT)


if __name__ == "__main__":
    main(globals())
