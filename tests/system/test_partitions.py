#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""A daemon with -S: static partitions of SMs, and the clients that name them."""

import os
import re
import sys

import harness
import mps
from harness import contains, equal, need_root, wait_for

SMS, CHUNK = 132, 8
CHUNKS = SMS // CHUNK
NEEDS_ONE = "915"
WAYS = ("plain", "stream", "burst", "graph", "captured", "cooperative")


def service():
    return mps.Service({"SOFTGPU_SMS": str(SMS)}, options=["-S"])


def ask(shared, *words):
    return shared.command(*words).stdout


def add(shared, chunks):
    """The name of a new partition."""
    said = re.fullmatch(r"Partition (GPU-[0-9a-f-]+/[A-Za-z0-9+/]+) created\n",
                        ask(shared, "sm_partition", "add", "0", str(chunks)))
    return said.group(1)


def rows(shared):
    """The output of lspart, without the two lines of its head."""
    lines = ask(shared, "lspart").splitlines()
    equal(lines[0].split(), ["GPU", "Partition", "free", "used", "free", "used", "clients"])
    equal(lines[1].split(), ["chunk(s)", "chunk(s)", "SM", "SM"])
    return [line.split() for line in lines[2:]]


def sms_of(text):
    """{way: SMs} in the output of smids."""
    found = {}
    for way, ranges in re.findall(r"^(\w+): ([\d,-]+)$", text, re.M):
        sms = set()
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            sms |= set(range(int(first), int(last or first) + 1))
        found[way] = sms
    return found


def test_kernels_stay_within():
    """Each client on the SMs of its partition, in every way of launching; all are disjoint."""
    with service() as shared:
        names = [add(shared, chunks) for chunks in (2, 5, 1)]
        is_over = os.path.join(shared.folder, "over")
        clients = [shared.popen("smids", "--wait", is_over, env={"CUDA_MPS_SM_PARTITION": name})
                   for name in names]
        for client in clients:
            equal(client.stdout.readline(), "ready\n")
        with open(is_over, "w", encoding="utf-8"):
            pass
        said = []
        for client in clients:
            text = ""
            while "done" not in text:
                text += client.stdout.readline()
            said.append(sms_of(text))
        os.unlink(is_over)
        for client in clients:
            equal(shared.finish(client)[0], 0)
        for found, chunks in zip(said, (2, 5, 1)):
            equal(set(found), set(WAYS))
            for way in WAYS:
                equal(len(found[way]), chunks * CHUNK, way)
                equal(found[way], found["plain"], way)
        together = set().union(*(found["plain"] for found in said))
        equal(len(together), 8 * CHUNK, "no SM is in two partitions")
        shared.wait_for_log("its SM partition on device 0 has 40 of 132 SMs")


