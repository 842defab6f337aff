#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile acts of strangers against a daemon, each for some seconds.

    floods.py ACT UID PIPE-DIRECTORY METRICS-PORT SECONDS

An act is a function act_*(): it floods the control socket, or the port of the metrics, with what
its name says. Root starts this program, which takes the UID of a stranger; the acts of ROOTS take many
UIDs in turn instead, as a user with subordinate UIDs can.
"""

import contextlib
import os
import random
import select
import signal
import socket
import sys
import time

import wire

# Subordinate UIDs of a stranger.
SUBORDINATES, N_SUBORDINATES = 200000, 2000
HELD = 300  # connections of one act at a time
COMMANDS = (b"ps\n", b"stats\n", b"metrics\n", b"get_server_list\n", b"ps -l --json\n")


class Flood:
    """Where the acts happen, and until when."""

    def __init__(self, pipe, port, seconds):
        self.path, self.port = pipe + "/control", port
        self.until = time.monotonic() + seconds
        self.dice = random.Random(os.getpid())

    def goes_on(self):
        return time.monotonic() < self.until

    def connect(self, words=b""):
        """A connection that never blocks, after these words; None while there is no daemon."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(1)
        try:
            sock.connect(self.path)
            sock.setblocking(False)
            if words:
                sock.send(words)
        except OSError:
            sock.close()
            time.sleep(0.01)
            return None
        return sock

    def hold(self, next_words, n=HELD):
        """Keeps n connections, each after its words; the oldest ones make room for new ones."""
        kept = []
        while self.goes_on():
            kept.append(self.connect(next_words()))
            if len(kept) > n:
                oldest = kept.pop(0)
                if oldest:
                    oldest.close()


def act_connections(flood):
    """Connections that are closed at once."""
    while flood.goes_on():
        sock = flood.connect()
        if sock:
            sock.close()


def act_silence(flood):
    """Connections that say nothing."""
    flood.hold(lambda: b"")


def act_half_commands(flood):
    """Commands without their end, and HELLOs without theirs."""
    hello = wire.hello()

    def words():
        whole = flood.dice.choice(COMMANDS + (hello, hello))
        return whole[:flood.dice.randrange(1, len(whole))]
    flood.hold(words)


def act_unread_replies(flood):
    """Commands whose replies are not read."""
    flood.hold(lambda: flood.dice.choice(COMMANDS) * 50, 60)


def act_garbage(flood):
    """Frames of each type with random members, and bytes that are no frame."""
    def words():
        kind = flood.dice.choice(list(wire.FRAMES))
        size = wire.FRAMES[kind].size
        whole = bytearray(wire.frame(kind, flood.dice.randrange(3)))
        if flood.dice.random() < 0.3:
            return flood.dice.randbytes(flood.dice.randrange(1, 600))
        whole[wire.HEAD_OF_FRAME:] = flood.dice.randbytes(size - wire.HEAD_OF_FRAME)
        return bytes(whole)
    flood.hold(words)


def act_stats(flood):
    """Reports, again and again, on sixteen connections."""
    socks = {flood.connect(b"stats\n" * 20) for _ in range(16)} - {None}
    while flood.goes_on():
        for sock in select.select(socks, [], [], 0.2)[0]:
            try:
                said = sock.recv(1 << 16)
                if said:
                    sock.send(b"stats\n" * max(1, said.count(b"PID")))
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            socks.remove(sock)
            sock.close()
        while len(socks) < 16 and flood.goes_on():
            sock = flood.connect(b"stats\n" * 20)
            if sock:
                socks.add(sock)


def act_starts(flood):
    """The own server is started and killed."""
    while flood.goes_on():
        sock = flood.connect(b"start_server -uid %d\nget_server_list\n\4\n" % os.getuid())
        if not sock:
            continue
        with sock, contextlib.suppress(OSError):
            sock.settimeout(2)
            said = b""
            while not said.endswith(b"\4"):
                more = sock.recv(4096)
                if not more:
                    break
                said += more
            for word in said.rstrip(b"\4").split():
                # Only an own process can be killed.
                if word.isdigit():
                    os.kill(int(word), signal.SIGKILL)


def act_sessions(flood):
    """Clients that take sessions of the own server and say nothing more."""
    flood.hold(wire.hello, 100)


def act_requests(flood):
    """Requests for the metrics that never end, whose pages are not read, or that are nonsense."""
    kept = []
    while flood.goes_on():
        sock = socket.socket()
        sock.settimeout(0.2)
        with contextlib.suppress(OSError):
            sock.connect(("127.0.0.1", flood.port))
            sock.send(flood.dice.choice((b"G", b"GET /metrics HTTP/1.1\r\n", b"\0" * 400,
                                         b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")))
        kept.append(sock)
        if len(kept) > 50:
            kept.pop(0).close()


def act_many_uids(flood):
    """Silence, commands and clients under thousands of UIDs of one user."""
    numbers = iter(range(1 << 62))

    def words():
        os.seteuid(0)
        os.seteuid(SUBORDINATES + next(numbers) % N_SUBORDINATES)
        return flood.dice.choice((b"", b"", b"\0", b"ps\n", b"get_server_l", wire.hello()))
    flood.hold(words, 2000)


ROOTS = (act_many_uids,)
ACTS = {name[4:]: act for name, act in sorted(globals().items()) if name.startswith("act_")}


def main():
    name, uid, pipe, port, seconds = sys.argv[1:]
    act, uid = ACTS[name], int(uid)
    wire.spec_hash()  # a stranger may not read the build
    if act not in ROOTS:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    act(Flood(pipe, int(port), float(seconds)))


if __name__ == "__main__":
    main()
