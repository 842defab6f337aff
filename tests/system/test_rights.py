#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Each command by each kind of user: permissions, visible results, and no effect of a refused one.

A command that is in the daemon's table and not in this table fails the test.
"""

import os
import random
import re
import socket

import harness
import mps
import operator_lines
from chaos_client import SERVED, Client
from harness import equal, need_root, wait_for

OWNER, OTHER, DAEMON = 12345, 12346, 12347
SERVER_USER = "nobody"
MAY, NOT = "may", "may not"

# S is a server with the client C, of user U; D is another user's client in it (with -M). With a
# daemon of root: the owner of the server, and another user. With a daemon of another user: a third
# user. With a daemon with -M: the user of the client. Root and the daemon's user may give all
# commands.
TABLE = (
    # command                                 owner  other  other  -M
    ("get_server_list",                       MAY,   MAY,   MAY,   MAY),
    ("get_server_list --json",                MAY,   MAY,   MAY,   MAY),
    ("get_server_status S",                   MAY,   NOT,   NOT,   MAY),
    ("start_server -uid U",                   MAY,   NOT,   NOT,   MAY),
    ("get_client_list S",                     MAY,   NOT,   NOT,   MAY),
    ("get_device_client_list",                MAY,   MAY,   MAY,   MAY),
    ("get_device_client_list S",              MAY,   NOT,   NOT,   MAY),
    ("get_last_fault",                        MAY,   MAY,   MAY,   MAY),
    ("get_last_fault 3 --json",               MAY,   MAY,   MAY,   MAY),
    ("ps",                                    MAY,   MAY,   MAY,   MAY),
    ("ps -l",                                 MAY,   MAY,   MAY,   MAY),
    ("ps --json",                             MAY,   MAY,   MAY,   MAY),
    ("ps -p S",                               MAY,   NOT,   NOT,   MAY),
    ("stats",                                 MAY,   MAY,   MAY,   MAY),
    ("stats --json",                          MAY,   MAY,   MAY,   MAY),
    ("metrics",                               MAY,   MAY,   MAY,   MAY),
    ("trace start -server S",                 MAY,   NOT,   NOT,   MAY),
    ("trace stop -server S",                  MAY,   NOT,   NOT,   MAY),
    ("device_query",                          MAY,   MAY,   MAY,   MAY),
    ("device_query --json",                   MAY,   MAY,   MAY,   MAY),
    ("device_query S",                        MAY,   NOT,   NOT,   MAY),
    ("set_default_active_thread_percentage 50", NOT, NOT,   NOT,   NOT),
    ("get_default_active_thread_percentage",  MAY,   MAY,   MAY,   MAY),
    ("set_active_thread_percentage S 50",     MAY,   NOT,   NOT,   NOT),
    ("set_active_thread_percentage -group g 50", NOT, NOT,  NOT,   NOT),
    ("get_active_thread_percentage S",        MAY,   NOT,   NOT,   MAY),
    ("get_active_thread_percentage -group g", MAY,   MAY,   MAY,   MAY),
    ("set_default_device_pinned_mem_limit 0 1G", NOT, NOT,  NOT,   NOT),
    ("get_default_device_pinned_mem_limit 0", MAY,   MAY,   MAY,   MAY),
    ("set_device_pinned_mem_limit S 0 1G",    MAY,   NOT,   NOT,   NOT),
    ("set_device_pinned_mem_limit -group g 0 1G", NOT, NOT, NOT,   NOT),
    ("get_device_pinned_mem_limit S 0",       MAY,   NOT,   NOT,   MAY),
    ("get_device_pinned_mem_limit -group g 0", MAY,  MAY,   MAY,   MAY),
    ("set_default_client_priority 1",         NOT,   NOT,   NOT,   NOT),
    ("get_default_client_priority",           MAY,   MAY,   MAY,   MAY),
    ("set_client_priority S 1",               MAY,   NOT,   NOT,   NOT),
    ("set_client_priority -group g 1",        NOT,   NOT,   NOT,   NOT),
    ("get_client_priority S",                 MAY,   NOT,   NOT,   MAY),
    ("get_client_priority -group g",          MAY,   MAY,   MAY,   MAY),
    ("group create h",                        NOT,   NOT,   NOT,   NOT),
    ("group set g -priority 1",               NOT,   NOT,   NOT,   NOT),
    ("group get g",                           MAY,   MAY,   MAY,   MAY),
    ("group list",                            MAY,   MAY,   MAY,   MAY),
    ("group delete g",                        NOT,   NOT,   NOT,   NOT),
    ("log_level",                             MAY,   MAY,   MAY,   MAY),
    ("log_level debug",                       NOT,   NOT,   NOT,   NOT),
    ("reload",                                NOT,   NOT,   NOT,   NOT),
    ("help",                                  MAY,   MAY,   MAY,   MAY),
    ("suspend_client C",                      MAY,   NOT,   NOT,   MAY),
    ("suspend_client D",                      None,  None,  None,  NOT),
    ("suspend_client -uid U",                 MAY,   NOT,   NOT,   MAY),
    ("suspend_client -group g",               NOT,   NOT,   NOT,   NOT),
    ("resume_client C",                       MAY,   NOT,   NOT,   MAY),
    ("terminate_client S C",                  MAY,   NOT,   NOT,   MAY),
    ("terminate_client S D",                  None,  None,  None,  NOT),
    ("restart_server S",                      MAY,   NOT,   NOT,   NOT),
    ("shutdown_server S",                     MAY,   NOT,   NOT,   NOT),
    ("shutdown_server S -f",                  MAY,   NOT,   NOT,   NOT),
    ("quit -t 0",                             NOT,   NOT,   NOT,   NOT),
)
# The same for a daemon with -S, which has no client.
PARTITION_TABLE = (
    # command                                 another user
    ("lspart",                                MAY),
    ("sm_partition add 0 2",                  NOT),
    ("sm_partition rm 0 x",                   NOT),
)
# What a refused command must not change.
STATE = ("get_server_list", "get_client_list S", "get_default_active_thread_percentage",
         "get_default_client_priority", "get_default_device_pinned_mem_limit 0", "group list",
         "log_level", "get_active_thread_percentage S", "get_client_priority S",
         "get_device_pinned_mem_limit S 0")
# These end the server or the client, or move the client to another server.
ENDS = ("terminate_client", "shutdown_server", "restart_server")
REFUSED = "Operation not permitted: "
MISTAKES = re.compile(r"Usage: |Unknown command|not found", re.M)


def converse(path, line):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30 * mps.SLOW)
        sock.connect(path)
        sock.sendall(line.encode() + b"\n\x04\n")
        text = b""
        while not text.endswith(b"\x04"):
            more = sock.recv(65536)
            if not more:
                break
            text += more
    return text.decode().rstrip("\x04")


def said_to(uid, path, line):
    """The reply for a process of that user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with open(write_end, "w", encoding="utf-8") as file:
                file.write(converse(path, line) or "\n")
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    assert text, "no reply to %r of user %d" % (line, uid)
    return text


