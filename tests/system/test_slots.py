#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# mostly waits
"""Which server serves which client: turns on GPUs for one process, and isolated servers.

The servers are stand-ins (fake_server.py).
"""

import contextlib
import os
import signal
import socket
import sys

import harness
import wire
from harness import contains, equal, need_root, wait_for
from test_daemon import Client, Daemon, lives, read_refused

ALICE, BOB, CAROL = 1000, 1001, 1002
EXCLUSIVE, PROHIBITED = 3, 2
START_S = 20


@contextlib.contextmanager
def exclusive_daemon(**options):
    with Daemon(**options) as daemon:
        set_compute_mode(daemon, EXCLUSIVE)
        yield daemon


def set_compute_mode(daemon, mode):
    with open(daemon.fake + "/compute_mode", "w", encoding="utf-8") as file:
        file.write("%d" % mode)


def of_program(daemon, program, uid=None, **fields):
    return Client(daemon, uid, wire.hello(program=program, **fields))


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


def test_first_come_first_served():
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        alice.served_by()
        carol, bob = Client(daemon, CAROL), Client(daemon, BOB)
        read_pending(carol)
        read_pending(bob)
        alice.sock.close()
        read_pending(carol)
        equal(owner(carol.served_by()), CAROL)
        carol.sock.close()
        read_pending(bob)
        equal(owner(bob.served_by()), BOB)


def owner(pid):
    return os.stat("/proc/%d" % pid).st_uid


def test_client_that_gives_up_keeps_no_turn():
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        first = alice.served_by()
        bob, carol = Client(daemon, BOB), Client(daemon, CAROL)
        read_pending(bob)
        read_pending(carol)
        bob.sock.close()
        wait_for("the daemon to notice", lambda: "%d" % first in daemon.ask("get_server_list"))
        alice.sock.close()
        read_pending(carol)
        equal(owner(carol.served_by()), CAROL)
        equal(len(daemon.servers()), 1)


def test_idle_server_gives_way_at_once():
    need_root()
    with exclusive_daemon() as daemon:
        equal(daemon.ask("start_server -uid %d" % ALICE), "")
        first, = daemon.servers()
        bob = Client(daemon, BOB)
        second = read_until_served(bob)
        assert second != first
        wait_for("the end of the first", lambda: not lives(first))
        equal(daemon.ask("start_server -uid %d" % BOB), "")


def read_until_served(client):
    """The PID of the server, after any number of PENDING frames."""
    while True:
        head = client.sock.recv(1, socket.MSG_PEEK)
        if head != b"\0":
            return client.served_by()
        read_pending(client)


def test_servers_that_start_at_once():
    """The compute mode is unknown before the first server exists."""
    need_root()
    with exclusive_daemon(mode="slow") as daemon:
        clients = [Client(daemon, uid) for uid in (ALICE, BOB, CAROL)]
        served = set()
        while clients:
            for client in clients:
                client.sock.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    read_until_served(client)
                    served.add(client)
                client.sock.settimeout(20)
            for client in [each for each in clients if each in served]:
                wait_for("the end of the other servers", lambda: len(daemon.servers()) == 1)
                client.sock.close()
                clients.remove(client)
        equal(len(served), 3)


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


def test_default_mode_again():
    """The newest server's report of the mode counts."""
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        alice.served_by()
        bob = Client(daemon, BOB)
        read_pending(bob)
        set_compute_mode(daemon, 0)
        alice.sock.close()
        read_until_served(bob)
        carol = Client(daemon, CAROL)
        read_until_served(carol)
        equal(len(daemon.servers()), 2)


def test_user_that_lies_about_the_mode():
    """A report by a user's server of the compute mode affects only that user."""
    need_root()
    with Daemon() as daemon:
        with open(daemon.fake + "/claimed_mode_%d" % ALICE, "w", encoding="utf-8") as file:
            file.write("%d" % EXCLUSIVE)
        alice = Client(daemon, ALICE)
        alice.served_by()
        wait_for("the daemon to look by itself", lambda: "probes for GPUs" in daemon.read("control"))
        bob = Client(daemon, BOB)
        bob.served_by()
        equal(len(daemon.servers()), 2)


