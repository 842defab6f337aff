#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Counters of clients: from the work that a program does to the command stats."""

import json
import os
import signal
import subprocess
import time

import harness
import mps
from harness import contains, equal, need_root, wait_for

MIB = 1 << 20
# What tests/programs/runtime/counted.cu does.
WORK = {"launches": 17, "graph_launches": 6, "copies_in": 3, "bytes_in": 3 * MIB,
        "copies_out": 2, "bytes_out": MIB, "copies_within": 4, "bytes_within": MIB, "fills": 5,
        "errors": 0}


def stats(service):
    return json.loads(service.command("stats", "--json").stdout)


def worked(service, **more):
    """A client that has done its work and waits."""
    process = service.popen("counted", stdin=subprocess.PIPE, **more)
    equal(process.stdout.readline(), "counted: worked\n")
    return process


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def part(counters, wanted=None):
    return {name: counters[name] for name in wanted or WORK}


def test_work():
    """Each kind of work is counted once, as are the bytes of copies."""
    with mps.Service() as service:
        process = worked(service)
        client, = stats(service)["clients"]
        equal(part(client), WORK)
        equal((client["pid"], client["uid"], client["group"]), (process.pid, os.getuid(), None))
        equal(client["server"], service.server())
        contains(client["command"], "counted")
        gpu, = client["gpus"]
        assert 2 * MIB <= gpu["memory"] <= gpu["memory_peak"], gpu
        assert gpu["memory_peak"] >= 66 * MIB, gpu
        equal((gpu["sms"], gpu["memory_limit"]), (gpu["device_sms"], None))


def test_batches():
    """Launches in a burst reach the driver in groups."""
    with mps.Service() as service:
        service.run_ok("bursts")
        wait_for("its end", lambda: not stats(service)["clients"])
        user, = stats(service)["users"]
        assert 0 < user["batches"] <= user["launches"] / 2, user


def test_time_at_work():
    """It rises while a stream has work, and not while the program waits."""
    # Long copies, so that a stream has work even while the program waits for a processor.
    with mps.Service({"SOFTGPU_COPY_US": "10000"}) as service:
        process = worked(service)
        before = stats(service)["clients"][0]["busy_ns"]
        time.sleep(0.5)
        equal(stats(service)["clients"][0]["busy_ns"], before)
        began = time.monotonic()
        go_on(process)
        equal(process.stdout.readline(), "counted: was busy\n")
        took = time.monotonic() - began
        busy = (stats(service)["clients"][0]["busy_ns"] - before) / 1e9
        print("    busy for %.2f of %.2f s" % (busy, took))
        # A busy machine delays the samples.
        assert 0.3 <= busy <= took + 0.1, (busy, took)


def test_sums():
    """Users and groups keep the counters of clients that have ended."""
    with mps.Service() as service:
        service.command("group", "create", "g")
        first, second = worked(service), worked(service, env={"MPS_GROUP": "g"})
        equal([client["group"] for client in stats(service)["clients"]], [None, "g"])
        for process in (first, second):
            process.kill()
            process.wait()
        wait_for("their end", lambda: not stats(service)["clients"])
        found = stats(service)
        user, = [user for user in found["users"] if user["uid"] == os.getuid()]
        equal(part(user), {name: 2 * n for name, n in WORK.items()})
        group, = found["groups"]
        equal((group["group"], part(group)), ("g", WORK))


def test_sums_outlive_the_tenant():
    """The daemon forgets a user without connections and servers, but not the sums."""
    need_root()
    alice = {"user": 7001, "group": 7001, "extra_groups": []}
    with mps.Service({"MPS_IDLE_S": "1"}) as service:
        for n in (1, 2):
            process = worked(service, **alice)
            found, = [user for user in stats(service)["users"] if user["uid"] == 7001]
            equal(part(found), {name: n * count for name, count in WORK.items()})
            process.kill()
            process.wait()
            wait_for("the daemon to forget the user", lambda: 7001 not in
                     [user["uid"] for user in stats(service)["users"]], 60 * mps.SLOW)


def test_errors():
    """A call that fails counts as an error of its client."""
    with mps.Service() as service:
        process = service.popen("victim", env={"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1M"})
        process.wait()
        found, = [user for user in stats(service)["users"] if user["uid"] == os.getuid()]
        assert found["errors"] >= 1, found


def test_table():
    """One line for each client; text that a program has chosen stays on its line."""
    with mps.Service() as service:
        process = worked(service)
        lines = service.command("stats").stdout.splitlines()
        equal(len(lines), 2)
        words = lines[1].split()
        equal(words[:7], [str(process.pid), str(os.getuid()), "17", "6", "3.0M", "1.0M", "1.0M"])
        done = service.command("stats", "--nonsense", check=False)
        contains(done.stderr, 'Unknown option "--nonsense": stats [--json]')


def test_server_that_does_not_reply():
    """The command replies within the bound, with what the server last said."""
    with mps.Service() as service:
        worked(service)
        equal(part(stats(service)["clients"][0]), WORK)
        os.kill(service.server(), signal.SIGSTOP)
        try:
            began = time.monotonic()
            equal(part(stats(service)["clients"][0]), WORK)
            took = time.monotonic() - began
        finally:
            os.kill(service.server(), signal.SIGCONT)
        assert took < 1 + 4 * mps.SLOW, took
        wait_for("a reply", lambda: part(stats(service)["clients"][0]) == WORK)


def test_many_watchers():
    """Commands that wait at the same time all get their reply."""
    with mps.Service() as service:
        worked(service)
        watchers = [subprocess.Popen([mps.CONTROL, "stats", "--json"], env=service.env, text=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                    for _ in range(20)]
        for watcher in watchers:
            out, _ = watcher.communicate(timeout=30)
            equal(part(json.loads(out)["clients"][0]), WORK)


def test_log():
    """A connection that asks again and again, such as that of a viewer, is logged once."""
    with mps.Service() as service:
        done = subprocess.run([mps.CONTROL], env=service.env, text=True, capture_output=True,
                              input="stats --json\n" * 9 + "log_level\nstats --json\n", timeout=30,
                              check=True)
        equal(done.stdout.count('"clients":'), 10)
        equal(service.control_log().count("Cmd:stats --json"), 2)
        equal(len([line for line in service.control_log().splitlines() if "bytes" in line]), 2)


def test_users_see_their_own():
    """Root sees all clients; another user sees neither them nor their sums."""
    need_root()
    with mps.Service() as service:
        worked(service)
        done = subprocess.run([mps.CONTROL, "stats", "--json"], env=service.env, text=True,
                              capture_output=True, check=True, user=7001, group=7001,
                              extra_groups=[], timeout=30)
        found = json.loads(done.stdout)
        equal((found["clients"], "groups" in found), ([], False))
        equal([user["uid"] for user in found["users"]], [7001])


if __name__ == "__main__":
    harness.main(globals())
