#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""A user's server says what its user wants: it changes nothing about other users."""

import os
import signal
import struct
import time

import harness
import mps
import server_link
import session
import test_faults
import test_trace
import wire
from harness import equal, need_root, wait_for

ALICE, BOB = 12345, 12346
ALICES_PROGRAM = 7
FAULT_STATE = 3
LAUNCH_FAILED = 719


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


def claim_fault(service, link, server):
    """The server says that a program of ALICE is its client, and then that it has caused a fault."""
    link.sendall(wire.frame("client_here", id=1 << 60, pid=1, uid=ALICE, program=ALICES_PROGRAM,
                            command=b"/home/alice/program")
                 + wire.frame("server_state", state=FAULT_STATE, result=LAUNCH_FAILED,
                              client=1 << 60))
    wait_for("its claim", lambda: "Server %d is FAULT" % server in service.control_log()
             or "Server %d of user %d violated" % (server, BOB) in service.control_log())


def test_fault_of_another_user():
    """Neither quarantine nor wait, and nothing in any list."""
    need_root()
    with mps.Service() as service:
        for n in range(3):
            with Session(service, BOB, program=100 + n) as attacker, \
                    server_link.of(attacker.server, service.daemon_pid()) as link:
                claim_fault(service, link, attacker.server)
                clients = service.counters()
                assert ALICE not in [client["uid"] for client in clients], clients
                os.kill(attacker.server, signal.SIGKILL)
            wait_for("its end", lambda pid=attacker.server: pid not in service.servers())
        with Session(service, ALICE, program=ALICES_PROGRAM) as victim, \
                Session(service, ALICE, program=ALICES_PROGRAM + 1) as beside:
            equal(victim.server, beside.server, "one server for both programs")
        log = service.control_log()
        for words in "has caused GPU faults", "quarantined", "has caused the GPU fault":
            assert words not in log, words


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


def test_fault_that_takes_the_lines_of_others():
    """A server that has claimed a fault does not keep addresses of later faults from other servers."""
    need_root()
    for _ in range(5):
        with test_faults.service_with_log(writes=False) as service, \
                Session(service, BOB) as attacker, \
                server_link.of(attacker.server, service.daemon_pid()) as link:
            link.sendall(wire.frame("server_state", state=FAULT_STATE, result=LAUNCH_FAILED))
            service.wait_for_log("Server %d is FAULT" % attacker.server, "control")
            # XID_MS, the time in which a line without a known PID can be about a fault.
            time.sleep(1.2)
            if test_faults.culprit_by_a_late_line(service, pid=4000000):
                return
    raise harness.Skip("the machine is too busy")


if __name__ == "__main__":
    harness.main(globals())
