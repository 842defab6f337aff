# SPDX-License-Identifier: Apache-2.0
"""Memory that all hostile processes share: IPC tokens, and counts of events.

Every process inherits this memory. If two processes write at once, a token or a
count may be lost; that does no harm.
"""

import mmap
import struct

import wire

PAIR = struct.Struct("<QQ")


class Tokens:
    """The last tokens of all sessions, for other sessions to open."""

    PLACES = 16

    def __init__(self):
        self.memory = mmap.mmap(-1, PAIR.size * (self.PLACES + 1))

    def put(self, token):
        n, _ = PAIR.unpack_from(self.memory)
        PAIR.pack_into(self.memory, PAIR.size * (1 + n % self.PLACES), *token)
        PAIR.pack_into(self.memory, 0, n + 1, 0)

    def some(self, dice):
        """A recent token, whose session probably still lives."""
        n, _ = PAIR.unpack_from(self.memory)
        back = dice.choice((1, 1, 2, 2, 3, 4, dice.randint(1, self.PLACES)))
        return PAIR.unpack_from(self.memory, PAIR.size * (1 + (n - back) % self.PLACES))


class Counts:
    """Totals by name, and for each message how often it was placed and succeeded."""

    NAMES = ("sessions", "messages", "bytes", "answers", "successes", "dropped", "refused", "races",
             "descriptors", "connections", "frames", "commands", "broken")
    PLACED, SUCCEEDED = range(2)

    def __init__(self):
        self.index = {name: i for i, name in enumerate(self.NAMES)}
        self.row = {m.name: len(self.NAMES) + 2 * i for i, m in enumerate(wire.SPEC.messages)}
        self.memory = mmap.mmap(-1, 8 * (len(self.NAMES) + 2 * len(self.row)))
        self.words = memoryview(self.memory).cast("Q")

    def add(self, name, n=1):
        self.words[self.index[name]] += n

    def get(self, name):
        return self.words[self.index[name]]

    def add_message(self, name, what):
        self.words[self.row[name] + what] += 1

    def of_message(self, name):
        """(placed, succeeded)."""
        return tuple(self.words[self.row[name]:self.row[name] + 2])


class Share:
    def __init__(self):
        self.tokens, self.counts = Tokens(), Counts()
