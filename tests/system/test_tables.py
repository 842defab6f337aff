#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""A process takes what it can of a table that all clients of a server share. Programs that come
then work: of the same user and, with -M, of another user.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile

import harness
import mps
import session
import wire
from harness import contains, equal, need_root, wait_for

HOG, OTHER = 12345, 12346
SESSIONS_EACH = 16  # of one process: the daemon allows no more
WINDOW = wire.VA_WINDOW
SWITCH = 2  # type of a conditional node
BODY_NODES = 16 << 10


# ---- what a hog takes, and how much it has got


class Taker(session.Asker):
    """A session of the hog."""

    def __init__(self, service):
        super().__init__(service)
        equal(self.ask("device_open")[0], 0)

    def drop_frames(self):
        """Memory comes with a frame, for which the server waits."""
        self.sock.setblocking(True)
        _, fds = session.receive_frame(self.sock)
        for fd in fds:
            os.close(fd)

    def take_windows(self, name, size, **values):
        """Regions of addresses, from large ones to one window each."""
        taken = 0
        while size >= WINDOW:
            if self.ask(name, size=size, **values)[0] == 0:
                taken += size // WINDOW
                if name == "host_region":
                    self.drop_frames()
            else:
                size //= 2
        return taken

    def alias(self, fd, at):
        self.sock.setblocking(True)
        facts = os.fstat(fd)
        socket.send_fds(self.sock, [wire.frame("memory", 1, address=at, size=4096)], [fd])
        return self.ask("host_alias", filesystem=facts.st_dev, inode=facts.st_ino, offset=at,
                        size=4096)[0]

    def make_green(self, green):
        return self.ask("green_create", green=green, of=64, count=1, wanted=1, parts=[0])[0]

    def make_body_nodes(self, count):
        """A graph with `count' nodes in the body of a conditional node."""
        self.place(wire.message("graph_begin", graph=1))
        self.place(wire.message("graph_conditions", graph=1, share=16, conditions=[(0, 0)]))
        self.place(wire.message("graph_conditional", graph=1, condition=1, type=SWITCH, n_bodies=1))
        self.place(wire.message("graph_body", graph=1, number=1))
        for node in range(1, count + 1):
            self.place(wire.message("graph_empty", graph=1, node=node))
        result = self.ask("graph_instantiate", graph=1, n_nodes=count + 1)[0]
        if result:
            self.place(wire.message("graph_destroy", graph=1))
        return result


def device_windows(taker):
    return taker.take_windows("address_region", WINDOW << 11)


def host_windows(taker):
    return taker.take_windows("host_region", WINDOW << 8)


def greens(taker):
    taken = 0
    while taken < 64 and taker.make_green(taken) == 0:
        taken += 1
    return taken


