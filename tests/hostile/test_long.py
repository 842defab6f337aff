#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Tests of some minutes: strangers with many UIDs that flood the daemon, and the longest waits."""

import contextlib
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import mps
from harness import equal, need_root, wait_for

STORM_S = int(os.environ.get("MPS_TEST_STORM_S", 60))
STRANGERS = 30
# Of a command of root and of a user's program, during the storm.
COMMAND_S, PROGRAM_S = 5, 30


def command(sock, words):
    sock.sendall(words.encode() + b"\n\x04\n")
    said = b""
    while not said.endswith(b"\x04"):
        more = sock.recv(4096)
        if not more:
            return ""
        said += more
    return said[:-1].decode()


def start_and_kill(path):
    """A user's own server, started and ended repeatedly, with lines and silent connections."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(path)
        command(sock, "start_server -uid %d" % os.getuid())
        for word in command(sock, "get_server_list").split():
            with contextlib.suppress(OSError, ValueError):
                if os.stat("/proc/" + word).st_uid == os.getuid():
                    os.kill(int(word), signal.SIGKILL)
        command(sock, "\n".join("no such command" for _ in range(100)))
        silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for other in silent:
            other.connect(path)
            other.sendall(b"\0")
        for other in silent:
            other.close()


def stranger(path, uid, until):
    """Runs in a separate process until the storm is over."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            start_and_kill(path)
    os._exit(0)


def storm(path, seconds):
    """PIDs of strangers."""
    until = time.monotonic() + seconds
    pids = []
    for n in range(STRANGERS):
        pid = os.fork()
        if pid == 0:
            stranger(path, 5000 + n, until)
        pids.append(pid)
    return pids


def test_storm():
    """Root's commands get replies and a user's programs run, beside strangers with many UIDs."""
    need_root()
    victim = {"user": 6000, "group": 6000, "extra_groups": []}
    slowest = [0, 0]
    runs = 0
    with mps.Service() as service:
        os.chmod(service.folder, 0o777)
        service.run_ok("process1", **victim)
        pids = storm(service.pipe + "/control", STORM_S)
        try:
            until = time.monotonic() + STORM_S
            while time.monotonic() < until:
                began = time.monotonic()
                service.command("get_server_list")
                between = time.monotonic()
                service.run_ok("process2", timeout=60, **victim)
                ended = time.monotonic()
                slowest = [max(slowest[0], between - began), max(slowest[1], ended - between)]
                runs += 1
        finally:
            for pid in pids:
                os.waitpid(pid, 0)
        logs = [os.path.getsize("%s/log/%s" % (service.folder, name))
                for name in os.listdir(service.folder + "/log")]
        print("    %d runs; a command took %.2f s at most, a program %.2f s; logs %d KiB"
              % (runs, *slowest, sum(logs) >> 10))
        assert slowest[0] < COMMAND_S * mps.SLOW and slowest[1] < PROGRAM_S * mps.SLOW
        assert sum(logs) < 4 * (100 << 20), "the logs are bounded"


def test_newcomers_do_not_wait_for_ever():
    """The dead client's kernel ends within the grace, but later than a newcomer waits."""
    with mps.Service({"MPS_GRACE_MS": "90000", "SOFTGPU_LAUNCH_US": "30000000"}) as service:
        _, server = service.leave_a_kernel()
        began = time.monotonic()
        newcomer = service.popen("mem_info", "--free")
        service.wait_for_log("Client process %d waits" % newcomer.pid)
        service.wait_for_log("Client {PID: %d, " % newcomer.pid, timeout_s=40)
        assert 15 < time.monotonic() - began < 28 * mps.SLOW
        newcomer.kill()
        newcomer.wait()
        wait_for("their end", lambda: not service.clients(server), 60 * mps.SLOW)
        equal(service.servers(), [server])


if __name__ == "__main__":
    harness.main(globals())
