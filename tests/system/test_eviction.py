#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Clients that have more memory together than the GPU: memory of idle ones makes space."""

import re
import subprocess
import time

import harness
import mps
import oversubscribed
from test_config_file import Service
from test_metrics import metrics
from test_stats import stats
from harness import contains, equal, wait_for

MIB = 1 << 20
CARD = {"SOFTGPU_MEMORY_MIB": "64", "MPS_OVERSUBSCRIBE": "1"}


class Holder(oversubscribed.Oversize):
    """A copy of the program `oversize'."""

    def __init__(self, service, way, mib, kib=4096, **env):
        self.service = service
        self.process = service.popen("oversize", way, str(mib), str(kib), stdin=subprocess.PIPE, env=env)
        equal(self.answer(), "has")


def evictions(service):
    return len(re.findall(r"MiB were evicted from device 0 in \d+ ms", service.server_log()))


def settled(service):
    """The same when the log has the last of them: it may come after the memory is used."""
    found = evictions(service)
    while True:
        time.sleep(0.3)
        before, found = found, evictions(service)
        if found == before:
            return found


def take_turns(way, kib):
    with mps.Service(CARD) as service:
        one = Holder(service, way, 44, kib)
        other = Holder(service, way, 44, kib)
        for _ in range(3):
            equal(one.ask("work"), "worked")
            equal(other.ask("work"), "worked")
        assert evictions(service) >= 6, service.server_log()
        contains(service.server_log(), "MiB are back in ")
        one.end()
        other.end()
        equal(len(service.servers()), 1)


def test_chunks():
    """Both compute right, in turn, also with chunks of which one makes space for several."""
    take_turns("plain", 4096)


def test_allocations():
    take_turns("create", 4096)


def test_small_pieces():
    take_turns("plain", 64)


def test_only_what_is_needed():
    """The client that has been idle for longest gives what the newcomer lacks, and no more."""
    with mps.Service(CARD) as service:
        old = Holder(service, "plain", 20)
        equal(old.ask("work"), "worked")
        new = Holder(service, "plain", 20)
        equal(new.ask("work"), "worked")
        third = Holder(service, "plain", 24)
        found = re.findall(r"PID: (\d+), .*: (\d+) MiB were evicted", service.server_log())
        equal({int(pid) for pid, _ in found}, {old.process.pid})
        assert sum(int(mib) for _, mib in found) <= 12, found
        for holder in old, new, third:
            equal(holder.ask("work"), "worked")
            holder.end()


def test_off():
    """Without the setting nothing leaves, and a full GPU is an error as before."""
    with mps.Service(dict(CARD, MPS_OVERSUBSCRIBE="0")) as service:
        one = Holder(service, "plain", 44)
        code, out, _ = service.run("oversize", "plain", "44", "4096")
        equal(code, 1)
        contains(out, "CUDA_ERROR_OUT_OF_MEMORY")
        equal(evictions(service), 0)
        one.end()


def test_full_store():
    """... and so is a full store, of which server.log tells."""
    with mps.Service(dict(CARD, MPS_OVERSUBSCRIBE_HOST="32")) as service:
        one = Holder(service, "plain", 56)
        other = Holder(service, "plain", 20)
        code, out, _ = service.run("oversize", "plain", "24", "4096")
        equal(code, 1)
        contains(out, "CUDA_ERROR_OUT_OF_MEMORY")
        service.wait_for_log("because too little of the store is free: 0 of 32 MiB (MPS_OVERSUBSCRIBE_HOST)")
        other.end()
        equal(one.ask("work"), "worked")
        one.end()


def test_shown():
    """stats and metrics tell how much of the store each server uses, and how large it may be."""
    with mps.Service(dict(CARD, MPS_OVERSUBSCRIBE_HOST="256")) as service:
        one = Holder(service, "plain", 44)
        other = Holder(service, "plain", 44)
        settled(service)
        found = stats(service)
        away = sum(gpu["away"] for client in found["clients"] for gpu in client["gpus"])
        server, = found["servers"]
        assert 24 * MIB <= away <= 44 * MIB, found
        equal((server["server"], server["store"], server["store_limit"]),
              (service.server(), away, 256 * MIB))
        families = metrics(service)
        labels = {"server": str(service.server())}
        equal(families["mps_server_store_bytes"].value(**labels), away)
        equal(families["mps_server_store_limit_bytes"].value(**labels), 256 * MIB)
        for holder in one, other:
            holder.end()
        wait_for("the store to be empty", lambda: stats(service)["servers"][0]["store"] == 0)


def test_answers_meanwhile():
    """While memory is away, calls that cannot use it are answered, and leave it away."""
    with mps.Service(CARD) as service:
        one = Holder(service, "plain", 44)
        other = Holder(service, "plain", 44)
        n = settled(service)
        assert n > 0
        equal(one.ask("other"), "made")
        equal(one.ask("free").split()[1], "64")
        equal(settled(service), n)
        equal(one.ask("work"), "worked")
        other.end()
        one.end()


def test_as_if_alone():
    """cuMemGetInfo tells each what it could have if the other were not there."""
    with mps.Service(CARD) as service:
        one = Holder(service, "plain", 20)
        alone = int(one.ask("free").split()[0])
        other = Holder(service, "plain", 40)
        for _ in range(2):
            assert abs(int(one.ask("free").split()[0]) - alone) <= 4, (one.ask("free"), alone)
            assert abs(int(other.ask("free").split()[0]) - (alone - 20)) <= 4, other.ask("free")
            equal(one.ask("work"), "worked")
        one.end()
        other.end()


def test_killed_while_away():
    """A client that is killed while its memory is away leaves nothing in the store."""
    with mps.Service(dict(CARD, MPS_OVERSUBSCRIBE_HOST="64")) as service:
        stays = Holder(service, "plain", 20)
        for _ in range(3):
            one = Holder(service, "plain", 40)
            other = Holder(service, "plain", 40)
            one.process.kill()
            service.finish(one.process)
            service.started.remove(one.process)
            equal(stays.ask("work"), "worked")
            other.end()
        wait_for("the clients' ends", lambda: len(service.clients()) == 1)
        stays.end()


def test_fault_while_away():
    """After a fault, clients whose memory is away, or was before, go on in the next server."""
    with mps.Service(CARD) as service:
        one = Holder(service, "plain", 44)
        other = Holder(service, "plain", 44)
        assert evictions(service) > 0
        # Until its worker has seen that its streams rest, a client has work.
        time.sleep(mps.SLOW)
        service.run("fault")
        equal(one.ask("work"), "worked")
        equal(other.ask("work"), "worked")
        service.run_ok("process1")


def test_section_of_a_group():
    """The section of the group decides which clients take part."""
    text = "[default]\noversubscribe = no\n[group small]\noversubscribe = yes\n"
    with Service(text, {"SOFTGPU_MEMORY_MIB": "64"}) as service:
        one = Holder(service, "plain", 44, MPS_GROUP="small")
        code, out, _ = service.run("oversize", "plain", "44", "4096")
        equal(code, 1)
        contains(out, "CUDA_ERROR_OUT_OF_MEMORY")
        other = Holder(service, "plain", 44, MPS_GROUP="small")
        equal(one.ask("work"), "worked")
        one.end()
        other.end()


if __name__ == "__main__":
    harness.main(globals())
