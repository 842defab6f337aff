# SPDX-License-Identifier: Apache-2.0
"""A hostile client: one session, whose messages are shaped as the spec says.

say() places a message. The caller gives the values that matter; the rest are
chosen at random. If the message has an answer, say() waits for it. Now and then
say() sends another message first, forgets a given value, or does not wait. A
rude client also breaks rules that cost the connection.
"""

import array
import contextlib
import os
import select
import socket
import struct
import time

import session
import wire
from . import descriptors, images
from .values import Values

SUCCESS = 0
# The longest wait for an answer, or for room in the ring.
ANSWER_S = 2.0
# How many descriptors from the server are kept open.
KEPT = 8
# Messages with an image, and by how many bytes the frame's size exceeds the message's.
IMAGE_SIZE = {"library_load": 0, "library_compile": 0, "linker_add": 1}
# Messages after which the server reads a frame.
FRAMED = (*IMAGE_SIZE, "host_alias", "allocation_import")
# Shares of messages: a random message goes first; a given value is replaced; the answer is ignored.
MIXED, FORGOTTEN, IGNORED = 0.03, 0.02, 0.05
# Shares of a rude client's messages and frames: a broken rule; changed bytes; wrong descriptors.
BROKEN, TWISTED, MISFRAMED = 0.001, 0.002, 0.03


class Dropped(Exception):
    """The server has hung up, or reads no more messages."""


