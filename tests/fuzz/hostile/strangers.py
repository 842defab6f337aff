# SPDX-License-Identifier: Apache-2.0
"""Strangers to the daemon: connections that play clients, servers and operators.

A process has many connections at once. Its frames and commands are sometimes cut
short, changed, or sent with descriptors. The daemon may kill a process that plays
a server, as it kills servers that misbehave. Operators learn the PIDs of others' servers from
replies, and name them in commands of the daemon's table; their lines may be long, halved, or have
bytes that front ends use as marks.
"""

import contextlib
import os
import re
import select
import socket
import time

import operator_lines
import session
import wire
from . import descriptors
from .lives import Lives

LIFE_S = 2.0
CONNECTIONS_MAX = 40  # fewer than the daemon allows (STRANGERS_MAX)
COMMANDS = sorted(operator_lines.table().items())
# At once, and for a moment: more than the daemon keeps for one UID.
CROWD, CROWD_S = 800, 0.05
LONG_LINE = 100000
# What front ends and the daemon tell each other by.
NAK, EOT = b"\x15", b"\x04"
MARKS = (NAK + b"\n", EOT + b"\n", NAK, EOT, NAK + b"x: y\n", b"get_server_list" + EOT + b"\n")
# How many PIDs from replies are kept.
PIDS = 32
CLIENT, SERVER, OPERATOR, NOBODY = "client", "server", "operator", "nobody"
TEXTS = (b"", b"x", b"\x1b[2J\x9b", b"%n%s" * 20, b"a" * 255)
# Values of variables in HELLO.
VALUES = (b"0", b"1,0", b"50", b"0=1G")
# How many ids of clients are kept.
IDS = 16
# Bytes of a member that is a number; longer members are texts.
NUMBER_MAX = 8
# Frames from a server to the daemon.
TOLD = ("server_state", "client_here", "client_gone")


class Connection:
    def __init__(self, sock, role):
        self.sock, self.role = sock, role


