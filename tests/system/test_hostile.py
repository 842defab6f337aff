#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Clients that speak the protocol as far as it suits them: the server drops them, and nothing else.

Each introduces itself as a library does, and then writes what it likes into
the ring, the staging memory and the connection.
"""

import array
import mmap
import os
import random
import re
import socket
import struct
import threading
import time

import harness
import mps
from harness import equal, settled, wait_for

HELLO_TEXTS = 5 * 256
WELCOME_SIZE = 288
RING_DATA, RING_SIZE = 4096 + 8 * 4096, 1 << 20  # behind control words and done tickets
RING_BYTES = RING_DATA + RING_SIZE
REPLIES = 4096 + 3 * 8 * 4096  # in the page, behind what the GPU writes
DEVICE_OPEN, MEMORY_ALLOC, MEMORY_FREE, COPY_IN, FILL, LIBRARY_LOAD, LAUNCH, MARK, WATCH = (
    0x0101, 0x0201, 0x0202, 0x0203, 0x0206, 0x0301, 0x0401, 0x0503, 0x0504)
HOST_CALL, MEMORY_OPS = 0x0801, 0x0802


def spec_hash():
    with open(os.path.join(harness.BUILD, "gen", "spec_hash.h"), encoding="utf-8") as file:
        return int(re.search(r"SPEC_HASH (0x[0-9a-f]+)", file.read()).group(1), 16)


def frame(kind, body, n_fds=0):
    return struct.pack("<BBHI", 0, kind, n_fds, 8 + len(body)) + body


def message(op, body, reply=0, seq=1):
    return struct.pack("<IHHII", 16 + len(body), op, reply, seq, 0) + body


class Client:
    """A session of our own."""

    def __init__(self, service):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10 * mps.SLOW)
        self.sock.connect(service.pipe + "/control")
        self.sock.sendall(frame(1, struct.pack("<IIQ", 1, 0, spec_hash()) + bytes(HELLO_TEXTS)))
        data, fds = b"", array.array("i")
        while len(data) < WELCOME_SIZE:
            part, control, _, _ = self.sock.recvmsg(WELCOME_SIZE - len(data),
                                                    socket.CMSG_SPACE(4 * 4))
            assert part, "no welcome"
            data += part
            for level, kind, text in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(text)
        equal((data[1], len(fds)), (3, 3))
        self.ring = mmap.mmap(fds[0], RING_BYTES)
        self.page = mmap.mmap(fds[2], os.fstat(fds[2]).st_size, prot=mmap.PROT_READ)
        try:
            mmap.mmap(fds[2], 4096)
            raise AssertionError("the page can be mapped for writing")
        except PermissionError:
            pass
        for fd in fds:
            try:
                os.ftruncate(fd, 0)
                raise AssertionError("its memory can be made smaller")
            except PermissionError:
                os.close(fd)
        self.tail = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        self.ring.close()
        self.page.close()

    def place(self, words):
        """As ring_push(), without its care; the server sleeps a minute at most if not woken."""
        for i, byte in enumerate(words):
            self.ring[RING_DATA + (self.tail + i) % RING_SIZE] = byte
        self.tell(self.tail + len(words))

    def tell(self, tail):
        self.tail = tail & 0xffffffff
        self.ring[0:4] = struct.pack("<I", self.tail)
        futex_wake(self.ring)

    def is_dropped(self):
        """Whether the server has hung up."""
        self.sock.setblocking(False)
        try:
            return self.sock.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def dropped(self):
        wait_for("the server to hang up", self.is_dropped, 10 * mps.SLOW)


def futex_wake(memory):
    import ctypes
    word = ctypes.c_uint32.from_buffer(memory)
    ctypes.CDLL(None).syscall(202, ctypes.byref(word), 1, 1 << 30, None, None, 0)


def valid_messages():
    """One of many kinds each, as a well-behaved client would place them."""
    heap = 0x200000000000
    return [
        message(DEVICE_OPEN, struct.pack("<II", 0, 0), 1),
        message(MEMORY_ALLOC, struct.pack("<IIQ", 0, 0, 1 << 20), 1),
        message(MEMORY_FREE, struct.pack("<Q", heap)),
        message(COPY_IN, struct.pack("<IIQII", 0, 0, heap, 0, 4096)),
        message(FILL, struct.pack("<IIQIIQQQ", 0, 0, heap, 1, 4, 10, 0, 1)),
        message(LAUNCH, struct.pack("<II6III", 0, 1, 1, 1, 1, 1, 1, 1, 0, 8) + bytes(8)),
        message(MARK, struct.pack("<IIQ", 0, 0, 7)),
        message(WATCH, struct.pack("<IIQ", 0, 0, 9)),
        message(HOST_CALL, struct.pack("<IIQ", 0, 0, 3)),
        message(MEMORY_OPS, struct.pack("<IIQQII", 0, 1, heap, 5, 1, 1)),
    ]


class Watched:
    """A service with a neighbour at work, that must be as it was at the end."""

    def __enter__(self):
        self.service = mps.Service()
        self.service.__enter__()
        self.service.run_ok("process1")
        self.server = self.service.server()
        self.before = settled(self.holds)
        self.neighbour = self.service.popen("process1", "--seconds", "3")
        wait_for("the neighbour", lambda: self.service.clients(self.server))
        return self.service

    def holds(self):
        wait_for("the server to have nobody", lambda: not self.service.clients(self.server), 20)
        stats = self.service.stats(self.server)
        wait_for("everything to be back", lambda: not self.service.stats(self.server)["libraries"])
        for counter in ("launches", "faults"):
            stats.pop(counter)
        return len(mps.open_files(self.server)), mps.thread_count(self.server), stats

    def __exit__(self, kind, error, trace):
        try:
            if not kind:
                code, out, err = self.service.finish(self.neighbour)
                equal(code, 0, out + err)
                equal(self.service.servers(), [self.server], "the server was replaced")
                wait_for("everything to be as it was", lambda: self.holds() == self.before)
        except AssertionError:
            print("    before %s\n    after  %s" % (self.before, self.holds()))
            self.service.__exit__(AssertionError, None, None)
            raise
        self.service.__exit__(kind, error, trace)


def test_random_rings():
    dice = random.Random(1)
    with Watched() as service:
        for _ in range(40):
            with Client(service) as client:
                client.ring[RING_DATA:RING_DATA + 4096] = dice.randbytes(4096)
                client.tell(dice.choice((4096, RING_SIZE, RING_SIZE + 8, 7,
                                         dice.getrandbits(32))))
                client.dropped()
        assert "sent a malformed message" in service.server_log()


def test_twisted_messages():
    """Messages that are nearly right: dropped or answered, and never more than that."""
    dice = random.Random(2)
    with Watched() as service:
        for _ in range(40):
            with Client(service) as client:
                client.place(valid_messages()[0] + valid_messages()[1])
                for _ in range(20):
                    words = bytearray(dice.choice(valid_messages()))
                    if dice.random() < 0.5:
                        words[dice.randrange(4, len(words))] ^= 1 << dice.randrange(8)
                    client.place(words)
                time.sleep(0.01)


def test_writer_that_races():
    """Bytes that change while they are read: what was checked is what is used."""
    dice = random.Random(3)
    with Watched() as service:
        with Client(service) as client:
            client.place(b"".join(valid_messages()[:2]))
            stop = threading.Event()

            def scribble():
                while not stop.is_set():
                    at = RING_DATA + dice.randrange(4096)
                    client.ring[at] = dice.randrange(256)

            thread = threading.Thread(target=scribble)
            thread.start()
            try:
                for _ in range(500):
                    if client.is_dropped():
                        break
                    client.place(dice.choice(valid_messages()[2:]))
            finally:
                stop.set()
                thread.join()


def test_garbage_on_the_connection():
    with Watched() as service:
        for words, fds in ((b"\xff" * 64, 0), (frame(1, bytes(16 + HELLO_TEXTS)), 0),
                           (frame(4, struct.pack("<Q", 64), 1), 0),
                           (frame(4, struct.pack("<Q", 64), 1), 1),
                           (frame(4, struct.pack("<Q", 64), 1), 4),
                           (frame(4, struct.pack("<Q", 63), 1), 1), (b"", 0)):
            with Client(service) as client:
                if words:
                    ours = os.open("/dev/null", os.O_RDONLY)
                    socket.send_fds(client.sock, [words], [ours] * fds)
                    os.close(ours)
                client.place(message(LIBRARY_LOAD, struct.pack("<IIQ", 1, 0, 64), 1))
                # A well-formed frame whose descriptor is no image is answered.
                if (words[1:2], fds, words[8:9]) == (b"\4", 1, b"\x40"):
                    wait_for("an answer",
                             lambda client=client: any(client.page[REPLIES:REPLIES + 4]))
                else:
                    client.dropped()


def test_half_closed():
    with Watched() as service:
        with Client(service) as client:
            client.sock.shutdown(socket.SHUT_WR)
            client.dropped()


def test_many_that_come_and_go():
    with Watched() as service:
        for _ in range(3):
            clients = [Client(service) for _ in range(30)]
            for client in clients:
                client.place(valid_messages()[0])
            for client in clients:
                client.__exit__()


if __name__ == "__main__":
    harness.main(globals())