def test_percentage_has_no_effect():
    with service() as shared:
        name = add(shared, 3)
        shared.run_ok("smids", "--sms", "24", env={"CUDA_MPS_SM_PARTITION": name,
                                                   "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "6.25"})
        # Nor for contexts.
        shared.run_ok("smids", "--sms", "24", env={
            "CUDA_MPS_SM_PARTITION": name, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "6.25",
            "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING": "1"})


def test_without_a_partition():
    with service() as shared:
        name = add(shared, 1)
        uuid = name.partition("/")[0]
        for value in (None, "", "nonsense", uuid, uuid + "/AAAA", "GPU-ffffffff/" + name.partition("/")[2]):
            code, out, err = shared.run("driver", env={"CUDA_MPS_SM_PARTITION": value})
            assert code, out
            contains(out, NEEDS_ONE)
            contains(err, "CUDA_MPS_SM_PARTITION does not name one of them")
        shared.run_ok("driver", env={"CUDA_MPS_SM_PARTITION": name})


def test_table():
    with service() as shared:
        gpu = rows(shared)[0][0]
        assert re.fullmatch(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", gpu), gpu
        equal(rows(shared), [[gpu, "-", str(CHUNKS), "0", str(SMS), "0", "-"]])
        names = [add(shared, chunks).partition("/")[2] for chunks in (10, 2)]
        equal(rows(shared), [[gpu, "-", "4", "12", "36", "96", "-"],
                             [gpu, names[0], "-", "10", "-", "80", "No"],
                             [gpu, names[1], "-", "2", "-", "16", "No"]])


def test_limits_of_the_gpu():
    with service() as shared:
        equal(ask(shared, "sm_partition", "add", "0", "17"),
              "Failed to fulfill the requested SM partition of 17 chunks, error "
              "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION\n")
        for nonsense in ("0", "-1", "x", "65"):
            contains(ask(shared, "sm_partition", "add", "0", nonsense), "is not a number of chunks")
        contains(ask(shared, "sm_partition", "add", "7", "1"), "7")
        contains(ask(shared, "sm_partition", "make", "0", "1"), "Usage: sm_partition add")
        add(shared, CHUNKS)
        contains(ask(shared, "sm_partition", "add", "0", "1"), "Failed to fulfill")


def test_removal():
    """Not while a client uses it; then its chunks are free."""
    with service() as shared:
        name = add(shared, 16)
        uuid, _, which = name.partition("/")
        client = shared.popen("patient", env={"CUDA_MPS_SM_PARTITION": name})
        wait_for("the client", lambda: rows(shared)[1][6] == "Yes")
        equal(ask(shared, "sm_partition", "rm", uuid, which),
              "Partition %s in use. Terminate all clients before removing.\n" % name)
        client.kill()
        client.wait()
        wait_for("its end", lambda: rows(shared)[1][6] == "No")
        equal(ask(shared, "sm_partition", "rm", uuid, which), "Partition %s removed\n" % name)
        equal(ask(shared, "sm_partition", "rm", uuid, which), "Partition %s not found\n" % name)
        equal(len(rows(shared)), 1)
        add(shared, 16)


def test_permissions():
    need_root()
    with service() as shared:
        name = add(shared, 4)
        stranger = {"user": 12345, "group": 12345, "extra_groups": []}
        done = shared.run(shared.control, "sm_partition", "add", "0", "1", preload=False, **stranger)
        contains(done[1], "Operation not permitted")
        contains(shared.run(shared.control, "lspart", preload=False, **stranger)[1],
                 name.partition("/")[2])
        shared.run_ok("driver", env={"CUDA_MPS_SM_PARTITION": name}, **stranger)


def test_next_daemon():
    """A daemon that adopts a client on a partition gives its SMs to no other client."""
    with service() as shared:
        name = add(shared, 2)
        is_over = os.path.join(shared.folder, "over")
        client = shared.popen("smids", "--wait", is_over, env={"CUDA_MPS_SM_PARTITION": name})
        equal(client.stdout.readline(), "ready\n")
        shared.restart_killed()
        equal([row[1] for row in rows(shared)[1:]], [name.partition("/")[2]])
        second = add(shared, 2)
        assert second != name
        shared.run_ok("smids", "--sms", "16", env={"CUDA_MPS_SM_PARTITION": second})
        equal(client.poll(), None)
        uuid, _, which = name.partition("/")
        contains(ask(shared, "sm_partition", "rm", uuid, which), "in use")
        client.kill()
        client.wait()
        wait_for("its end", lambda: rows(shared)[1][6] == "No")
        contains(ask(shared, "sm_partition", "rm", uuid, which), "removed")
        shared.command("quit")
        shared.start()
        equal(len(rows(shared)), 1, "they end with the daemon")


def named(shared, name, *options):
    """What a new partition of the server `pool' is called in CUDA_MPS_SM_PARTITION."""
    said = ask(shared, "sm-partition", "create", name, "--server=pool", "--device=0", *options)
    found = re.fullmatch(r"SM partition '%s' created on device (GPU-[0-9a-f-]+) \(sm-count=\d+\)\n"
                         r"CUDA_MPS_SM_PARTITION=(\1/[A-Za-z0-9+/]+)\n" % name, said)
    return found.group(2)


def inside(shared, *names, partition=None):
    return {"CUDA_MPS_PIPE_DIRECTORY": "/".join((shared.pipe, "pool", *names)),
            "CUDA_MPS_SM_PARTITION": partition}


def test_of_servers():
    """Without -S: of a server, by name; a namespace that is bound to one has it, and no other namespace."""
    with mps.Service({"SOFTGPU_SMS": str(SMS)}) as shared:
        shared.command("server", "create", "pool")
        for space in "small", "large":
            shared.command("namespace", "create", space, "--server=pool")
        two, three = named(shared, "two", "--chunks=2"), named(shared, "three", "--chunks=3")
        named(shared, "rest", "--chunks=1", "--include-remainder=true", "--max-chunks=4")
        for name, space in ("two", "small"), ("rest", "large"):
            shared.command("sm-partition", "bind", name, "--server=pool", "--device=0", "--namespace=" + space)
        listed = ask(shared, "sm-partition", "list", "--long", "--format=csv,noheader")
        contains(listed, "pool/small")

        shared.restart_killed()
        equal(ask(shared, "sm-partition", "list", "--long", "--format=csv,noheader"), listed)
        # By the namespace, whatever the client names; elastic, with the 4 SMs in no chunk; by name.
        shared.run_ok("smids", "--sms", "16", env=inside(shared, "small"))
        shared.run_ok("smids", "--sms", "16", env=inside(shared, "small", partition=three))
        shared.run_ok("smids", "--sms", "36", env=inside(shared, "large"))
        shared.run_ok("smids", "--sms", "24", env=inside(shared, partition=three))
        for env in inside(shared), inside(shared, partition=two), inside(shared, "default", partition=two):
            code, out, err = shared.run("driver", env=env)
            assert code, out
            contains(out, NEEDS_ONE)
            contains(err, "CUDA_MPS_SM_PARTITION does not name one of them")
        # The user's own server is not divided.
        shared.run_ok("smids", "--sms", str(SMS))


def test_daemon_without():
    with mps.Service() as shared:
        equal(ask(shared, "lspart"), 'Unknown command "lspart"\n')
        equal(ask(shared, "sm_partition", "add", "0", "2"), 'Unknown command "sm_partition"\n')
        shared.run_ok("driver", env={"CUDA_MPS_SM_PARTITION": "GPU-0/AA"})


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
