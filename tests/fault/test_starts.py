#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""Servers and daemons end while clients start: clients without a GPU get the next server."""

import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import mps
from harness import contains, equal, wait_for

NATIVE = "uses the GPU without MPS"


def kill_at(n, program):
    """The server ends at its nth driver call, with its first client; returns the call's name."""
    with mps.Service() as service:
        service.switch.set(n, mps.Switch.KILL)
        process = service.popen(program, env={"MPS_CLIENT_LOG": "info"})
        code, out, err = service.finish(process)
        call = service.switch.name()
        about = "call %d, %s: %d, %s%s" % (n, call, code, out, err)
        first = int(re.search(r"Starting new server (\d+) ", service.control_log())[1])
        assert call and NATIVE not in err, about
        assert code == 0 or service.was_active(process, first), about
        return call, code, "another server takes over" in err


def test_server_killed():
    """The next server also loads code that the program had already loaded."""
    n = tries = reconnected = code = 0
    call = before = ""
    while code == 0:
        # There are hundreds of queries about a device.
        n += 24 if call and call == before else 1
        tries += 1
        before = call
        call, code, did = kill_at(n, ("process1", "managed_variable")[tries % 2])
        # Before that, the daemon keeps the client for the next server.
        reconnected += did
    print("    %d tries up to call %d, %d clients took the next server by themselves"
          % (tries, n, reconnected))
    assert tries > 20 and reconnected > 1


def test_gpu_fault_of_a_neighbour():
    """A fault is not attributed to a newcomer without work on the GPU."""
    with mps.Service() as service:
        for n in range(12):
            service.run_ok("process2")
            server = service.server()
            neighbour = service.popen("fault", str(n))  # a different program each time
            time.sleep(0.004 * n)
            newcomers = [service.popen("process2") for _ in range(3)]
            for process in newcomers:
                code, out, err = service.finish(process)
                assert NATIVE not in err, err
                if code != 0 or "ok" not in out:
                    assert service.was_active(process, server), "%d: %s%s" % (code, out, err)
            service.finish(neighbour)


def test_daemon_killed():
    """Clients that a daemon has not handed over yet go to the next daemon."""
    with mps.Service(background=True) as service:
        service.run_ok("process1")
        for n in range(12):
            programs = [service.popen("process2") for _ in range(4)]
            time.sleep(0.004 * n)
            pid = service.daemon_pid()
            os.kill(pid, 9)
            wait_for("its end", lambda pid=pid: not mps.is_alive(pid))
            programs += [service.popen("process2") for _ in range(2)]
            service.start()
            for process in programs:
                code, out, err = service.finish(process)
                equal((code, out), (0, "process2: ok\n"), err)
                assert NATIVE not in err, err


def test_dead_daemon():
    """No new daemon starts: a program waits, reports that, and continues without the service."""
    with mps.Service() as service:
        service.run_ok("process1")
        service.daemon.kill()
        service.daemon.wait()
        began = time.monotonic()
        _, err = service.run_ok("process2")
        assert 2.5 < time.monotonic() - began < 10 * mps.SLOW
        contains(err, "has died, and no new one started within 3 s")
        contains(err, NATIVE)
        service.start()
        _, err = service.run_ok("process2")
        assert NATIVE not in err, err


if __name__ == "__main__":
    harness.main(globals())
