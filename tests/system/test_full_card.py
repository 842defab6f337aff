#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Clients whose memory together is larger than the card.

MPS_TEST_LONG=1 runs all programs with eviction at every rest, and 200 kills.
"""

import os
import re
import time

import harness
import mps
from harness import contains, equal, wait_for
from test_stats import stats
from oversubscribed import LARGE_MIB, PROGRAM, SPARSELY, THIRD_MIB, Worker, is_empty, service

IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
MIB = 1 << 20
# These take most of the time of all programs, and have no kind of object that others lack.
SLOW = ("alloc_patterns", "awaited", "bulk_copies", "callbacks", "host_pools", "pinned",
        "pinned_threads", "programmatic", "registered_private", "registered_shared", "user_objects")
# Kinds of memory, by limited_memory.
WAYS = ("plain", "async", "pool", "create", "array", "mipmap", "graph", "kernel")
# Calls of the driver that give memory back, and take it.
OF_MOVES = ("cuMemUnmap", "cuMemRelease", "cuMemCreate", "cuMemMap", "cuMemSetAccess")
KILLS = 200 if IS_LONG else 16


def test_two_at_once():
    """Both need their memory back at the same time."""
    with service() as (made, small):
        pair = [Worker(made, LARGE_MIB) for _ in range(2)]
        for _ in range(5):
            for worker in pair:
                worker.send()
            for worker in pair:
                worker.answer()
        for worker in pair:
            worker.end()
        is_empty(made, small)


def test_four_in_turn():
    """Four clients with a third of the card each: all answers are right."""
    with service() as (made, small):
        dice = harness.dice()
        clients = [Worker(made, THIRD_MIB) for _ in range(4)]
        for _ in range(3):
            for client in clients:
                client.ask()
        for client in dice.sample(clients, 4):
            client.send()
        for client in clients:
            client.answer()
        for client in clients:
            client.end()
        is_empty(made, small)


def test_any_kind_of_memory():
    """An allocation of any kind takes the room of an idle client."""
    with service() as (made, small):
        idle = Worker(made, LARGE_MIB)
        for way in WAYS:
            code, out, err = made.run("limited_memory", way, "2048")
            equal(code, 0, out + err)
            got = int(out.partition("got ")[2].split()[0])
            # Of a variable, the driver's loader makes a copy, too.
            taken = got * 1024 * (2 if way == "kernel" else 1)
            assert taken > LARGE_MIB * MIB * 0.9, "%s: %s" % (way, out)
            idle.ask()
        idle.end()
        is_empty(made, small)


def pair_runs(made, *words):
    """Two programs at once, which both have to succeed; their outputs."""
    pair = [made.popen(PROGRAM, str(LARGE_MIB), *SPARSELY, *words) for _ in range(2)]
    for process in pair:
        code, out, err = made.finish(process)
        equal(code, 0, out + err)
        contains(out, PROGRAM + ": ok")


def test_stretches():
    """Two programs that compute in stretches and pause."""
    with service({"MPS_OVERSUBSCRIBE_STAY": "0.2"}) as (made, small):
        pair_runs(made, "--stretches", "4", "--launches", "40", "--pause", "100")
        is_empty(made, small)


def test_never_idle():
    """Two programs that are never idle take turns."""
    with service({"MPS_OVERSUBSCRIBE_STAY": "0.2"}) as (made, small):
        pair_runs(made, "--launches", "800", "--ahead", "16")
        is_empty(made, small)


def test_kills():
    """Clients that are killed while memory leaves or comes back leave nothing."""
    dice = harness.dice()
    with service() as (made, small):
        survivor = Worker(made, THIRD_MIB)
        server = made.server()
        for _ in range(KILLS // 2):
            pair = [Worker(made, LARGE_MIB), Worker(made, LARGE_MIB, waits=dice.random() < 0.5)]
            if dice.random() < 0.5:
                pair[0].send()
            for victim in dice.sample(pair, 2):
                time.sleep(dice.random() * 0.03)
                victim.kill()
            wait_for("their end", lambda: made.clients(server) == [survivor.process.pid])
        survivor.ask()
        equal([one["store"] for one in stats(made)["servers"]], [0])
        survivor.end()
        is_empty(made, small)
        equal(made.servers(), [server])


def ask_beside(made, pair, neighbour, name, stall_ms):
    """Whether the neighbour has its answer before a call is over that pair[0]'s request needs."""
    # Of those that rest, the other one of the pair rests for longest, so its memory leaves.
    neighbour.ask()
    made.switch.set(1, mps.Switch.STALL, stall_ms, name)
    began = time.monotonic()
    pair[0].send()
    wait_for("a call of " + name, made.switch.seen)
    neighbour.ask()
    # The call has begun later, so it is not over yet.
    is_soon = time.monotonic() - began < stall_ms / 1000
    pair[0].answer()
    made.switch.set(0)
    pair.reverse()
    return is_soon


def test_slow_calls():
    """A call of the driver that moves memory takes long: launches and copies of a neighbour do not
    wait for it."""
    # Without a stay, the one that has just come back may leave first, so the neighbour's memory stays.
    with service({"MPS_OVERSUBSCRIBE_STAY": "0"}) as (made, small):
        pair = [Worker(made, 2 * THIRD_MIB) for _ in range(2)]
        neighbour = Worker(made, 4)
        for name in OF_MOVES:
            assert any(ask_beside(made, pair, neighbour, name, ms) for ms in (200, 1000, 5000)), name
        for worker in (neighbour, *pair):
            worker.end()
        is_empty(made, small)


def test_fault_while_away():
    """A kernel faults while another client's memory is in the store: that client goes on."""
    with service() as (made, small):
        away, second = Worker(made, LARGE_MIB), Worker(made, LARGE_MIB)
        second.ask()
        server = made.server()
        code, out, err = made.run("fault")
        equal(code, 0, out + err)
        away.ask()
        away.end()
        second.kill()
        made.run_ok(PROGRAM, str(LARGE_MIB), *SPARSELY)
        assert made.server() != server
        is_empty(made, small)


def test_every_rest():
    """Every program computes the same if its memory leaves the card whenever it rests."""
    names = [name for name in mps.PROGRAMS_ONCE if IS_LONG or name not in SLOW]
    with mps.Service({"MPS_TEST": "evict"}) as made:
        wrong = [(name, got) for name in names for got in [made.run(name)]
                 if got[:2] != (0, name + ": ok\n")]
        n_evicted = len(re.findall(": its memory was evicted", made.server_log()))
    assert not wrong, wrong
    # On a machine with idle processors, half of the programs are over before they rest.
    assert n_evicted > len(names) / 5, "only %d programs were evicted" % n_evicted
    print("    %d of %d programs were evicted" % (n_evicted, len(names)))


if __name__ == "__main__":
    harness.main(globals())
