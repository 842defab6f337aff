#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""suspend_client: the client's calls wait, and it goes on where it was when it is resumed."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import harness
import mps
from harness import contains, equal, wait_for
from test_restart import restart
from terminations import TERMINATED, running, terminate

# A stream waits for a word that the program writes when it reads a line.
BLOCKED = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, words, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(64))
call("cuMemsetD32_v2", words, 0, ctypes.c_size_t(16))
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuStreamWaitValue32_v2", stream, words, 1, 1)
call("cuCtxSetCurrent", context)
print("blocked", flush=True)
input()
call("cuStreamWriteValue32_v2", None, words, 1, 0)
call("cuStreamSynchronize", stream)
print("ok")
"""
# A client without memory on the GPU: each line that it reads is a call that its server answers.
WAITING = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuCtxGetCurrent", ctypes.byref(context))
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print("ready", flush=True)
while input() == "go":
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    print("answered", flush=True)
print("ok", flush=True)
"""
# How long to look that nothing happens.
PAUSE_S = 0.3


def say(service, *words, check=True):
    return service.command(*words, check=check).stdout


def suspend(service, client, *words):
    equal(say(service, "suspend_client", str(client.pid), *words),
          "Client %d is suspended\n" % client.pid)


def resume(service, client):
    equal(say(service, "resume_client", str(client.pid)), "Client %d is resumed\n" % client.pid)


def launches(service, client):
    clients = json.loads(say(service, "stats", "--json"))["clients"]
    return sum(each["launches"] for each in clients if each["pid"] == client.pid)


def away(service, client):
    """Whether all its memory is away, and why not."""
    clients = json.loads(say(service, "stats", "--json"))["clients"]
    one = next(each for each in clients if each["pid"] == client.pid)
    return all(gpu["away"] == gpu["memory"] > 0 for gpu in one["gpus"]), one["stays"]


def state(service, client):
    clients = json.loads(say(service, "ps", "--json"))["clients"]
    return [each["state"] for each in clients if each["pid"] == client.pid]


def at_work(service, *more):
    client = service.popen("process1", "--seconds", "60", *more)
    service.wait_for_active(client)
    wait_for("its first launches", lambda: launches(service, client) > 2)
    return client


def wait_until_it_goes_on(service, client):
    """Its next launch may take as long as other processes let it."""
    before = launches(service, client)
    wait_for("another launch", lambda: launches(service, client) > before)


def is_held(service, client):
    before = launches(service, client)
    time.sleep(PAUSE_S)
    return launches(service, client) == before


def test_goes_on():
    """Its work ends, others go on, and after it is resumed it computes what it computes."""
    with mps.Service() as service:
        client = service.popen("process1", "--seconds", "4")
        service.wait_for_active(client)
        other = at_work(service)
        service.command("trace", "start", service.folder + "/trace.json")
        suspend(service, client)
        equal(state(service, client), ["SUSPENDED"])
        equal(away(service, client), (True, None))
        # Its worker writes what it has of the trace.
        service.command("trace", "stop", service.folder + "/trace.json")
        assert is_held(service, client)
        wait_until_it_goes_on(service, other)
        equal(client.poll(), None)
        # Again, it is the same.
        suspend(service, client)
        resume(service, client)
        resume(service, client)
        equal(state(service, client), ["ACTIVE"])
        equal(service.finish(client)[:2], (0, "process1: ok\n"))
        contains(service.server_log(), " MiB were evicted from device 0")
        contains(service.server_log(), "Client {PID: %d, Context ID: 1} is suspended by the "
                 "operator" % client.pid)


def test_user_and_group():
    with mps.Service() as service:
        service.command("group", "create", "night")
        one = at_work(service)
        two = service.popen("process1", "--seconds", "60", env={"MPS_GROUP": "night"})
        service.wait_for_active(two)
        equal(say(service, "suspend_client", "-group", "night"),
              "Client %d is suspended\n" % two.pid)
        assert is_held(service, two)
        wait_until_it_goes_on(service, one)
        lines = say(service, "suspend_client", "-uid", str(os.getuid())).splitlines()
        equal(sorted(lines), sorted("Client %d is suspended" % c.pid for c in (one, two)))
        assert is_held(service, one)
        # A client that comes later is not suspended.
        service.run_ok("process2")
        say(service, "resume_client", "-uid", str(os.getuid()))
        wait_until_it_goes_on(service, one)
        wait_until_it_goes_on(service, two)


