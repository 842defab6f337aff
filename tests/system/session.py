# SPDX-License-Identifier: Apache-2.0
"""A client without the library: it introduces itself, and then writes what it likes.

    with session.Client(service) as client:
        client.place(session.message(session.MARK, struct.pack("<IIQ", 0, 0, 7)))
"""

import array
import ctypes
import mmap
import os
import re
import shlex
import socket
import struct
import subprocess
import tempfile

import harness
import mps
from harness import equal, wait_for

HELLO_TEXTS = 5 * 256
WELCOME_SIZE = 288
DEVICE_OPEN, MEMORY_ALLOC, MEMORY_FREE, COPY_IN, FILL, LIBRARY_LOAD, LAUNCH, MARK, WATCH = (
    0x0101, 0x0201, 0x0202, 0x0203, 0x0206, 0x0301, 0x0401, 0x0503, 0x0504)
HOST_CALL, MEMORY_OPS = 0x0801, 0x0802


LAYOUT = """
#include <stdio.h>
#include "layout.h"
int main(void)
{
	printf("%u %u %zu %zu", RING_DATA_OFFSET, RING_SIZE, offsetof(struct ring_control, done),
		offsetof(struct page, reply));
}
"""


def layout():
    """As the compiler has it: where messages begin, their room, the done words, the answers."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layout")
        subprocess.run(shlex.split(os.environ.get("CC", "cc"))
                       + ["-iquote", os.path.join(harness.ROOT, "include"), "-x", "c", "-", "-o",
                          program], input=LAYOUT, text=True, check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [int(number) for number in said.split()]


RING_DATA, RING_SIZE, DONE, REPLIES = layout()
RING_BYTES = RING_DATA + RING_SIZE


def spec_hash():
    with open(os.path.join(harness.BUILD, "gen", "spec_hash.h"), encoding="utf-8") as file:
        return int(re.search(r"SPEC_HASH (0x[0-9a-f]+)", file.read()).group(1), 16)


def frame(kind, body, n_fds=0):
    return struct.pack("<BBHI", 0, kind, n_fds, 8 + len(body)) + body


def host_call(ticket, stream=0):
    return struct.pack("<IIQ", stream, 0, ticket)


def message(op, body, reply=0, seq=1):
    return struct.pack("<IHHII", 16 + len(body), op, reply, seq, 0) + body


def introduce(service):
    """A connection on which a HELLO has been said."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20 * mps.SLOW)
    sock.connect(service.pipe + "/control")
    sock.sendall(frame(1, struct.pack("<IIQ", 1, 0, spec_hash()) + bytes(HELLO_TEXTS)))
    return sock


WELCOMED = "welcome"


def hello(service):
    """A process comes and goes; WELCOMED, or what was said instead."""
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
        data = b""
        try:
            while len(data) < WELCOME_SIZE and (part := sock.recv(WELCOME_SIZE - len(data))):
                data += part
        except ConnectionError as why:
            return str(why)
        if len(data) == WELCOME_SIZE and data[1] == 3:
            return WELCOMED
        return "%r" % data


class Client:
    """A session of our own."""

    def __init__(self, service):
        self.sock = introduce(service)
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
        """As ring_push(), without its care; the server sleeps a minute at most if not woken."""
        for i, byte in enumerate(words):
            self.ring[RING_DATA + (self.tail + i) % RING_SIZE] = byte
        self.tell(self.tail + len(words))

    def tell(self, tail):
        self.tail = tail & 0xffffffff
        self.ring[0:4] = struct.pack("<I", self.tail)
        futex_wake(self.ring)

    def head(self):
        """How far the server has read."""
        return struct.unpack("<I", self.page[0:4])[0]

    def result(self, slot=0):
        """(message, CUresult) of the last answer."""
        return struct.unpack_from("<II", self.page[REPLIES + 16384 * slot:][:8])

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
    """One that waits for answers, and fills its ring as fast as it can."""

    def __init__(self, service):
        super().__init__(service)
        self.seq = 0

    def place(self, words):
        wait_for("room in the ring",
                 lambda: (self.tail - self.head()) % (1 << 32) + len(words) <= RING_SIZE,
                 30 * mps.SLOW)
        at = self.tail % RING_SIZE
        first = min(len(words), RING_SIZE - at)
        self.ring[RING_DATA + at:RING_DATA + at + first] = words[:first]
        self.ring[RING_DATA:RING_DATA + len(words) - first] = words[first:]
        self.tell(self.tail + len(words))

    def ask(self, op, body):
        """(CUresult, what follows) of a message that is answered."""
        self.seq += 1
        self.place(message(op, body, 1, self.seq))
        wait_for("an answer", lambda: self.result()[0] == self.seq, 60 * mps.SLOW)
        size = struct.unpack_from("<I", self.page[REPLIES + 8:REPLIES + 12])[0]
        return self.result()[1], self.page[REPLIES + 16:REPLIES + 16 + size]


def futex_wake(memory):
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
