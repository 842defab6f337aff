# SPDX-License-Identifier: Apache-2.0
"""A client without the library: it does the handshake, and then writes anything.

    with session.Client(service) as client:
        client.place(wire.message("seqno_write", stream=0, value=7))
"""

import array
import ctypes
import mmap
import os
import socket
import struct

import mps
import wire
from harness import equal, wait_for

FUTEX, FUTEX_WAKE, EVERYBODY = 202, 1, 1 << 30
WELCOMED = "welcome"
LIBC = ctypes.CDLL(None)


def connect(service):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20 * mps.SLOW)
    sock.connect(service.pipe + "/control")
    return sock


def introduce(service, **variables):
    """A connection after its HELLO."""
    sock = connect(service)
    sock.sendall(wire.hello(**variables))
    return sock


def hello(service):
    """A process connects and ends; returns WELCOMED, or the reply instead."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, say_hello(service).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return WELCOMED if text == WELCOMED else text


def say_hello(service):
    with introduce(service) as sock:
        try:
            words, _ = receive_frame(sock)
        except ConnectionError as why:
            return str(why)
        return WELCOMED if wire.frame_name(words) == "welcome" else "%r" % words


def descriptors_in(control):
    """The descriptors in control messages of recvmsg(). The caller owns them."""
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) // fds.itemsize * fds.itemsize])
    return list(fds)


def receive_frame(sock):
    """The bytes of a frame, as far as they have arrived, and its descriptors."""
    words, fds = b"", []
    size = wire.HEAD_OF_FRAME
    while len(words) < size:
        part, control, _, _ = sock.recvmsg(size - len(words), socket.CMSG_SPACE(4 * 4))
        fds += descriptors_in(control)
        if not part:
            break
        words += part
        if len(words) == wire.HEAD_OF_FRAME:
            size = min(struct.unpack_from("<I", words, 4)[0], 1 << 16)
    return words, fds


class Refused(Exception):
    """The daemon or the server has refused the session."""


class Client:
    """A session of the test."""

    # For each frame before WELCOME.
    PATIENCE_S = 20 * mps.SLOW

    def __init__(self, service, **variables):
        self.sock = introduce(service, **variables)
        self.sock.settimeout(self.PATIENCE_S)
        words, fds = receive_frame(self.sock)
        while wire.frame_name(words) == "pending":
            words, fds = receive_frame(self.sock)
        if wire.frame_name(words) != "welcome":
            self.sock.close()
            raise Refused(wire.frame_member(words, "refused", "text").decode("latin-1")
                          if wire.frame_name(words) == "refused" else "no welcome: %r" % words)
        equal(len(fds), 3)
        self.server_pid = wire.frame_member(words, "welcome", "server_pid")
        self.ring = mmap.mmap(fds[0], wire.RING_BYTES)
        self.staging = mmap.mmap(fds[1], os.fstat(fds[1]).st_size)
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
        self.staging.close()
        self.page.close()

    def place(self, words):
        """Like ring_push(), without checks; if not woken, the server sleeps a minute at most."""
        at = self.tail % wire.RING_SIZE
        first = words[:wire.RING_SIZE - at]
        self.ring[wire.RING_DATA + at:wire.RING_DATA + at + len(first)] = first
        rest = words[len(first):]
        self.ring[wire.RING_DATA:wire.RING_DATA + len(rest)] = rest
        self.tell(self.tail + len(words))

    def tell(self, tail):
        self.tail = tail & 0xffffffff
        self.ring[0:4] = struct.pack("<I", self.tail)
        futex_wake(self.ring)

    def head(self):
        """The server's position in the ring."""
        return struct.unpack_from("<I", self.page, wire.HEAD)[0]

    def result(self, slot=0):
        """(message, CUresult) of the last reply."""
        return struct.unpack_from("<II", self.page, wire.REPLIES + wire.REPLY_MAX * slot)

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
        wait_for("the server to hang up", self.is_dropped)


class Asker(Client):
    """Waits for replies, and fills its ring as fast as possible."""

    def __init__(self, service, **variables):
        super().__init__(service, **variables)
        self.seq = 0

    def place(self, words):
        wait_for("room in the ring",
                 lambda: (self.tail - self.head()) % (1 << 32) + len(words) <= wire.RING_SIZE,
                 30 * mps.SLOW)
        super().place(words)

    def ask(self, name, /, **values):
        """(CUresult, members of the reply) of a sync message."""
        self.seq += 1
        self.place(wire.message(name, 1, self.seq, **values))
        wait_for("an answer", lambda: self.result()[0] == self.seq, 60 * mps.SLOW)
        at = wire.REPLIES + 16
        size = struct.unpack_from("<I", self.page, wire.REPLIES + 8)[0]
        return self.result()[1], wire.answer(name, self.page[at:at + size])


def futex_wake(memory):
    word = ctypes.c_uint32.from_buffer(memory)
    LIBC.syscall(FUTEX, ctypes.byref(word), FUTEX_WAKE, EVERYBODY, None, None, 0)


def valid_messages():
    """One message of many kinds each, as a well-behaved client sends them."""
    heap, one = wire.DEVICE_SPACE, (1, 1, 1)
    return [
        wire.message("device_open", 1),
        wire.message("memory_alloc", 1, size=1 << 20),
        wire.message("memory_free", address=heap),
        wire.message("copy_in", dst=heap, size=4096),
        wire.message("fill", dst=heap, value=1, width=4, count=10, rows=1),
        wire.message("launch", kernel=1, grid=one, block=one, params=bytes(8)),
        wire.message("seqno_write", value=7),
        wire.message("seqno_watch", value=9),
        wire.message("host_call", ticket=3),
        # A wait for a word of 32 bits to be 5.
        wire.message("memory_ops", ops=[(heap, 5, 1, 1)]),
    ]