def test_moves():
    """A suspended client moves with its server, several times, stays suspended, and is resumed."""
    with mps.Service() as service:
        client = service.popen(sys.executable, "-c", WAITING, stdin=subprocess.PIPE)
        equal(client.stdout.readline(), "ready\n")
        suspend(service, client)
        client.stdin.write("go\n")
        client.stdin.flush()
        for _ in range(2):
            restart(service)
            equal(state(service, client), ["SUSPENDED"])
            suspend(service, client)
        equal(select.select([client.stdout], [], [], PAUSE_S)[0], [], "its call did not wait")
        resume(service, client)
        equal(client.stdout.readline(), "answered\n")
        restart(service)
        equal(state(service, client), ["ACTIVE"])
        client.stdin.write("go\nend\n")
        equal(service.finish(client), (0, "answered\nok\n", ""))


def test_moves_with_memory():
    """Its memory stays in the host's store until it is resumed, in whichever server."""
    with mps.Service({"MPS_OVERSUBSCRIBE": "1"}) as service:
        client = at_work(service)
        suspend(service, client)
        equal(away(service, client), (True, None))
        for _ in range(2):
            restart(service)
            equal(state(service, client), ["SUSPENDED"])
            wait_for("its memory to be away", lambda: away(service, client) == (True, None))
        resume(service, client)
        wait_until_it_goes_on(service, client)
        restart(service)
        wait_until_it_goes_on(service, client)


def test_work_that_does_not_end():
    """The reply says which client is at work. Calls wait all the same."""
    with mps.Service({"MPS_GRACE_MS": "500"}) as service:
        for how in "call", "kernel":
            client = running(service, "stuck", how)
            began = time.monotonic()
            equal(say(service, "suspend_client", str(client.pid), "-t", "1", check=False),
                  "Client %d is still at work: its further calls wait, and it is suspended when "
                  "its work has ended\n" % client.pid, how)
            assert time.monotonic() - began < 3 * mps.SLOW, how
            equal(state(service, client), ["SUSPENDING"], how)
            if how != "kernel":
                resume(service, client)
            client.kill()
            client.wait()


def test_blocked_stream():
    """The GPU waits for the client: its calls wait, and what it has on the GPU stays there."""
    with mps.Service() as service:
        client = service.popen(sys.executable, "-c", BLOCKED, stdin=subprocess.PIPE)
        equal(client.stdout.readline(), "blocked\n")
        equal(say(service, "suspend_client", str(client.pid)),
              "Client %d is suspended; a stream of it waits on the GPU, for a semaphore or a host "
              "function\n" % client.pid)
        client.stdin.write("\n")
        client.stdin.flush()
        time.sleep(PAUSE_S)
        equal(client.poll(), None)
        resume(service, client)
        equal(service.finish(client)[:2], (0, "ok\n"))


def test_ends_while_suspended():
    """Killed, or terminated: it has its end as any other client; with its server, in bounded time."""
    with mps.Service() as service:
        client = at_work(service)
        server = service.server()
        suspend(service, client)
        client.kill()
        client.wait()
        wait_for("its end", lambda: not service.clients(server))

        client = at_work(service)
        suspend(service, client)
        equal(terminate(service, server, client.pid), "0\n")
        contains(service.finish(client)[1], "(%d)" % TERMINATED)
        equal(service.server(), server)

        client = at_work(service)
        suspend(service, client)
        os.kill(server, signal.SIGKILL)
        began = time.monotonic()
        contains(service.finish(client)[1], "(806)")
        assert time.monotonic() - began < 5 * mps.SLOW


def test_new_daemon():
    """The server holds the suspension; a new daemon learns it, and can end it."""
    with mps.Service() as service:
        client = at_work(service)
        suspend(service, client)
        service.restart_killed()
        wait_for("the new daemon", lambda: state(service, client) == ["SUSPENDED"])
        assert is_held(service, client)
        resume(service, client)
        wait_until_it_goes_on(service, client)


def test_quit():
    """The wait for clients has an end beside a suspended one."""
    with mps.Service() as service:
        client = at_work(service)
        suspend(service, client)
        began = time.monotonic()
        service.command("quit", "-t", "1")
        assert time.monotonic() - began < 6 * mps.SLOW
        contains(service.finish(client)[1], "(806)")


if __name__ == "__main__":
    harness.main(globals())