class Ground:
    """A service with a server of `owner', and a client in it."""

    def __init__(self, service, owner, beside=None):
        self.service, self.owner, self.beside = service, owner, beside
        self.path = service.pipe + "/control"
        self.clients, self.server = {}, 0
        self.said("group create g")
        self.furnish()

    def said(self, line, uid=0):
        return said_to(uid, self.path, self.words(line))

    def words(self, line):
        words = {"S": str(self.server), "U": str(self.owner)}
        words.update({name: str(client.pid) for name, client in self.clients.items()})
        return " ".join(words.get(word, word) for word in line.split(" "))

    def furnish(self):
        """The clients, created again if necessary."""
        self.end()
        for name, uid, command in (("C", self.owner, b"secret"), ("D", self.beside, b"beside")):
            if uid is None:
                continue
            client = Client(self.service, random.Random(1), uid, program=1, command=command)
            wait_for("a welcome", client.look)
            equal(client.how, SERVED, client.text)
            client.order("work")
            self.clients[name], self.server = client, client.server
            wait_for("its context", lambda client=client: "%d" % client.pid in self.said("ps"))

    def end(self):
        for client in self.clients.values():
            client.end(is_killed=True)
        if self.server:
            wait_for("no clients", lambda: not self.said("get_client_list S").strip()
                     or "not found" in self.said("get_client_list S"))
        self.clients = {}

    def state(self):
        return [self.said(line) for line in STATE]

    def check(self, line, uid, expected, is_owner):
        before = self.state() if expected == NOT else None
        text = self.said(line, uid)
        about = "%s of user %d: %s" % (self.words(line), uid, text)
        equal(NOT if REFUSED in text else MAY, expected, about)
        if expected == NOT:
            equal(self.state(), before, about)
        else:
            assert not MISTAKES.search(text), about
        if not is_owner:
            assert "secret" not in text, about
            assert str(self.clients["C"].pid) not in re.split(r"\W", text), about
        if expected == MAY and line.startswith(ENDS):
            self.furnish()

    def check_user(self, uid, column, is_owner=False):
        for row in TABLE:
            if row[column] is not None:
                self.check(row[0], uid, row[column], is_owner)

    def check_trusted(self, uid):
        """Root and the daemon's user; quit comes last."""
        for row in TABLE:
            if row[1] is not None and not row[0].startswith("quit"):
                self.check(row[0], uid, MAY, True)
                if row[0] == "group delete g":
                    self.said("group create g")
                    self.said("group delete h")


