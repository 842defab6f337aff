#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Clients that make the server hold host memory, as much as they can: they are told that there is no more,
their neighbours work as before, and at their end all of it is back.
"""

import fcntl
import os
import re
import socket
import struct
import subprocess
import threading
import time

import harness
import mps
from harness import contains, equal, settled, wait_for
from session import Asker, DEVICE_OPEN, MEMORY_ALLOC, frame, message

LINKER_CREATE, LINKER_ADD = 0x1e01, 0x1e02
GRAPH_BEGIN, GRAPH_MAKE, GRAPH_MEMORY_OPS = 0x0c01, 0x0c03, 0x0c0a
FRAME_IMAGE = 4
PTX, WRITE_32 = 1, 2
OUT_OF_MEMORY = 2
SEALS = 0xf  # against all that there is
KERNEL = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{ ret; }\n"

INPUT_MIB = 64
# Without a bound these are 1.5 GiB and 710 MiB.
INPUTS_MAX = 24
NODES_MAX = 40000
# What else the server takes meanwhile, and what its allocator keeps at first.
OTHER_MIB = 64


class Hog(Asker):
    """One with some memory of the GPU's."""

    def __init__(self, service):
        super().__init__(service)
        equal(self.ask(DEVICE_OPEN, struct.pack("<II", 0, 0))[0], 0)
        result, body = self.ask(MEMORY_ALLOC, struct.pack("<IIQ", 0, 0, 1 << 20))
        equal(result, 0)
        self.memory = struct.unpack_from("<Q", body)[0]

    def send_image(self, fd, size):
        socket.send_fds(self.sock, [frame(FRAME_IMAGE, struct.pack("<Q", size), 1)], [fd])


class Watched:
    """What the server holds, at most, while programs of a neighbour run."""

    def __init__(self, settings=None):
        self.service = mps.Service(settings)

    def __enter__(self):
        self.service.__enter__()
        self.service.run_ok("process1")
        self.server = self.service.server()
        self.before = settled(lambda: mps.memory_kib(self.server))
        self.most = 0
        self.is_over = False
        self.neighbours = 0
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.is_over:
            self.most = max(self.most, mps.memory_kib(self.server) - self.before)
            time.sleep(0.01)

    def neighbour(self):
        self.service.run_ok("process1")
        self.service.run_ok("graph_nodes")

    def is_back(self):
        """Once the client has gone; what was freed is given back a moment later."""
        wait_for("the client to be gone", lambda: not self.service.clients(self.server), 20 * mps.SLOW)
        # A sanitizer keeps what was freed for a while.
        if mps.SLOW == 1:
            wait_for("the memory to be back", lambda: mps.memory_kib(self.server) - self.before
                     < OTHER_MIB << 10, 10)

    def __exit__(self, kind, error, trace):
        self.is_over = True
        self.thread.join()
        try:
            if not kind:
                equal(self.service.servers(), [self.server], "the server was replaced")
        finally:
            self.service.__exit__(kind, error, trace)


def bound_mib(log):
    """Of each client, as the server says when the first comes."""
    return int(re.search(r"Host memory for clients: (\d+) MiB each", log).group(1))


def test_linker_inputs():
    """A few bytes of messages, the same file each time, of which the driver has a copy each."""
    with Watched() as watched:
        equal(bound_mib(watched.service.server_log()), 2048)
        text = KERNEL + b"//" + b"x" * (INPUT_MIB << 20) + b"\n\0"
        fd = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, text)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        with Hog(watched.service) as hog:
            equal(hog.ask(LINKER_CREATE, struct.pack("<6I", 1, 0, 0, 0, 0, 0))[0], 0)
            refusal, n_added = 0, 0
            while not refusal and n_added < INPUTS_MAX:
                hog.send_image(fd, len(text))
                result, body = hog.ask(LINKER_ADD, struct.pack(
                    "<IIQII8s", 1, PTX, len(text) - 1, 0, 2, b"n"))
                equal(result, 0)
                refusal = struct.unpack_from("<I", body)[0]
                n_added += not refusal
            os.close(fd)
            equal(refusal, OUT_OF_MEMORY, "after %d inputs" % n_added)
            assert n_added > 1, n_added
            watched.neighbour()
            assert not hog.is_dropped()
            log = watched.service.server_log()
            contains(log, "gets CUDA_ERROR_OUT_OF_MEMORY: it holds")
            contains(log, "has 0 libraries, 0 kernels, 1 linkers")
        watched.is_back()
        assert watched.most < (bound_mib(log) + OTHER_MIB) << 10, watched.most
        equal(watched.service.server_log().count("gets CUDA_ERROR_OUT_OF_MEMORY"), 1)


def test_graph_operations():
    """Nodes of 255 memory operations each, in one graph."""
    with Watched() as watched:
        with Hog(watched.service) as hog:
            hog.place(message(GRAPH_BEGIN, struct.pack("<II", 1, 0)))
            ops = struct.pack("<QQII", hog.memory, 1, WRITE_32, 0) * 255
            for node in range(NODES_MAX):
                hog.place(message(GRAPH_MEMORY_OPS, struct.pack("<IIII", 1, node, 255, 0) + ops))
            result, _ = hog.ask(GRAPH_MAKE, struct.pack("<IIII", 1, NODES_MAX, 0, 0))
            equal(result, OUT_OF_MEMORY)
            watched.neighbour()
            assert not hog.is_dropped()
            contains(watched.service.server_log(), "1 graphs with")
        watched.is_back()
        assert watched.most < (2048 + OTHER_MIB) << 10, watched.most


def test_neighbours_at_their_bounds():
    """Several that hold what they can, and one that comes then."""
    with Watched({"MPS_CLIENT_HOST_MIB": "64"}) as watched:
        hogs = [Hog(watched.service) for _ in range(4)]
        for hog in hogs:
            hog.place(message(GRAPH_BEGIN, struct.pack("<II", 1, 0)))
            ops = struct.pack("<QQII", hog.memory, 1, WRITE_32, 0) * 255
            for node in range(4000):
                hog.place(message(GRAPH_MEMORY_OPS, struct.pack("<IIII", 1, node, 255, 0) + ops))
            equal(hog.ask(GRAPH_MAKE, struct.pack("<IIII", 1, 4000, 0, 0))[0], OUT_OF_MEMORY)
        watched.neighbour()
        # Who is at its bound may still do what takes no memory.
        equal(hogs[0].ask(MEMORY_ALLOC, struct.pack("<IIQ", 0, 0, 512))[0], 0)
        for hog in hogs:
            hog.__exit__()
        watched.is_back()


def test_estimates():
    """What accounts are charged with is no less than what the software GPU's driver keeps."""
    if mps.SLOW > 1:
        raise harness.Skip("a sanitizer's memory is not the driver's")
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU))
    done = subprocess.run([mps.program("driver_keeps")], env=env, capture_output=True, text=True,
                          timeout=100, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    contains(done.stdout, "driver_keeps: ok")


def test_numbers_that_are_none():
    """What the variable says wrongly is told, and the default taken."""
    for said in ("0", "-1", "many", "1x", "99999999999"):
        with mps.Service({"MPS_CLIENT_HOST_MIB": said}) as service:
            service.run_ok("process1")
            contains(service.server_log(), "MPS_CLIENT_HOST_MIB=%s is no number of MiB" % said)
            equal(bound_mib(service.server_log()), 2048)


if __name__ == "__main__":
    harness.main(globals())