class Client(session.Client):
    """A client with random behaviour. All hostile processes have one `share' (share.py)."""

    def __init__(self, service, dice, known, manners, share, **variables):
        super().__init__(service, **variables)
        self.dice, self.known, self.manners, self.share = dice, known, manners, share
        self.values = Values(dice, known, manners)
        self.seq = 0
        self.kept = []
        self.is_rude = dice.random() < manners.rude
        self.until = float("inf")
        known.n_devices = max(1, struct.unpack_from("<I", self.page, wire.N_DEVICES)[0])
        self.sock.setblocking(False)

    def close(self):
        for fd in self.kept:
            os.close(fd)
        self.kept = []
        with contextlib.suppress(BufferError):
            self.__exit__()

    # ---- the ring

    def n_waiting(self):
        return (self.tail - self.head()) & 0xffffffff

    def push(self, words):
        """Places bytes in the ring, waiting for room."""
        deadline = min(time.monotonic() + ANSWER_S, self.until)
        nap_s = 0.0002
        while self.n_waiting() + len(words) > wire.RING_SIZE:
            self.tend()
            self.drain()
            if time.monotonic() > deadline:
                raise Dropped("no room in the ring")
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, 0.01)
        self.place(words)
        self.share.counts.add("messages")
        self.share.counts.add("bytes", len(words))

    def wait(self, slot, seq):
        """(result, bytes) of an answer; (None, b"") if it does not come."""
        at = wire.REPLIES + wire.REPLY_MAX * (slot - 1)
        deadline = min(time.monotonic() + ANSWER_S, self.until)
        nap_s = 0.00005
        while struct.unpack_from("<I", self.page, at)[0] != seq:
            if time.monotonic() > deadline:
                return None, b""
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, 0.002)
            if nap_s > 0.001:
                self.tend()
                self.drain()
        _, result, size = struct.unpack_from("<III", self.page, at)
        self.share.counts.add("answers")
        return result, self.page[at + 16:at + 16 + min(size, wire.REPLY_MAX - 16)]

    # ---- messages

    def say(self, name, /, **given):
        """Returns the members of a successful answer, which are never empty; else {}."""
        dice, is_framed = self.dice, name in FRAMED
        if dice.random() < MIXED and not is_framed:
            self.say_any()
        message = wire.WIRES[name].message
        if given and dice.random() < FORGOTTEN and (self.is_rude or not is_framed):
            given.pop(dice.choice(list(given)))
        values = self.values.fill(message, given)
        slot = dice.randrange(1, wire.REPLY_SLOTS + 1) if message.is_sync else 0
        self.seq = (self.seq + 1) & 0xffffffff
        words = self.words_of(message, slot, values)
        if slot:
            self.note_waiting(slot, 1)
        self.push(words)
        self.share.counts.add_message(name, self.share.counts.PLACED)
        return self.hear(message, values, slot)

    def words_of(self, message, slot, values):
        if self.is_rude and self.dice.random() < BROKEN:
            self.values.break_rule(message, values)
        words = wire.message(message.name, slot, self.seq, **values)
        if not self.is_rude or self.dice.random() > TWISTED:
            return words
        # A larger size swallows the next messages, so that no answer comes: end the session soon.
        self.until = min(self.until, time.monotonic() + ANSWER_S / 4)
        return self.twisted(words)

    def hear(self, message, values, slot):
        if not slot:
            self.known.note(message, values, SUCCESS, {})
        if not slot or self.dice.random() < IGNORED:
            return {}
        result, said = self.wait(slot, self.seq)
        self.note_waiting(slot, 0)
        if result != SUCCESS:
            return {}
        members = dict(wire.answer(message.name, said), is_success=True)
        self.known.note(message, values, result, members)
        self.share.counts.add("successes")
        self.share.counts.add_message(message.name, self.share.counts.SUCCEEDED)
        return members

    def note_waiting(self, slot, value):
        """Marks the slot as waited for, as a sleeping thread does; spinning threads do not."""
        if self.dice.random() < 0.3 or not value:
            struct.pack_into("<I", self.ring, wire.WAITING + 4 * (slot - 1), value)

    def say_any(self):
        """One message of any kind."""
        self.say_framed(self.dice.choice(wire.SPEC.messages).name)

    def twisted(self, words):
        words = bytearray(words)
        for _ in range(self.dice.randrange(1, 4)):
            at = self.dice.randrange(len(words))
            words[at] = self.dice.choice((words[at] ^ 1 << self.dice.randrange(8), 0, 0xff))
        return bytes(words)

    # ---- frames

    def send(self, words, fds):
        """Sends a frame with descriptors, and closes them."""
        self.share.counts.add("descriptors", len(fds))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.sock.setblocking(True)
            self.sock.settimeout(ANSWER_S)
            self.sock.sendmsg([words], rights)
        except OSError as why:
            raise Dropped("a frame: %s" % why) from None
        finally:
            self.sock.setblocking(False)
            for fd in fds:
                os.close(fd)

    def send_one(self, name, right, /, **members):
        """Sends a frame with its descriptor; a rude client also sends wrong ones."""
        dice = self.dice
        words, fds = wire.frame(name, 1, **members), [right]
        which = dice.randrange(3) if self.is_rude and dice.random() < MISFRAMED else None
        if which == 0:
            fds += [descriptors.wrong(dice, b"") for _ in range(dice.choice((1, 2, 3, 7)))]
        elif which == 1:
            os.close(fds.pop())
        elif which == 2:
            words = self.twisted(words)
        self.send(words, fds)

    def say_framed(self, name, /, **given):
        """Places a message after its frame, if it has one. `words' is an image."""
        dice = self.dice
        if name in IMAGE_SIZE:
            self.send_image(name, given)
        elif name == "host_alias":
            return self.say_alias()
        elif name == "allocation_import":
            return self.say_import(descriptors.wrong(dice, b"x" * descriptors.PAGE))
        elif self.is_rude and dice.random() < BROKEN:
            self.send_one(dice.choice(list(wire.FRAMES)), descriptors.wrong(dice, b""))
        return self.say(name, **given)

    def send_image(self, name, given):
        """Sends the frame before a message with an image, and adds the size to `given'."""
        dice = self.dice
        words = given.pop("words", None) or images.any_image(dice, self.manners.harms)
        given["size"] = len(words)
        # The server refuses a message that names no object before it reads the frame.
        for field in wire.WIRES[name].message.of(True, False):
            if field.kind != "handle":
                continue
            given.setdefault(field.name, self.known.id(field.type))
            if given[field.name] not in self.known.ids[field.type]:
                return
        words += bytes(IMAGE_SIZE[name])
        fd = descriptors.image(words) if dice.random() < 0.9 else descriptors.wrong(dice, words)
        self.send_one("image", fd, size=len(words))

    def say_import(self, fd):
        """Imports an allocation by its descriptor, which is closed."""
        number = self.known.new_id("allocation", (1 << 20) - 1)
        self.send_one("memory", fd, address=number)
        return self.say("allocation_import", allocation=number)

    def say_alias(self, size=0):
        """Registers a file of memory, and sometimes truncates the file meanwhile."""
        dice = self.dice
        size = size or dice.choice((4096, 65536, 1 << 20, 3 << 20))
        fd = (descriptors.touched(size) if dice.random() < 0.7
              else descriptors.wrong(dice, bytes(descriptors.PAGE)))
        offset = dice.choice((0, 0, 0, 4096, 100, size, 1 << 61))
        length = max(1, size - offset) if dice.random() < 0.8 else dice.choice(
            (1, size + 1, 1 << 39))
        status = os.fstat(fd)
        is_cut = dice.random() < 0.5
        with contextlib.ExitStack() as stack:
            ours = os.dup(fd)
            stack.callback(os.close, ours)
            self.send_one("memory", fd, address=offset, size=length)
            if is_cut and dice.random() < 0.5:
                descriptors.cut_short(ours)
            said = self.say("host_alias", device=0, offset=offset, size=length,
                            filesystem=status.st_dev, inode=status.st_ino)
            if is_cut:
                descriptors.cut_short(ours, dice.choice((0, 100, size // 2)))
        return said

    # ---- what comes

    def drain(self):
        """Reads what the server has sent, and keeps the last descriptors."""
        if not select.select([self.sock], [], [], 0)[0]:
            return
        try:
            words, control, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(64))
        except BlockingIOError:
            return
        except OSError:
            raise Dropped("reset") from None
        self.kept += session.descriptors_in(control)
        if not words:
            raise Dropped("hung up")
        while len(self.kept) > KEPT:
            os.close(self.kept.pop(0))

    def take(self):
        """The last descriptor from the server, or -1. The caller owns it."""
        self.drain()
        return self.kept.pop() if self.kept else -1

    def tend(self):
        """Marks every requested host function of streams and graphs as returned."""
        for asked, done, n in ((wire.ASKED, wire.DONE, wire.STREAMS_MAX),
                               (wire.GRAPH_ASKED, wire.GRAPH_DONE, wire.GRAPH_CALLS)):
            self.ring[done:done + 8 * n] = self.page[asked:asked + 8 * n]