def quit_by(ground, uid):
    assert REFUSED not in ground.said("quit -t 0", uid)
    ground.service.daemon.wait(30 * mps.SLOW)


def test_table_is_whole():
    equal(sorted({row[0].split()[0] for row in TABLE + PARTITION_TABLE}),
          sorted(operator_lines.table()))


def test_root():
    """The daemon of root: root, the owner of a server, another user."""
    need_root()
    with mps.Service() as service:
        ground = Ground(service, OWNER)
        ground.check_user(OTHER, 2)
        ground.check_user(OWNER, 1, is_owner=True)
        ground.check_trusted(0)
        quit_by(ground, 0)
        ground.clients["C"].end(is_killed=True)


def test_daemon_of_a_user():
    need_root()
    with mps.Service(uid=DAEMON) as service:
        ground = Ground(service, DAEMON)
        ground.check_user(OTHER, 3)
        ground.check_trusted(DAEMON)
        ground.check_trusted(0)
        quit_by(ground, DAEMON)
        ground.clients["C"].end(is_killed=True)


def test_partitions():
    need_root()
    with mps.Service(options=["-S"]) as service:
        path = service.pipe + "/control"
        for uid, may in ((OTHER, None), (0, MAY)):
            for line, expected in PARTITION_TABLE:
                before = said_to(0, path, "lspart")
                text = said_to(uid, path, line)
                equal(NOT if REFUSED in text else MAY, may or expected, line)
                if NOT == (may or expected):
                    equal(said_to(0, path, "lspart"), before, line)
                assert "Unknown command" not in text, text


def test_multiuser():
    """With -M: a user with a client in the server, and a user without."""
    need_root()
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = SERVER_USER
    with service:
        ground = Ground(service, OWNER, OTHER)
        ground.check_user(OWNER, 4, is_owner=True)
        for line in ("ps", "ps --json", "ps -l", "get_client_list S", "get_device_client_list",
                     "get_last_fault --json"):
            ground.check(line, OTHER, MAY, False)
        for uid, own in (OWNER, "C"), (OTHER, "D"):
            equal(ground.said("get_client_list S", uid), "%d\n" % ground.clients[own].pid)
        ground.check_trusted(0)
        quit_by(ground, 0)
        for client in ground.clients.values():
            client.end(is_killed=True)


if __name__ == "__main__":
    harness.main(globals())
