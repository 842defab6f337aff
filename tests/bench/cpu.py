# SPDX-License-Identifier: Apache-2.0
"""The time of processors that servers need, beside idle clients and beside busy ones."""

import contextlib
import os
import time

from group import Group, soon
from rounds import alternate

ROUNDS = 2
BUSY = 8
# The kernel counts in ticks of 10 ms.
IDLE_S = 2


def cpu_s(pids):
    """The time that the processes have used so far."""
    ticks = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            ticks += sum(int(n) for n in file.read().rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def percent(pids, seconds):
    """Of one processor, in the next seconds."""
    before, began = cpu_s(pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(pids) - before) / (time.monotonic() - began) * 100


def idle(ways, count):
    with contextlib.ExitStack() as stack:
        for way in ways:
            stack.enter_context(Group(way, count))
        # What the start has left to do is over then.
        time.sleep(1)
        return alternate(ways, ROUNDS, lambda way: {"server": percent(way.servers(), IDLE_S)})


def busy(way, count):
    with Group(way, count) as group:
        at = soon(count)
        group.ask("sync", 2, at)
        time.sleep(max(0, at - time.time()) + 0.5)
        clients = [process.pid for process in group.processes]
        before = cpu_s(clients)
        found = {"server": percent(way.servers(), 1)}
        found["clients"] = (cpu_s(clients) - before) * 100
        group.answers()
        return found


def measure(ways, options, results):
    served = [way for way in ways if way.servers()]
    most = max(options.clients)
    results.add("idle server with %d clients" % most, "%", idle(served, most)["server"])
    count = min(BUSY, most)
    found = alternate(ways, ROUNDS, lambda way: busy(way, count))
    results.add("server, %d clients, empty kernel + sync" % count, "%", {
        way.name: found["server"][way.name] for way in served})
    results.add("these clients", "%", found["clients"])