class Stranger(Lives):
    def __init__(self, service, seed, share, until):
        super().__init__(service, seed, share, until)
        self.connections, self.ids, self.dice = [], [0, 1, 2, 1 << 63], None
        self.pids = ["1"]

    def live(self, dice):
        self.dice = dice
        until = min(self.until, time.monotonic() + LIFE_S)
        while time.monotonic() < until:
            self.step()

    def step(self):
        which = self.dice.random()
        if which < 0.12 or not self.connections:
            self.connect()
            return
        if which > 0.9995:
            self.crowd()
            return
        connection = self.dice.choice(self.connections)
        try:
            if which < 0.75:
                self.say(connection)
            elif which < 0.93:
                self.listen(connection)
            else:
                self.drop(connection)
        except OSError:
            self.drop(connection)
        if self.dice.random() < 0.02:
            time.sleep(self.dice.choice((0.001, 0.01, 0.06)))

    # ---- connections

    def connect(self):
        try:
            sock = session.connect(self.service)
        except OSError:
            time.sleep(0.01)
            return
        sock.setblocking(False)
        self.share.counts.add("connections")
        connection = Connection(sock, self.dice.choice((CLIENT, SERVER, SERVER, OPERATOR, NOBODY)))
        self.connections.append(connection)
        if connection.role != NOBODY:
            with contextlib.suppress(OSError):
                self.put(connection, self.words_of(connection.role, True))
        if len(self.connections) > CONNECTIONS_MAX:
            self.drop(self.connections[0])

    def crowd(self):
        """Hundreds of connections, most of which say nothing, or half a line."""
        socks = []
        with contextlib.suppress(OSError):
            for _ in range(CROWD):
                sock = session.connect(self.service)
                socks.append(sock)
                sock.setblocking(False)
                sock.send(self.dice.choice((b"\0", b"get_ser", b"get_server_list\n", NAK)))
        self.share.counts.add("connections", len(socks))
        time.sleep(CROWD_S)
        for sock in socks:
            sock.close()

    def drop(self, connection):
        if connection in self.connections:
            self.connections.remove(connection)
        connection.sock.close()

    def listen(self, connection):
        if not select.select([connection.sock], [], [], 0)[0]:
            return
        words, control, _, _ = connection.sock.recvmsg(4096, 4096)
        for fd in session.descriptors_in(control):
            os.close(fd)
        if wire.frame_name(words) == "client" and len(words) == wire.FRAMES["client"].size:
            self.ids = (self.ids + [wire.frame_member(words, "client", "id")])[-IDS:]
        if words[:1] != b"\0":
            found = [word.decode() for word in re.findall(rb"\b\d+\b", words)]
            self.pids = (self.pids + found)[-PIDS:]
        if not words:
            self.drop(connection)

    # ---- words

    def say(self, connection):
        role = connection.role if self.dice.random() < 0.85 else self.dice.choice(
            (CLIENT, SERVER, OPERATOR, NOBODY))
        self.put(connection, self.words_of(role, self.dice.random() < 0.05))

    def put(self, connection, words):
        """Sends words, sometimes changed, cut short, or with descriptors."""
        dice = self.dice
        if words and dice.random() < 0.06:
            words = bytearray(words)
            for _ in range(dice.randrange(1, 4)):
                words[dice.randrange(len(words))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.04:
            words = words[:dice.randrange(len(words) + 1)]
        fds = [descriptors.wrong(dice, b"x") for _ in range(dice.choice((1, 1, 2, 5)))] if (
            dice.random() < 0.05) else []
        try:
            socket.send_fds(connection.sock, [bytes(words) or b"\0"], fds)
        except BlockingIOError:
            pass
        finally:
            for fd in fds:
                os.close(fd)

    def words_of(self, role, is_first):
        dice = self.dice
        if role == OPERATOR:
            self.share.counts.add("commands")
            return self.command()
        self.share.counts.add("frames")
        if role == CLIENT:
            return self.hello()
        if role == SERVER:
            return self.frame("server") if is_first else self.frame(dice.choice(TOLD))
        if dice.random() < 0.5:
            return dice.randbytes(dice.randrange(1, 300))
        return self.frame(dice.choice(list(wire.FRAMES)))

    def hello(self):
        dice = self.dice
        return wire.hello(**{name: wire.variable(dice.choice(TEXTS + VALUES))
                             for name, (_, size) in wire.FRAMES["hello"].members.items()
                             if size > NUMBER_MAX and dice.random() < 0.2},
                          program=dice.getrandbits(32))

    def frame(self, name):
        """A frame of that name whose members are mostly plausible."""
        values = {}
        for member, (_, size) in wire.FRAMES[name].members.items():
            if member == "head":
                continue
            values[member] = self.member(member, size)
        return wire.frame(name, self.dice.choice((0, wire.FRAMES[name].n_fds)), **values)

    def member(self, name, size):
        dice = self.dice
        if size > NUMBER_MAX:
            return dice.choice(TEXTS)[:size - 1]
        known = {"version": (wire.FRAME_VERSION,) * 9 + (0, wire.FRAME_VERSION + 1), "spec_hash": (wire.spec_hash(),) * 9
                 + (1,), "uid": (os.getuid(),) * 9 + (0, 1000, 0xffffffff), "id": self.ids,
                 "client": self.ids,
                 "pid": (os.getpid(),) * 9 + (1, os.getppid(), (1 << 31) - 1, 1 << 31, 1 << 63),
                 "state": (1, 2, 2, 2, 3, 4, 0, 9), "reserved": (0,) * 20 + (1,)}.get(name)
        return dice.choice(known or (0, 0, 1, 2, 999, (1 << 8 * size) - 1))

    def command(self):
        """A line, mostly a command about whatever this process has heard of."""
        dice = self.dice
        which = dice.random()
        if which < 0.05:
            return dice.choice(MARKS)
        if which < 0.06:
            return dice.choice((b"x", b"get_server_list ", b"\x15", b"\xff")) * LONG_LINE + b"\n"
        if which < 0.15:
            return dice.choice((b"x" * dice.randrange(3000), b"a\0b", dice.randbytes(40))) + b"\n"
        known = {"PID": self.pids + [str(os.getpid())], "UID": [str(os.getuid())]}
        text = operator_lines.line_of(dice, *dice.choice(COMMANDS), known).encode()
        return text + dice.choice((b"\n", b"\n", b"\r\n", b""))
