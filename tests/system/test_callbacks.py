#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""The GPU waits for a client: in a host function, or for a semaphore that is never written."""

import os
import signal
import time

import harness
import mps
from harness import contains, equal, wait_for
from test_kill import gives_back, settle

KILLS = 40
KILLS_AT_ONCE = 4


def stuck(service, how):
    """A blocked client for which the GPU waits."""
    process = service.popen("stuck", how)
    equal(process.stdout.readline(), "stuck: running\n")
    return process


def make(path):
    """The objects that some programs wait for."""
    with open(path, "w", encoding="utf-8"):
        pass


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


def check_beside(service, how):
    """Neighbours work beside it. Loading code would wait, with all clients, for blocked streams: so
    only the client that has to load is delayed, until those streams have ended."""
    if how == "call":
        for name in ("process1", "process2", "callbacks", "memory_ops"):
            service.run_ok(name, timeout=20)
        return []
    service.run_ok("memory_ops", timeout=20)
    late = [service.popen("process1"), service.popen("events")]
    time.sleep(0.5)
    equal([process.poll() for process in late], [None, None], "they load code beside it")
    return late


def check_recovers(how, stop):
    """Neighbours work beside it; when it is killed, nothing of it is left."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        end(stuck(service, how))
        before = settle(service, server)
        for _ in range(2):
            running = service.popen_going_round("process1", 2)
            process = stuck(service, how)
            if stop:
                process.send_signal(signal.SIGSTOP)
            late = check_beside(service, how)
            equal(service.finish(running, 20)[:2], (0, "process1: ok\n"))
            equal(process.poll(), None)
            began = time.monotonic()
            end(process)
            for other in late:
                equal(service.finish(other, 20)[0], 0)
            wait_for("it to be gone", lambda: not service.clients(server))
            print("    gone after %.2f s" % (time.monotonic() - began))
        equal(service.servers(), [server], "the server was replaced")
        gives_back(service, server, before)


def test_killed_in_a_callback():
    check_recovers("call", False)


def test_stopped_in_a_callback():
    check_recovers("call", True)


def test_killed_with_streams_that_wait():
    check_recovers("word", False)


def test_killed_as_it_waits_for_itself():
    """A client that cannot load code beside its own blocked stream; killed, it leaves nothing."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        process = stuck(service, "load")
        time.sleep(0.3)
        end(process)
        wait_for("it to be gone", lambda: not service.clients(server))
        service.run_ok("process1")
        equal(service.servers(), [server], "the server was replaced")


def test_many_blocked_streams():
    """Clients with permanently blocked streams: streams of others continue, and may wait too.

    The software GPU has 32 queues for a server, like the real one, and in the same way lets
    work queue behind a wait of another client's stream.
    """
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        running = [service.popen_going_round("process1", 5)]
        service.run_ok("stream_overlap")
        waiting = [stuck(service, how) for how in ("word", "call", "call", "call")]
        waiting[1].send_signal(signal.SIGSTOP)
        several = [service.popen("memory_ops") for _ in range(8)]
        for process in several:
            equal(service.finish(process, 30)[:2], (0, "memory_ops: ok\n"))
        for process in running:
            equal(service.finish(process, 30)[0], 0)
        for process in waiting:
            equal(process.poll(), None)
            end(process)
        wait_for("all to be gone", lambda: not service.clients(server))
        equal(service.servers(), [server], "the server was replaced")


def test_waits_for_unblocked_work():
    """Waits for unblocked work only need no turn, for any number of blocked streams."""
    with mps.Service() as service:
        service.run_ok("process1")
        file = os.path.join(service.folder, "go on")
        running = [service.popen("waits_beside", file) for _ in range(4)]
        for process in running:
            equal(process.stdout.readline(), "waits_beside: waiting\n")
        make(file)
        for process in running:
            equal(service.finish(process, 20)[:2], (0, "waits_beside: ok\n"))


def test_killed_beside_a_call_that_waits():
    """A call of the driver waits for a blocked stream, with the driver's lock held: killing the
    stream's client is enough."""
    with mps.Service() as service:
        running = service.popen_going_round("process1", 10)
        server = service.server()
        waiting = service.popen("waits_beside", os.path.join(service.folder, "never"))
        equal(waiting.stdout.readline(), "waits_beside: waiting\n")
        service.run_ok("memory_ops", timeout=20)
        service.switch.set(1, mps.Switch.WAIT)
        wait_for("the call", service.switch.name)
        late = service.popen("memory_ops")
        time.sleep(2)
        equal((running.poll(), late.poll()), (None, None), "%s did not wait" % service.switch.name())
        end(waiting)
        equal(service.finish(late, 6)[0], 0)
        equal(service.finish(running, 20)[0], 0)
        equal(service.servers(), [server], "the server was replaced")


