#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Clients as processes: many, stopped, ending in their own ways."""

import signal
import time

import harness
import mps
from harness import contains, equal, wait_for
from test_kill import gives_back, settle

CROWD = 64


def at_once(service, server, processes):
    """The number of clients, once all of them are there or one process has ended."""
    n = len(service.clients(server))
    return n if n == len(processes) or any(p.poll() is not None for p in processes) else 0


def test_64_at_once():
    # All of them wait for the software GPU's only lock, also when they end.
    with mps.Service({"MPS_GRACE_MS": "100000"}) as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        # The first must not finish before the last has come, which may take some time.
        for seconds in 2, 8, 32:
            several = [service.popen("process1", "--seconds", str(seconds * mps.SLOW))
                       for _ in range(CROWD)]
            most = wait_for("all of them, or the end of one", lambda several=several: at_once(
                service, server, several), 60 * mps.SLOW)
            for process in several:
                equal(service.finish(process, 120)[:2], (0, "process1: ok\n"))
            if most == CROWD:
                break
        equal(most, CROWD)
        gives_back(service, server, before)


def test_stopped_at_any_moment():
    """Neighbours are not affected, and stopped programs end normally."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        dice = harness.dice(3)
        for _ in range(4):
            several = [service.popen(name)
                       for name in ("process1", "events", "threads", "callbacks", "symbols")]
            for process in several:
                time.sleep(dice.random() * 0.06)
                process.send_signal(signal.SIGSTOP)
            service.run_ok("process2", timeout=20)
            for process in several:
                process.send_signal(signal.SIGCONT)
            for process in several:
                equal(service.finish(process)[0], 0)
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_stopped_while_it_arrives():
    """The daemon and the server do not wait for a client that does not read."""
    with mps.Service() as service:
        service.run_ok("process1")
        for n in range(12):
            process = service.popen("process1")
            time.sleep(0.002 * n)
            process.send_signal(signal.SIGSTOP)
            service.run_ok("process2", timeout=20)
            process.send_signal(signal.SIGCONT)
            equal(service.finish(process)[0], 0)


def test_calls_at_exit():
    """Handlers of exit(), destructors and threads may call CUDA until the process is gone."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        for how in ("atexit", "thread", "quick", "abort"):
            code, out, err = service.run("last_words", how)
            equal(code, -signal.SIGABRT if how == "abort" else 0, how + out + err)
            contains(out, "last_words: ok")
        gives_back(service, server, before)
        equal(service.servers(), [server])


def test_many_threads():
    with mps.Service() as service:
        several = [service.popen("threads") for _ in range(4)]
        for process in several:
            equal(service.finish(process)[:2], (0, "threads: ok\n"))


def test_endless_kernel():
    """A kernel that outlives its client ends the server; no other server waits for it."""
    with mps.Service({"MPS_GRACE_MS": "500", "SOFTGPU_LAUNCH_US": "4000000"}) as service:
        _, server = service.leave_a_kernel()
        began = time.monotonic()
        wait_for("its server's end", lambda: not mps.is_alive(server), 5 * mps.SLOW)
        assert time.monotonic() - began < 3 * mps.SLOW
        service.wait_for_log("has left, and its work has occupied the GPU for 500 ms")
        service.run_ok("process2", timeout=60)


def test_end_that_takes_long():
    """MPS_GRACE_MS is for work on the GPU, and for one driver call, not for all calls of an end."""
    unpin_ms, grace_ms = 600 * mps.SLOW, 1000 * mps.SLOW
    with mps.Service({"MPS_GRACE_MS": str(grace_ms),
                      "SOFTGPU_UNPIN_US": str(1000 * unpin_ms)}) as service:
        process = service.popen("process1")
        equal(service.finish(process)[0], 0)
        server, began = service.server(), time.monotonic()
        service.wait_for_log("Client process %d disconnected" % process.pid)
        assert time.monotonic() - began > grace_ms / 1000, "its end took no time"
        service.run_ok("process2")
        equal(service.servers(), [server])


def test_driver_call_that_does_not_end():
    """It delays all clients, so the server is replaced. No client has caused a fault."""
    with mps.Service({"MPS_GRACE_MS": "500", "SOFTGPU_UNPIN_US": "60000000"}) as service:
        process = service.popen("process1")
        equal(service.finish(process)[0], 0)
        server = service.server()
        wait_for("its server's end", lambda: not mps.is_alive(server), 5 * mps.SLOW)
        service.wait_for_log("Client {PID: %d, Context ID: 1} has left, and a driver call for it "
                             "has not returned for 500 ms" % process.pid)
        service.wait_for_log("a driver call for the dead client %d does not return" % process.pid,
                             "control")
        equal(service.command("get_last_fault").stdout, "No fault is known\n")


def test_newcomers_beside_an_endless_kernel():
    """If the kernel ends in time or ends the server, a client that came meanwhile is served."""
    for kernel_us, grace_ms, ends in (4000000, 1500, False), (1500000, 10000, True):
        with mps.Service({"MPS_GRACE_MS": str(grace_ms * mps.SLOW),
                          "SOFTGPU_LAUNCH_US": str(kernel_us * mps.SLOW)}) as service:
            left, server = service.leave_a_kernel()
            # Programs without kernels: theirs would take as long, and delay each other's end.
            newcomers = [service.popen("boxes") for _ in range(3)]
            service.wait_for_log("Client process %d waits: work of client {PID: %d, "
                                 % (newcomers[0].pid, left))
            equal(service.command("get_client_list", str(server)).returncode, 0)
            for newcomer in newcomers:
                code, out, err = service.finish(newcomer, 60)
                equal(code, 0, out + err)
            equal(mps.is_alive(server), ends)


if __name__ == "__main__":
    harness.main(globals())
