#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""A user's server says what its user wants: it changes nothing about other users."""

import os
import struct

import harness
import mps
import session
import test_trace
from harness import equal, need_root, wait_for

ALICE, BOB = 12345, 12346


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


class Session:
    """A session of another user, in a process of its own that a pipe keeps."""

    def __init__(self, service, uid, **variables):
        self.end, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.hold(service, uid, theirs[1], variables)
        os.close(self.end[0])
        os.close(theirs[1])
        with open(theirs[0], "rb") as said:
            self.server = int(said.read())

    def hold(self, service, uid, tell, variables):
        try:
            os.close(self.end[1])
            os.setgid(uid)
            os.setuid(uid)
            client = session.Client(service, **variables)
            os.write(tell, b"%d" % client.server_pid)
            os.close(tell)
            os.read(self.end[0], 1)
        finally:
            os._exit(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.end[1])
        os.waitpid(self.pid, 0)


def falsify(server, uid):
    """Writes another user into all chunks of the server's trace; how many."""
    n, at = 0, 20  # of `uid' in struct trace_head
    folder = "/proc/%d/fd/" % server
    path, = (folder + name for name in os.listdir(folder)
             if os.readlink(folder + name).startswith("/memfd:mps-trace"))
    with open(path, "r+b") as memory:
        for chunk in range(0, os.fstat(memory.fileno()).st_size, 65536):
            memory.seek(chunk)
            if memory.read(4) != b"mpst":
                continue
            memory.seek(chunk + at)
            equal(struct.unpack("<I", memory.read(4))[0], ALICE)
            memory.seek(chunk + at)
            memory.write(struct.pack("<I", uid))
            n += 1
    return n


def test_trace_of_another_user():
    """The operator's trace of a user's server has no work of others."""
    need_root()
    with mps.Service() as service, Session(service, ALICE) as client:
        path = service.folder + "/trace.json"
        for uid, shown in (ALICE, True), (BOB, False):
            service.command("--strict", "trace", "start", path)
            process = service.popen("process1", **user(ALICE))
            equal(service.finish(process)[0], 0)
            wait_for("its last event", lambda gone=process.pid:
                     gone not in service.clients(client.server))
            assert falsify(client.server, uid) > 0
            service.command("--strict", "trace", "stop", path)
            equal(process.pid in test_trace.Trace(path).pids(), shown)


if __name__ == "__main__":
    harness.main(globals())
