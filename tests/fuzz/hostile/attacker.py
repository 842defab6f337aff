# SPDX-License-Identifier: Apache-2.0
"""Hostile clients: each life is one process with one session.

A session plays scenes, sends random messages between them, and ends in one of
several ways. In some sessions another process writes into the ring meanwhile.
"""

import contextlib
import os
import random
import signal
import socket
import time

import mps
import session
import wire
from . import scenes, scenes_graphs, scenes_groups, scenes_receiver, scenes_work
from .client import Client, Dropped
from .known import Known
from .lives import Lives

# The longest life of a session, and how many messages it places.
LIFE_S = 3.0
MESSAGES = (30, 200, 1000, 4000)
SCENES = [play for module in (scenes, scenes_work, scenes_graphs, scenes_groups, scenes_receiver)
          for name, play in sorted(vars(module).items()) if name.startswith("scene_")]
# Environment variables in HELLO, and values for them.
VARIABLES = {"group": (b"jobs", b"jobs", b"jobs/x", b"others", b"", b"a/b\n"),
             "sm_partition": (b"GPU-0/AAA", b"x"),
             "client_priority": (b"1", b"2", b"7")}
NAP_S = 0.3


class Attacker(Lives):
    KILLED, KILLED_S = 0.15, LIFE_S / 2

    def __init__(self, service, seed, share, until, manners):
        super().__init__(service, seed, share, until)
        self.manners = manners

    def live(self, dice):
        try:
            Life(self, dice).run()
        except session.Refused:
            self.share.counts.add("refused")
            time.sleep(NAP_S)
        except (Dropped, OSError):
            self.share.counts.add("dropped")


class Life:
    def __init__(self, attacker, dice):
        self.dice, self.manners, self.share = dice, attacker.manners, attacker.share
        known = Known(dice, self.share.tokens)
        self.client = Client(attacker.service, dice, known, self.manners, self.share,
                             **self.variables(dice))
        self.client.until = min(time.monotonic() + LIFE_S * mps.SLOW, attacker.until)
        self.share.counts.add("sessions")

    @staticmethod
    def variables(dice):
        """Environment variables of its program."""
        return {name: wire.variable(dice.choice(values)) for name, values in VARIABLES.items()
                if name in wire.FRAMES["hello"].members
                and dice.random() < (0.3 if name == "group" else 0.1)}

    def run(self):
        c, dice = self.client, self.dice
        n = dice.choice(MESSAGES)
        scribbler = 0
        if dice.random() < 0.97:
            scenes.furnish(c)
        if dice.random() < self.manners.races:
            scribbler = self.scribble()
        try:
            while c.seq < n and time.monotonic() < c.until:
                if dice.random() < 0.5:
                    dice.choice(SCENES)(c)
                else:
                    for _ in range(dice.choice((1, 5, 40))):
                        c.say_any()
                c.drain()
                if dice.random() < 0.8:
                    c.tend()
            self.end()
        finally:
            if scribbler:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(scribbler, signal.SIGKILL)

    def scribble(self):
        """Starts a process that changes messages and words in the ring; returns its PID."""
        self.share.counts.add("races")
        child = os.fork()
        if child:
            return child
        c, dice = self.client, random.Random(self.dice.random())
        places = (0, 4, wire.WAITING, wire.DONE, wire.GRAPH_DONE)
        while time.monotonic() < c.until:
            at = dice.choice(places) + 8 * dice.randrange(64)
            if dice.random() < 0.7:
                tail = int.from_bytes(c.ring[0:4], "little") if dice.random() < 0.9 else 0
                at = wire.RING_DATA + (tail + 8 * dice.randrange(16)) % (wire.RING_SIZE - 256)
            elif at < 8 and dice.random() < 0.98:
                continue
            c.ring[at:at + 8] = dice.choice((bytes(8), b"\xff" * 8, b"\1" + bytes(7),
                                             dice.randbytes(8)))
            time.sleep(dice.choice((0, 0.00005, 0.001)))
        os._exit(0)

    def end(self):
        """Ends the session: by closing, by dying, in the middle of something, or not at all."""
        c, which = self.client, self.dice.random()
        if which < 0.3:
            c.close()
        elif which < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        elif which < 0.6:
            with contextlib.suppress(OSError):
                c.sock.shutdown(self.dice.choice(
                    (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
        elif which < 0.7:
            words = wire.frame("image", 1, size=4096)
            with contextlib.suppress(OSError):
                c.sock.send(words[:self.dice.randrange(1, len(words))])
        elif which < 0.8:
            c.tell(c.tail + self.dice.choice((1, 8, wire.RING_SIZE, 1 << 31)))
        elif which < 0.85:
            # A child keeps the connection open for a moment.
            if not os.fork():
                time.sleep(NAP_S)
