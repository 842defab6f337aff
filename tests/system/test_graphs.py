#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Graphs whose client ends while they run, and graphs of several clients at once."""

import os
import re
import signal
import time

import harness
import mps
import terminations
import test_quiet
from harness import contains, equal, wait_for
from test_kill import gives_back, settle

KILLS = 24
KILLS_AT_ONCE = 3


def stuck(service, how):
    """A client with a graph that blocks, in a host function or for a semaphore, and more launches."""
    process = service.popen("graph_host", how)
    equal(process.stdout.readline(), "graph_host: running\n")
    return process


def end(service, process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    service.started.remove(process)


def check_recovers(stop, how="stuck"):
    """Neighbours work beside it as usual; when it is killed, nothing of it is left."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        end(service, stuck(service, how))
        before = settle(service, server)
        for _ in range(2):
            running = service.popen_going_round("process1", 2)
            process = stuck(service, how)
            if stop:
                process.send_signal(signal.SIGSTOP)
            equal(service.finish(running, 20)[0], 0)
            equal(process.poll(), None)
            began = time.monotonic()
            late = service.popen("graph_update")
            end(service, process)
            equal(service.finish(late, 20)[0], 0)
            wait_for("it to be gone", lambda: not service.clients(server))
            print("    gone after %.2f s" % (time.monotonic() - began))
        equal(service.servers(), [server], "the server was replaced")
        gives_back(service, server, before)


def test_killed_with_a_changed_node():
    """The graph waits for semaphores that its node no longer has."""
    check_recovers(False, "changed")


def test_memory_of_graphs():
    """Other streams wait for freed memory; a graph may allocate again what it frees."""
    with mps.Service() as service:
        service.run_ok("graph_memory", "unordered")
        out, _ = service.run_ok("graph_memory", "footprint")
        used, all_of_it = map(int, re.search(r"(\d+) of (\d+) bytes", out).groups())
        assert 0 < used < all_of_it / 20, out


def test_killed_in_a_host_node():
    check_recovers(False)


def test_stopped_in_a_host_node():
    check_recovers(True)


def test_killed_at_any_moment():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        dice = harness.dice(1)

        def kill_some():
            several = [service.popen("graph_host", "again", "1000") for _ in range(KILLS_AT_ONCE)]
            for process in several:
                time.sleep(dice.random() * 0.2)
                end(service, process)

        kill_some()
        before = settle(service, server)
        for _ in range(KILLS // KILLS_AT_ONCE):
            kill_some()
        equal(service.servers(), [server], "the server was replaced")
        gives_back(service, server, before)


def test_nothing_is_left():
    """Also what programs with graphs leave behind."""
    with mps.Service() as service:
        service.run_ok("graph_capture")
        server = service.server()
        before = settle(service, server)
        for name in ("graph_nodes", "graph_update", "graph_clone", "graph_host", "capture_errors",
                     "graph_capture"):
            service.run_ok(name)
        gives_back(service, server, before)


def test_server_dies():
    """The rest of the program continues, with an error."""
    with mps.Service() as service:
        service.run_ok("process1")
        process = service.popen("graph_host", "again", "100000")
        service.wait_for_active(process)
        time.sleep(0.3)
        os.kill(service.server(), signal.SIGKILL)
        code, out, _ = service.finish(process, 20)
        equal(code, 1, out)
        contains(out, "graph_host: ")


def test_several_clients():
    with mps.Service() as service:
        names = ("graph_capture", "graph_update", "graph_host")
        several = [service.popen(name) for name in names * 2]
        for process, name in zip(several, names * 2):
            equal(service.finish(process)[:2], (0, name + ": ok\n"))


def test_loops_of_streams():
    """Loops in several streams of a program, which end a context natively."""
    with mps.Service() as service:
        service.run_ok("graph_loops", "4", "200")


def test_loops_of_clients():
    """The same of several clients; those that are killed meanwhile hold up no other."""
    with mps.Service() as service:
        several = [service.popen("graph_loops", "2", "200", "20") for _ in range(3)]
        victims = [service.popen("graph_loops", "2", "1000", "200") for _ in range(2)]
        for victim in victims:
            service.wait_for_active(victim)
        time.sleep(0.2)
        for victim in victims:
            victim.kill()
            victim.wait()
        for process in several:
            equal(service.finish(process)[:2], (0, "graph_loops: ok\n"))
        equal(len(service.servers()), 1)


def test_loops_beside_kernels():
    """Loops of a client beside kernels of others, which would end the work of all of them."""
    with mps.Service({"SOFTGPU_LOOPS_ALONE": "1"}) as service:
        busy = [terminations.running(service, "stuck", "busy") for _ in range(2)]
        several = [service.popen("graph_loops", "1", "200", "20") for _ in range(2)]
        for process in several:
            equal(service.finish(process), (0, "graph_loops: ok\n", ""))
        for process in busy:
            test_quiet.goes_on(service, process)
        equal(len(service.servers()), 1)


def test_killed_beside_a_loop():
    """What a client has sent before its end, and was not launched yet, is not launched any more."""
    with mps.Service({"SOFTGPU_LOOPS_ALONE": "1"}) as service:
        busy = [terminations.running(service, "stuck", "busy") for _ in range(6)]
        loop = service.popen("graph_loops", "1", "2000000", "1")
        service.wait_for_log("PID: %d, Context ID: 7} makes a graph with a loop" % loop.pid)
        for process in busy:
            time.sleep(0.05)
            end(service, process)
        equal(loop.poll(), None, "the loop was too short")
        equal(service.finish(loop), (0, "graph_loops: ok\n", ""))
        equal(len(service.servers()), 1)


def test_endless_loop():
    """Loops of another client wait for it, as the log says. The server is replaced after its end."""
    with mps.Service({"MPS_GRACE_MS": "500"}) as service:
        # It launches until the end: behind the endless loop, its code could not be loaded any more.
        waits = service.popen("graph_loops", "1", "5", "1000000")
        service.wait_for_log("PID: %d, Context ID: 1} makes a graph with a loop" % waits.pid)
        endless = service.popen("graph_loops", "1", "2000000000", "1")
        service.wait_for_log("PID: %d, Context ID: 1} is held up by client {PID: %d, Context ID: 2}, "
                             "a graph of which has a loop on the GPU" % (waits.pid, endless.pid))
        server = service.server()
        endless.kill()
        endless.wait()
        equal(service.finish(waits)[0], 1)
        service.run_ok("graph_loops", "2", "5")
        assert service.server() != server, "the server was not replaced"


if __name__ == "__main__":
    harness.main(globals())
