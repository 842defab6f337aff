#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
# mostly waits
"""shutdown_server -f and quit -t end within their time limit, with every kind of client."""

import os
import signal
import threading
import time

import harness
import mps
from harness import equal, wait_for
from terminations import running

GRACE_S, TIMEOUT_S = 1, 1
# A server's time after its deadline: the grace, five seconds, two for SIGTERM; and one more.
BOUND_S = GRACE_S + 5 + 2 + 1
SETTINGS = {"MPS_GRACE_MS": str(GRACE_S * 1000)}

# The states of clients, and whether only the end of the server's process ends their work.
CLIENTS = {"call": False, "word": False, "load": False, "flood": False, "idle": False,
           "kernel": True}


def clients_that(service, hows, are_stopped=False):
    """One client in each state."""
    clients = [running(service, "stuck", how) for how in hows]
    if are_stopped:
        for client in clients:
            client.send_signal(signal.SIGSTOP)
    return clients


def let_go(service, clients):
    """They get an error, except a client that makes no call."""
    for client in clients:
        client.send_signal(signal.SIGCONT)
        if client.args[1] == "idle":
            client.kill()
            client.wait()
        else:
            equal(service.finish(client)[0], 1)


def quit_within(bound_s, *args, hows=(), are_stopped=False, is_server_stopped=False):
    with mps.Service(SETTINGS) as service:
        clients = clients_that(service, hows, are_stopped)
        server = service.server() if clients else None
        if is_server_stopped:
            os.kill(server, signal.SIGSTOP)
        # The front end waits until the daemon's parent has noticed its end.
        threading.Thread(target=service.daemon.wait).start()
        began = time.monotonic()
        service.command("quit", *args, timeout=bound_s + 20)
        took = time.monotonic() - began
        assert took < bound_s * mps.SLOW, "%s: %.1f s" % (hows, took)
        assert server is None or not mps.is_alive(server)
        equal(service.daemon.wait(5), 0)
        let_go(service, clients)


def test_quit_beside_blocked_clients():
    """No kernel runs, so there is no grace."""
    for how, has_work in CLIENTS.items():
        if not has_work:
            quit_within(TIMEOUT_S + 2, "-t", str(TIMEOUT_S), hows=[how])
    quit_within(TIMEOUT_S + 2, "-t", str(TIMEOUT_S), hows=["call", "word", "idle"], are_stopped=True)


def test_quit_beside_a_kernel_that_runs_for_ever():
    quit_within(TIMEOUT_S + GRACE_S + 2, "-t", str(TIMEOUT_S), hows=["kernel"])
    quit_within(GRACE_S + 2, "-t", "0", hows=["kernel", "word", "call"], are_stopped=True)


def test_quit_with_a_server_that_is_stopped():
    quit_within(TIMEOUT_S + BOUND_S, "-t", str(TIMEOUT_S), hows=["kernel", "call", "word"],
                is_server_stopped=True)


def shut_down_within(bound_s, *hows, are_stopped=False, is_server_stopped=False):
    """The server ends, and the next server serves clients that come meanwhile."""
    with mps.Service(SETTINGS) as service:
        clients = clients_that(service, hows, are_stopped)
        server = service.server()
        if is_server_stopped:
            os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        service.command("shutdown_server", str(server), "-f")
        assert time.monotonic() - began < 2 * mps.SLOW, "the command itself must not wait"
        wait_for("the server's end", lambda: server not in service.servers(), bound_s * mps.SLOW)
        assert not mps.is_alive(server)
        let_go(service, clients)
        service.run_ok("process1")


def test_shutdown_beside_blocked_clients():
    for how, has_work in CLIENTS.items():
        if not has_work:
            shut_down_within(2, how)
    shut_down_within(2, "call", "word", "idle", are_stopped=True)


def test_shutdown_beside_a_kernel_that_runs_for_ever():
    shut_down_within(GRACE_S + 2, "kernel")
    shut_down_within(GRACE_S + 2, "kernel", "word", "call", are_stopped=True)


def test_shutdown_of_a_server_that_is_stopped():
    shut_down_within(BOUND_S, "kernel", "call", "word", is_server_stopped=True)


def test_shutdown_beside_a_driver_that_stalls():
    with mps.Service(SETTINGS) as service:
        client = running(service, "victim")
        server = service.server()
        service.switch.set(1, mps.Switch.STALL, 60000)
        wait_for("the call", service.switch.name)
        service.command("shutdown_server", str(server), "-f")
        wait_for("the server's end", lambda: server not in service.servers(), BOUND_S * mps.SLOW)
        service.switch.set(0)
        equal(service.finish(client)[0], 1)


if __name__ == "__main__":
    harness.main(globals())