def test_calls_that_wait_for_everything():
    """Beside a blocked stream, the server makes no such call, which would delay all clients."""
    with mps.Service() as service:
        service.run_ok("process1")
        running = [service.popen_going_round(name, 3)
                   for name in ("process1", "graph_capture")]
        late = service.popen("local_memory", "slowly")
        equal(late.stdout.readline(), "local_memory: loaded\n")
        late.send_signal(signal.SIGSTOP)
        process = stuck(service, "word")
        late.send_signal(signal.SIGCONT)
        greens = service.popen("green_ends")
        for other in running:
            equal(service.finish(other, 20)[0], 0)
        time.sleep(1)
        equal(late.poll(), None, "a kernel with much memory of its own was launched beside it")
        equal(greens.poll(), None, "a green context was made beside it")
        service.wait_for_log("is held up by client {PID: %d," % process.pid)
        end(process)
        equal(service.finish(late, 20)[:2], (0, "local_memory: ok\n"))
        equal(service.finish(greens, 20)[:2], (0, "green_ends: ok\n"))


def test_resources_are_created_later():
    """Resources that the driver would have to create, or code that it would have to load: beside a
    blocked stream only the client that needs them waits; existing resources are available."""
    for what, count, waits in (("attribute", 1, True), ("streams", 100, False), ("graphs", 40, False),
                               ("streams", 500, True), ("graphs", 100, True)):
        with mps.Service() as service:
            begin, end_of_wait = (os.path.join(service.folder, name) for name in ("begin", "end"))
            taking = service.popen("resources", what, str(count), begin)
            equal(taking.stdout.readline(), "resources: waiting\n")
            waiting = service.popen("waits_beside", end_of_wait)
            equal(waiting.stdout.readline(), "waits_beside: waiting\n")
            make(begin)
            if waits:
                time.sleep(1)
                equal(taking.poll(), None, "%s: it did not wait" % what)
            else:
                equal(service.finish(taking, 20)[:2], (0, "resources: ok\n"), what)
            make(end_of_wait)
            equal(service.finish(waiting, 20)[:2], (0, "waits_beside: ok\n"), what)
            if waits:
                equal(service.finish(taking, 20)[:2], (0, "resources: ok\n"), what)


def test_full_queue():
    """A client that fills the GPU's queue behind a wait delays only itself."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        running = service.popen_going_round("process1", 3)
        process = stuck(service, "flood")
        equal(service.finish(running, 20)[:2], (0, "process1: ok\n"))
        equal(process.poll(), None)
        end(process)
        wait_for("it to be gone", lambda: not service.clients(server))
        service.run_ok("process1")
        equal(service.servers(), [server], "the server was replaced")


def test_unloads_beside_a_callback():
    """A client stopped in a host function does not keep other clients' code in the server."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        process = stuck(service, "call")
        process.send_signal(signal.SIGSTOP)
        service.run_ok("disturb", "load", timeout=20)
        wait_for("its code to be gone", lambda: service.stats(server)["libraries"]
                 == mps.OWN_LIBRARIES)
        equal(process.poll(), None)
        end(process)


def test_killed_at_any_moment():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        dice = harness.dice(1)

        def kill_some():
            several = [service.popen("callbacks", "--seconds", "60") for _ in range(KILLS_AT_ONCE)]
            for process in several:
                time.sleep(dice.random() * 0.15)
                end(process)
                service.started.remove(process)

        kill_some()
        before = settle(service, server)
        for _ in range(KILLS // KILLS_AT_ONCE):
            kill_some()
        equal(service.servers(), [server], "the server was replaced")
        gives_back(service, server, before)


def test_slow_callback():
    """It delays no neighbour, and ends normally."""
    with mps.Service() as service:
        service.run_ok("process1")
        # On a busy machine they may be slower by themselves.
        for _ in range(5):
            process = stuck(service, "slow")
            service.run_ok("process1")
            service.run_ok("process2")
            is_still_there = process.poll() is None
            equal(service.finish(process)[:2], (0, "stuck: ok\n"))
            if is_still_there:
                break
        assert is_still_there, "neighbours took as long as it did, each time"


def test_thread_ends():
    """The thread for host functions exists while there are any."""
    with mps.Service() as service:
        process = stuck(service, "call")
        equal(mps.thread_count(process.pid), 2)
        end(process)
        process = stuck(service, "idle")
        wait_for("no thread", lambda: mps.thread_count(process.pid) == 1)
        end(process)


def test_server_dies():
    """The rest of the program continues, with an error."""
    with mps.Service() as service:
        service.run_ok("process1")
        process = service.popen("stuck", "word")
        equal(process.stdout.readline(), "stuck: running\n")
        time.sleep(0.2)
        os.kill(service.server(), signal.SIGKILL)
        code, out, _ = service.finish(process, 20)
        equal(code, 1, out)
        contains(out, "CUDA_ERROR_MPS_RPC_FAILURE")


def test_service_quits():
    """A waiting call does not report success for work that was lost."""
    for how in ("call", "word"):
        with mps.Service() as service:
            process = stuck(service, how)
            process.send_signal(signal.SIGSTOP)
            service.command("quit", "-t", "1")
            process.send_signal(signal.SIGCONT)
            code, out, _ = service.finish(process, 20)
            equal(code, 1, out)
            contains(out, "CUDA_ERROR_MPS_RPC_FAILURE")


def test_several_clients():
    """Many callbacks at once from several clients."""
    with mps.Service() as service:
        service.run_ok("process1")
        several = [service.popen("callbacks", "--rounds", "3") for _ in range(3)]
        for process in several:
            equal(service.finish(process)[:2], (0, "callbacks: ok\n"))


if __name__ == "__main__":
    harness.main(globals())