def test_user_that_lies_again_and_again():
    """The daemon probes while a server reports wrong modes, but other users wait less than that."""
    need_root()
    with Daemon() as daemon:
        for name, value in (("claimed_mode_%d" % ALICE, EXCLUSIVE), ("slow_probe", 3),
                            ("claims_again_%d" % ALICE, 1)):
            with open(daemon.fake + "/" + name, "w", encoding="utf-8") as file:
                file.write("%d" % value)
        alice = Client(daemon, ALICE)
        alice.served_by()
        for uid in (BOB, CAROL):
            wait_for("a probe", lambda: "probes for GPUs" in daemon.read("control"))
            client = Client(daemon, uid)
            client.sock.settimeout(8)
            client.served_by()


def test_quit_while_others_wait():
    need_root()
    with exclusive_daemon() as daemon:
        alice = Client(daemon, ALICE)
        alice.served_by()
        bob = Client(daemon, BOB)
        read_pending(bob)
        daemon.quit("quit -t 0")
        contains(read_refused(bob.sock)[1], "is being stopped")


# ---- isolated servers


def test_isolated_program():
    with Daemon(environment={"MPS_IDLE_S": "1"}) as daemon:
        # Its connection stays open: an idle server ends after a second.
        first = of_program(daemon, 1)
        shared = first.served_by()
        clients = [of_program(daemon, program, is_isolated=1) for program in (2, 3, 2)]
        servers = [client.served_by() for client in clients]
        equal(servers[0], servers[2], "of one program")
        equal(len({shared, *servers}), 3)
        equal(sorted(map(int, daemon.ask("get_server_list").split())), sorted({shared, *servers}))
        equal(of_program(daemon, 4).served_by(), shared)
        contains(daemon.read("control"), "gets a server of its own: its environment sets MPS_ISOLATE")
        clients[1].sock.close()
        wait_for("the end of one that is idle", lambda: not lives(servers[1]), START_S)
        assert lives(servers[0]), "it has clients"


def test_isolated_programs_have_a_limit():
    with Daemon() as daemon:
        clients = [of_program(daemon, program, is_isolated=1) for program in range(8)]
        for client in clients:
            client.served_by()
        result, text = read_refused(of_program(daemon, 8, is_isolated=1).sock)
        equal(result, 808)
        contains(text, "has 8 isolated programs")
        of_program(daemon, 8).served_by()


def fault(client):
    client.sock.sendall(b"fault")
    wait_for("its server's end", lambda: not lives(client.server), START_S)


def served(client):
    client.server = client.served_by()
    return client


def test_quarantine():
    """The second fault within a minute; the next one affects no other program."""
    with Daemon() as daemon:
        for _ in range(2):
            fault(served(of_program(daemon, 7)))
        contains(daemon.read("control"), "A program of user %d has caused 2 GPU faults" % os.getuid())
        bystander = served(of_program(daemon, 1))
        culprit = served(of_program(daemon, 7))
        assert culprit.server != bystander.server
        contains(daemon.read("control"), "gets a server of its own: its program is quarantined")
        fault(culprit)
        assert lives(bystander.server)
        equal(served(of_program(daemon, 2)).server, bystander.server)


def test_one_fault_is_not_quarantined():
    with Daemon() as daemon:
        fault(served(of_program(daemon, 7)))
        equal(served(of_program(daemon, 7)).server, served(of_program(daemon, 1)).server)


def test_next_daemon_knows_them():
    with Daemon() as daemon:
        own = served(of_program(daemon, 5, is_isolated=1))
        shared = served(of_program(daemon, 1))
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        equal(daemon.run("-d").returncode, 0)
        wait_for("both", lambda: daemon.read("control").count("Adopted server") == 2, START_S)
        equal(served(of_program(daemon, 5, is_isolated=1)).server, own.server)
        equal(served(of_program(daemon, 1)).server, shared.server)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
