#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Clients killed at random points leave nothing behind in the server."""

import os
import signal
import subprocess
import time

import harness
import mps
from harness import equal, settled, wait_for

KILLS = 200
AT_ONCE = 4
# Only counters that grow. Green contexts are kept for other clients (server/share/green.c).
COUNTERS = ("launches", "faults", "greens")


def holds(service, server):
    """What the server holds now."""
    stats = {k: v for k, v in service.stats(server).items() if k not in COUNTERS}
    return {"files": len(mps.open_files(server)), "threads": mps.thread_count(server), **stats}


def settle(service, server):
    """Waits until the server has no clients; returns what it holds."""
    # A rank's kernel gives up after 20 s (halo.cu); only then do dead clients leave.
    wait_for("the server to have no clients", lambda: not service.clients(server), 30 * mps.SLOW)
    # Memory is freed when the last kernel of dead clients has ended.
    return settled(lambda: holds(service, server))


def kill_some(service, dice, count, *args, signals=(signal.SIGKILL,)):
    """Starts `count' victims, and kills each at some moment of its start or its work."""
    victims = [(service.popen("victim", "--seed", str(dice.randrange(1 << 20)), *args),
                time.monotonic() + dice.choice((0.03, 0.15, 0.5)) * dice.random())
               for _ in range(count)]
    for victim, when in sorted(victims, key=lambda v: v[1]):
        time.sleep(max(0, when - time.monotonic()))
        equal(victim.poll(), None, "it should not have ended by itself")
        victim.send_signal(dice.choice(signals))
    for victim, _ in victims:
        victim.wait(60)
        victim.stdout.close()
        victim.stderr.close()
        service.started.remove(victim)


def gives_back(service, server, before):
    """No client is left, and the server holds what it held before; it may need a moment."""
    try:
        wait_for("what it held before", lambda: settle(service, server) == before)
    except AssertionError:
        same(before, settle(service, server))


def same(before, after):
    different = {k: (before[k], after[k]) for k in before if before[k] != after[k]}
    assert not different, "before and after: %s" % different


def check(service, kills, *args, signals=(signal.SIGKILL,)):
    dice = harness.dice()
    service.run_ok("process1")
    server = service.server()
    for _ in range(3):
        kill_some(service, dice, AT_ONCE, *args, signals=signals)
    before = settle(service, server)
    memory = mps.memory_kib(server)
    for _ in range(kills // AT_ONCE):
        kill_some(service, dice, AT_ONCE, *args, signals=signals)
    equal(service.servers(), [server], "the server was replaced")
    gives_back(service, server, before)
    grown = mps.memory_kib(server) - memory
    assert os.environ.get("MPS_SAN") or grown < 4096, "%d KiB more memory" % grown
    service.run_ok("process2")
    equal(service.server(), server)


def test_kill_pinned():
    """Pinned memory is freed with its owner, even while it is copied."""
    with mps.Service() as service:
        service.run_ok("pinned")
        server = service.server()
        before = settle(service, server)
        for i in range(6):
            client = service.popen("pinned", "--seconds", "60")
            time.sleep(0.15 * i)
            client.kill()
            client.wait(60)
            client.stdout.close()
            client.stderr.close()
            service.started.remove(client)
        gives_back(service, server, before)
        with open("/proc/%d/maps" % server, encoding="utf-8") as file:
            assert "mps-pinned" not in file.read()
        service.run_ok("pinned")


def test_kill_arrays():
    """Arrays and surfaces too, at any moment: the driver destroys them when no session has work."""
    with mps.Service() as service:
        service.run_ok("surface")
        server = service.server()
        before = settle(service, server)
        for i in range(8):
            client = service.popen("surface", "--seconds", "60")
            time.sleep(0.05 * i)
            client.kill()
            client.wait(60)
            client.stdout.close()
            client.stderr.close()
            service.started.remove(client)
        gives_back(service, server, before)
        service.run_ok("surface")


def test_kill_200():
    with mps.Service() as service:
        check(service, KILLS)


def test_other_signals():
    with mps.Service() as service:
        check(service, 40, signals=(signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP))


def test_forked_children_live():
    """The socket of a dead client is still open in its children."""
    with mps.Service() as service:
        check(service, 40, "--fork")
        ours = {service.server(), service.daemon.pid}
        children = [pid for pid in service.processes() if pid not in ours]
        assert children, "no forked child lives: the test shows nothing"
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def test_stopped_then_killed():
    """A client that is stopped in its work delays no other."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        dice = harness.dice(1)
        stopped = [service.popen("victim", "--seed", str(dice.randrange(1 << 20))) for _ in range(4)]
        for process in stopped:
            time.sleep(dice.random() * 0.3)
            process.send_signal(signal.SIGSTOP)
        service.run_ok("process2")
        for process in stopped:
            process.kill()
            process.wait()
        gives_back(service, server, before)


def kill_waiting(service, server, before):
    """Kills a client that waits; returns the seconds until everything is freed."""
    victim = service.popen("bench", "serve", stdin=subprocess.PIPE)
    equal(victim.stdout.readline()[:9], "start_ms=")
    wait_for("the client", lambda: service.clients(server) == [victim.pid])
    began = time.monotonic()
    victim.kill()
    wait_for("all of it to be back", lambda: not service.clients(server)
             and service.stats(server)["device_bytes"] == before["device_bytes"])
    return time.monotonic() - began


def test_within_a_second():
    """From the kill of a waiting client until everything of it is freed."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        took = []
        # On a busy machine, some tries take longer.
        while len(took) < 5 and (not took or took[-1] >= 1 * mps.SLOW):
            took.append(kill_waiting(service, server, before))
        assert took[-1] < 1 * mps.SLOW, "it took %s s" % took
        gives_back(service, server, before)


def test_exit_without_freeing():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        for _ in range(5):
            code, out, err = service.run("leaver")
            equal((code, out), (0, "leaver: ok\n"), err)
        gives_back(service, server, before)


if __name__ == "__main__":
    harness.main(globals())
