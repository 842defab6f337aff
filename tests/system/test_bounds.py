#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Clients that make the server hold as much host memory as they can: they get out-of-memory errors,
their neighbours work as before, and all of it is freed at their end.
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
import wire
from harness import contains, equal, settled, wait_for
from session import Asker

PTX, WRITE_32 = 1, 2
OUT_OF_MEMORY = 2
SEALS = 0xf  # all possible seals
KERNEL = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{ ret; }\n"

INPUT_MIB = 64
# Without a limit, these are 1.5 GiB and 710 MiB.
INPUTS_MAX = 24
NODES_MAX = 40000
OPERATIONS = 255
# The offset of the count in a message graph_memory_ops: after the head and the graph.
NODE_OFFSET = 16 + 4
# What else the server allocates meanwhile, and what its allocator keeps at first.
OTHER_MIB = 64


class Hog(Asker):
    """A client with some memory of the GPU."""

    def __init__(self, service):
        super().__init__(service)
        equal(self.ask("device_open")[0], 0)
        result, answer = self.ask("memory_alloc", size=1 << 20)
        equal(result, 0)
        self.memory = answer["address"]

    def place_nodes(self, count):
        """Nodes of graph 1, each with the largest number of operations."""
        words = bytearray(wire.message("graph_memory_ops", graph=1,
                                       ops=[(self.memory, 1, WRITE_32, 0)] * OPERATIONS))
        for node in range(count):
            struct.pack_into("<I", words, NODE_OFFSET, node)
            self.place(bytes(words))

    def send_image(self, fd, size):
        socket.send_fds(self.sock, [wire.frame("image", 1, size=size)], [fd])


class Watched:
    """The largest memory of the server while programs of a neighbour run."""

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
        """Once the client has left; freed memory returns a moment later."""
        wait_for("the client to be gone", lambda: not self.service.clients(self.server), 20 * mps.SLOW)
        # A sanitizer keeps freed memory for a while.
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
    """The limit of each client, which the server logs when the first client comes."""
    return int(re.search(r"Host memory for clients: (\d+) MiB each", log).group(1))


def test_linker_inputs():
    """A few bytes of messages with one file, of which the driver has a copy each time."""
    with Watched() as watched:
        equal(bound_mib(watched.service.server_log()), 2048)
        text = KERNEL + b"//" + b"x" * (INPUT_MIB << 20) + b"\n\0"
        fd = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, text)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        with Hog(watched.service) as hog:
            equal(hog.ask("linker_create", linker=1)[0], 0)
            refusal, n_added = 0, 0
            while not refusal and n_added < INPUTS_MAX:
                hog.send_image(fd, len(text))
                result, answer = hog.ask("linker_add", linker=1, type=PTX, size=len(text) - 1, name=b"n")
                equal(result, 0)
                refusal = answer["refusal"]
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
    """Nodes with 255 memory operations each, in one graph."""
    with Watched() as watched:
        with Hog(watched.service) as hog:
            hog.place(wire.message("graph_begin", graph=1))
            hog.place_nodes(NODES_MAX)
            equal(hog.ask("graph_instantiate", graph=1, n_nodes=NODES_MAX)[0], OUT_OF_MEMORY)
            watched.neighbour()
            assert not hog.is_dropped()
            watched.service.wait_for_log("1 graphs with")
        watched.is_back()
        assert watched.most < (2048 + OTHER_MIB) << 10, watched.most


def test_neighbours_at_their_bounds():
    """Several clients that hold as much as they can, and one that comes then."""
    with Watched({"MPS_CLIENT_HOST_MIB": "64"}) as watched:
        hogs = [Hog(watched.service) for _ in range(4)]
        for hog in hogs:
            hog.place(wire.message("graph_begin", graph=1))
            hog.place_nodes(4000)
            equal(hog.ask("graph_instantiate", graph=1, n_nodes=4000)[0], OUT_OF_MEMORY)
        watched.neighbour()
        # A client at its limit may still do what takes no memory.
        equal(hogs[0].ask("memory_alloc", size=512)[0], 0)
        for hog in hogs:
            hog.__exit__()
        watched.is_back()


def test_estimates():
    """Accounts are charged at least what the software GPU's driver keeps."""
    if mps.SLOW > 1:
        raise harness.Skip("a sanitizer's memory is not the driver's")
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU))
    done = subprocess.run([mps.program("driver_keeps")], env=env, capture_output=True, text=True,
                          timeout=100, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    contains(done.stdout, "driver_keeps: ok")


def test_facts():
    """tests/gpu/facts prints a row of driver_facts.c, with what the software GPU does as a driver."""
    if mps.SLOW > 1:
        raise harness.Skip("the programs cannot load a library with a sanitizer")
    for name in ("driver_facts", "driver_queues"):
        mps.program(name)
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU),
               MPS_BUILD=harness.BUILD)
    done = subprocess.run([os.path.join(harness.ROOT, "tests", "gpu", "facts"), "--rounds", "2"],
                          env=env, capture_output=True, text=True, timeout=100, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    with open(os.path.join(harness.ROOT, "server", "driver", "driver_facts.c"),
              encoding="utf-8") as file:
        fields = re.search(r"\t\{\n(\t\t\.\w+ = \d+,\n)+\t\},\n", file.read()).group(0)
    shape = re.compile(r"= \d+,")
    equal(shape.sub("", done.stdout), shape.sub("", fields))
    for line in (".version = 13000,", ".n_graph_kernels = 4160,", ".n_queues_blocked = 8,"):
        contains(done.stdout, line)
    contains(done.stderr, "body_node_memory: measured 0, in server/driver/driver_facts.c 61440")


def test_invalid_numbers():
    """A wrong value of the variable is logged, and the default is used."""
    for said in ("0", "-1", "many", "1x", "99999999999"):
        with mps.Service({"MPS_CLIENT_HOST_MIB": said}) as service:
            service.run_ok("process1")
            service.wait_for_log("MPS_CLIENT_HOST_MIB=%s is not a number of MiB" % said)
            equal(bound_mib(service.server_log()), 2048)


if __name__ == "__main__":
    harness.main(globals())
