#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 60 s
# mostly waits
"""Turns of servers on GPUs for one process, and isolated servers, as processes see them.

The servers are stand-ins (fake_server.py). The rules are in tests/unit/daemon: test_slot.c,
test_turns.c and test_quarantine.c.
"""

import contextlib
import os
import signal
import socket
import sys

import harness
import wire
from harness import contains, equal, need_root, wait_for
from test_daemon import Client, Daemon, lives

ALICE, BOB = 1000, 1001
EXCLUSIVE = 3
START_S = 20


@contextlib.contextmanager
def exclusive_daemon():
    with Daemon() as daemon:
        with open(daemon.fake + "/compute_mode", "w", encoding="utf-8") as file:
            file.write("%d" % EXCLUSIVE)
        yield daemon


def server_of(daemon, program, **fields):
    """The server of a client that runs the program, and the client, which stays."""
    client = Client(daemon, words=wire.hello(program=program, **fields))
    return client.served_by(), client


def read_pending(client):
    """What a client receives that has to wait for its turn."""
    kind = wire.FRAMES["pending"]
    words = b""
    while len(words) < kind.size:
        more = client.sock.recv(kind.size - len(words))
        assert more, "closed after %r" % words
        words += more
    equal(words[:2], bytes([0, kind.number]), "a frame")
    return words[8:].rstrip(b"\0").decode()


# ---- EXCLUSIVE_PROCESS


def test_users_take_turns():
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        first = alice.served_by()
        bob = Client(daemon, BOB)
        contains(read_pending(bob), "server %d of UID %d has exclusive use of the GPU" % (first, ALICE))
        late = Client(daemon, ALICE)
        contains(read_pending(late), "its 1 clients have exited")
        equal(daemon.servers(), [first], "one at a time")
        alice.sock.close()
        equal(read_pending(bob), "the server starts")
        second = bob.served_by()
        wait_for("the end of the first", lambda: daemon.servers() == [second])
        bob.sock.close()
        equal(read_pending(late), "the server starts")
        third = late.served_by()
        wait_for("the end of the second", lambda: daemon.servers() == [third])
        log = daemon.read("control")
        contains(log, "from user %d: Server is not ready, push client to pending list" % BOB)
        contains(log, "Try shutting down server %d" % first)


def read_until_served(client):
    """The PID of the server, after any number of PENDING frames."""
    while True:
        head = client.sock.recv(1, socket.MSG_PEEK)
        if head != b"\0":
            return client.served_by()
        read_pending(client)


def test_unresponsive_server_loses_its_turn():
    """It was stopped before it was told to give way: its clients do not leave."""
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        first = alice.served_by()
        os.kill(first, signal.SIGSTOP)
        wait_for("the daemon to notice", lambda: "was stopped by signal" in daemon.read("control"))
        bob = Client(daemon, BOB)
        read_pending(bob)
        wait_for("the end of the first", lambda: not lives(first), START_S)
        assert read_until_served(bob) != first


# ---- isolated servers


def test_next_daemon_knows_them():
    with Daemon() as daemon:
        own, shared = server_of(daemon, 5, is_isolated=1), server_of(daemon, 1)
        assert own[0] != shared[0]
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        equal(daemon.run("-d").returncode, 0)
        wait_for("both", lambda: daemon.read("control").count("Adopted server") == 2, START_S)
        equal(server_of(daemon, 5, is_isolated=1)[0], own[0])
        equal(server_of(daemon, 1)[0], shared[0])


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