def body_nodes(taker):
    for count in (BODY_NODES // 4, BODY_NODES // 16, BODY_NODES // 64):
        if taker.make_body_nodes(count) == 0:
            return count
    return 0


def mappings(taker):
    fd = os.memfd_create("aliased", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, 4096)
    os.pwrite(fd, b"x" * 4096, 0)
    taken = 0
    while taken < 1024 and taker.alias(fd, 0) == 0:
        taken += 1
    os.close(fd)
    return taken


# ---- the hog


class Child:
    """A process of a user that runs a function, tells its result, and lives until it is ended."""

    def __init__(self, uid, work):
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(read_end)
                if uid is not None:
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                keep = work()
                os.write(write_end, b"%d\n" % keep[0])
                os.close(write_end)
                signal.pause()
            finally:
                os._exit(1)
        os.close(write_end)
        with open(read_end, encoding="utf-8") as answer:
            self.said = answer.read()

    def __enter__(self):
        assert self.said, "the process failed"
        return int(self.said)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def hog(service, uid, take):
    """One process with as many sessions as it can have, each of which takes what it can."""

    def work():
        takers = [Taker(service) for _ in range(SESSIONS_EACH)]
        return sum(map(take, takers)), takers

    return Child(uid, work)


def services():
    """A server of one user; and one of all users, where the hog and the others are of two users."""
    yield mps.Service(), None, {}
    if os.geteuid() == 0:
        shared = mps.Service(options=["-M"])
        shared.daemon_env["MPS_SERVER_USER"] = "nobody"
        yield shared, HOG, {"user": OTHER, "group": OTHER, "extra_groups": []}


def beside_a_hog(take, most, *programs, env=None):
    """The programs work beside the hog, which gets something, but no more than `most'."""
    for service, uid, other in services():
        with service:
            service.run_ok(programs[0], env=env, **other)
            with hog(service, uid, take) as taken:
                for name in programs:
                    service.run_ok(name, env=env, **other)
                assert 0 < taken <= most, taken
                contains(service.server_log(), "gets CUDA_ERROR_OUT_OF_MEMORY: it has")
            wait_for("the hog to be gone", lambda one=service: not one.clients(one.server()))
            service.run_ok(programs[0], env=env, **other)


def test_device_windows():
    beside_a_hog(device_windows, 4096, "process1", "virtual_memory")


def test_host_windows():
    beside_a_hog(host_windows, 2728, "pinned", "registered_shared")


def test_body_nodes():
    beside_a_hog(body_nodes, BODY_NODES // 2, "graph_conditional")


def test_green_contexts():
    beside_a_hog(greens, 128, "green_contexts")


def test_shares_beside_green_contexts():
    """A client with a percentage needs a green context for itself."""
    beside_a_hog(greens, 128, "process1", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"})


def test_mappings():
    beside_a_hog(mappings, 8192, "registered_shared", "process1")


def open_sessions(service):
    """As many as one process gets, without their memories."""
    sockets = []
    while len(sockets) < SESSIONS_EACH:
        sock = session.introduce(service)
        words, fds = session.receive_frame(sock)
        for fd in fds:
            os.close(fd)
        if wire.frame_name(words) != "welcome":
            break
        sockets.append(sock)
    return len(sockets), sockets


def test_sessions():
    """Users whose processes take all sessions of the server that they share."""
    need_root()
    with contextlib.ExitStack() as stack:
        shared = mps.Service(options=["-M"])
        shared.daemon_env["MPS_SERVER_USER"] = "nobody"
        stack.enter_context(shared)
        shared.run_ok("process1", user=OTHER, group=OTHER, extra_groups=[])
        taken = []
        for uid in range(HOG + 10, HOG + 14):
            taken.append(0)
            last = SESSIONS_EACH
            while last == SESSIONS_EACH:
                last = stack.enter_context(Child(uid, lambda: open_sessions(shared)))
                taken[-1] += last
        shared.run_ok("process1", user=OTHER, group=OTHER, extra_groups=[])
        assert sorted(taken, reverse=True) == taken and sum(taken) <= 1024 - 128, taken


def test_sessions_of_one_account():
    """A user's subordinate UIDs have no more sessions than one user has."""
    need_root()
    with contextlib.ExitStack() as stack:
        subuid = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        subuid.write("%d:100000:65536\n" % HOG)
        subuid.flush()
        shared = mps.Service(options=["-M"])
        shared.daemon_env.update(MPS_SERVER_USER="nobody", MPS_SUBUID_FILE=subuid.name)
        stack.enter_context(shared)
        shared.run_ok("process1", user=OTHER, group=OTHER, extra_groups=[])
        taken = 0
        for uid in range(100000, 100004):
            last = SESSIONS_EACH
            while last == SESSIONS_EACH:
                last = stack.enter_context(Child(uid, lambda: open_sessions(shared)))
                taken += last
        assert 400 <= taken <= 448, taken
        shared.run_ok("process1", user=OTHER, group=OTHER, extra_groups=[])
        shared.run_ok("process1")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
