#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Limits from the operator's commands to the kernels and allocations of clients."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import harness
import mps
import wire
from harness import contains, equal, need_root, wait_for
from test_active_threads import SMS, Together, share
from test_memory_limits import MIB, OUT_OF_MEMORY, SETTINGS, numbers

GUESTS = (7001, 7002)
MEMORY = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PRIORITY = "CUDA_MPS_CLIENT_PRIORITY"
# Ways of allocating that the server counts in different places.
ALLOCATIONS = (("plain", 100), ("async", 3 * MIB), ("create", 2 * MIB), ("array", 512),
               ("graph", 300), ("managed", 4 * MIB), ("variable", 1024))


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def said(service, *words):
    return service.command(*map(str, words)).stdout


def row_of(service, process):
    """What ps shows for a client, once its server has reported it to the daemon."""
    row, = wait_for("its row in ps", lambda: [
        row for row in json.loads(said(service, "ps", "--json"))["clients"]
        if row["pid"] == process.pid])
    return row


def told(service, process):
    """(SMs, memory in bytes, priority, group) of a client, equal in both forms of ps."""
    row, words = row_of(service, process), None
    # A limit may change between the two commands.
    while words is None or row_of(service, process) != row:
        row = row_of(service, process)
        words, = [line.split() for line in said(service, "ps", "-l").splitlines()[1:]
                  if line.split()[0] == str(process.pid)]
    found = (row["sms"], row["memory_limit"], row["priority"], row["group"])
    size = found[1] and ("%dM" % (found[1] >> 20) if found[1] % (1 << 30) else "%dG" % (found[1] >> 30))
    equal(words[5:9], [str(found[0]), size or "-", str(found[2]), found[3] or "-"])
    return found


def logged(service, process, text):
    """Waits until server.log has this about the client."""
    line = r"Client \{PID: %d, Context ID: \d+\}%s" % (process.pid, re.escape(text))
    wait_for(line, lambda: re.search(line, service.server_log()))


def check_percentage(service, process, percentage, n_sms):
    equal(told(service, process)[0], n_sms)
    logged(service, process, ": Active Threads Percentage set to %s on device 0: %d of %d SMs"
           % (percentage, n_sms, SMS))


class Holder:
    """A client that allocates a piece of memory at its start, and another one on each request."""

    def __init__(self, service, mib, **more):
        self.process = service.popen("limited_memory", "hold", str(mib * MIB),
                                     stdin=subprocess.PIPE, **more)
        contains(self.process.stdout.readline(), "at first: ")
        self.first = self.read()

    def read(self):
        """(result, free, total of cuMemGetInfo, of cuDeviceTotalMem) in MiB."""
        result = numbers(self.process.stdout.readline(), "hold")[0]
        memory = numbers(self.process.stdout.readline(), "hold")[0]
        return result + tuple(kib // MIB for kib in memory)

    def more(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read()


def allocates(service, limit_mib, ways=ALLOCATIONS, whose="(the group of )?this program", **more):
    """Clients, one after the other, get at most the limit in every way, and see whose limit it is."""
    for way, kib in ways:
        # Its group has the memory of the previous client again.
        wait_for("the end of clients", lambda: not any(map(service.clients, service.servers())))
        code, out, err = service.run("limited_memory", way, str(kib), **more)
        equal(code, 0, out + err)
        for got, result in numbers(out, way):
            equal(result, OUT_OF_MEMORY, out)
            assert limit_mib * 4 // 5 * MIB <= got <= limit_mib * MIB, out
        equal(len(re.findall(r"warn: %s has reached its limit of a GPU's memory \(%d MiB\): free memory"
                             % (whose, limit_mib), err)), 1, err)
        for free, total, device in numbers(out, "at first") + numbers(out, "in the end"):
            equal((free, total, device), (limit_mib * MIB,) * 3, out)


# ---- the share of SMs

def test_default_percentage():
    """Four clients of 25 % have separate SMs, in every way of launching."""
    with mps.Service() as service:
        equal(said(service, "set_default_active_thread_percentage", 25), "25.0\n")
        clients = Together(service, [{}] * 4)
        for client in clients.clients:
            check_percentage(service, client, "25.0", 32)
        found = clients.run()
        equal([len(sms) for sms in found], [32] * 4)
        equal(len(set.union(*found)), 128)
        service.wait_for_log("Active Threads Percentage set to 25.0\n")
        service.run_ok("sm_share", "--sms", "32")


def test_default_is_for_later_servers():
    with mps.Service() as service:
        first = Together(service, [{}])
        said(service, "set_default_active_thread_percentage", 25)
        first.add()
        equal([told(service, client)[0] for client in first.clients], [SMS] * 2)
        equal(first.run(), [set(range(SMS))] * 2)
        server = service.server()
        said(service, "shutdown_server", server)
        wait_for("its end", lambda: server not in service.servers())
        equal([len(sms) for sms in Together(service, [{}]).run()], [32])


def test_percentage_of_a_server():
    """It is for new clients, and may exceed the default."""
    with mps.Service({"SOFTGPU_SMS": str(SMS)}) as service:
        said(service, "set_default_active_thread_percentage", "12.5")
        clients = Together(service, [{}])
        server = service.server()
        equal(said(service, "set_active_thread_percentage", server, 50), "50.0\n")
        clients.add()
        equal(said(service, "set_active_thread_percentage", server, "33.333"), "33.3\n")
        clients.add()
        for client, percentage, n_sms in zip(clients.clients, ("12.5", "50.0", "33.3"), (16, 64, 40)):
            check_percentage(service, client, percentage, n_sms)
        found = clients.run()
        equal([len(sms) for sms in found], [16, 64, 40])
        equal(len(set.union(*found)), 120)
        equal(said(service, "get_default_active_thread_percentage"), "12.5\n")
        equal(said(service, "set_active_thread_percentage", server, 100), "100.0\n")
        equal(Together(service, [{}]).run(), [set(range(SMS))])


def test_environment_lowers():
    """A client's own variables can only lower the operator's limits."""
    with mps.Service(SETTINGS) as service:
        said(service, "set_default_active_thread_percentage", 50)
        said(service, "set_default_device_pinned_mem_limit", 0, "64M")
        clients = Together(service, [share(12.5), share(75), {MEMORY: "0=32M"}, {MEMORY: "0=512M"}])
        equal([told(service, client) for client in clients.clients],
              [(16, 64 << 20, 0, None), (64, 64 << 20, 0, None),
               (64, 32 << 20, 0, None), (64, 64 << 20, 0, None)])
        equal([len(sms) for sms in clients.run()], [16, 64, 64, 64])
        allocates(service, 32, env={MEMORY: "0=32M"})
        allocates(service, 64, env={MEMORY: "0=512M"}, ways=ALLOCATIONS[:2])


# ---- memory

def test_default_memory():
    """64 MiB hold in each way of allocating, and are reported."""
    with mps.Service(SETTINGS) as service:
        equal(said(service, "set_default_device_pinned_mem_limit", 0, "64M"), "")
        equal(said(service, "get_default_device_pinned_mem_limit", 0), "64M\n")
        allocates(service, 64)
        holder = Holder(service, 40)
        equal(holder.first, (0, 24, 64, 64))
        equal(holder.more(), (OUT_OF_MEMORY, 24, 64, 64))
        equal(told(service, holder.process)[1], 64 << 20)
        logged(service, holder.process, " on device 0: memory limit 64M, priority 0")
        service.wait_for_log("Device pinned memory limit for device 0 set to 0x4000000 bytes\n")


def test_memory_of_a_server():
    """It is for new clients; existing clients keep theirs."""
    with mps.Service(SETTINGS) as service:
        said(service, "set_default_device_pinned_mem_limit", 0, "64M")
        old = Holder(service, 40)
        server = service.server()
        equal(said(service, "set_device_pinned_mem_limit", server, 0, "96M"), "")
        new = Holder(service, 40)
        equal(new.first, (0, 56, 96, 96))
        equal((new.more()[0], new.more()[0]), (0, OUT_OF_MEMORY))
        equal(old.more(), (OUT_OF_MEMORY, 24, 64, 64))
        equal([told(service, each.process)[1] for each in (old, new)], [64 << 20, 96 << 20])
        said(service, "set_device_pinned_mem_limit", server, 0, "32M")
        equal(Holder(service, 40).first, (OUT_OF_MEMORY, 32, 32, 32))
        equal(said(service, "set_device_pinned_mem_limit", server, 0, "none"), "")
        assert Holder(service, 400).first[2] == 1024


# ---- groups

def test_group_shares_sms():
    """Its clients have the same SMs, and other clients have others."""
    with mps.Service() as service:
        said(service, "group", "create", "g", "-active_thread_percentage", 50)
        said(service, "set_active_thread_percentage", "-group", "g", 25)
        member = {"MPS_GROUP": "g"}
        clients = Together(service, [member, member, dict(member, **share(12.5)), share(75)])
        equal([told(service, client) for client in clients.clients],
              [(32, None, 0, "g"), (32, None, 0, "g"), (16, None, 0, "g"), (96, None, 0, None)])
        first, second, part, other = clients.run()
        equal((len(first), second), (32, first))
        assert len(part) == 16 and part < first and not other & first, (first, part, other)


def test_group_and_server():
    """The lower one holds."""
    with mps.Service(SETTINGS) as service:
        said(service, "set_default_active_thread_percentage", 25)
        said(service, "set_default_device_pinned_mem_limit", 0, "48M")
        said(service, "set_default_client_priority", 1)
        said(service, "group", "create", "large", "-active_thread_percentage", 50,
             "-device_pinned_mem_limit", 0, "64M")
        said(service, "group", "create", "small", "-active_thread_percentage", "12.5",
             "-device_pinned_mem_limit", 0, "32M", "-priority", 2)
        clients = Together(service, [{"MPS_GROUP": "large"}, {"MPS_GROUP": "small"}])
        equal([told(service, client) for client in clients.clients],
              [(32, 48 << 20, 1, "large"), (16, 32 << 20, 2, "small")])
        equal([len(sms) for sms in clients.run()], [32, 16])
        allocates(service, 32, whose="the group of this program", env={"MPS_GROUP": "small"})
        allocates(service, 48, env={"MPS_GROUP": "large"}, ways=ALLOCATIONS[:2])


def test_group_shares_memory():
    """Its clients share the limit; group set changes it for existing clients."""
    with mps.Service(SETTINGS) as service:
        said(service, "group", "create", "g", "-device_pinned_mem_limit", 0, "64M")
        member = {"MPS_GROUP": "g"}
        first = Holder(service, 40, env=member)
        second = Holder(service, 20, env=member)
        other = Holder(service, 100)
        equal((first.first, second.first, other.first[0]), ((0, 24, 64, 64), (0, 4, 64, 64), 0))
        equal((first.more()[0], second.more()[0]), (OUT_OF_MEMORY,) * 2)

        equal(said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "128M"), "")
        tells(service, first, 128)
        equal(first.more(), (0, 28, 128, 128))
        equal(second.more(), (0, 8, 128, 128))
        equal(second.more()[0], OUT_OF_MEMORY)

        # They keep their memory; the lower limit is for new allocations.
        equal(said(service, "set_device_pinned_mem_limit", "-group", "g", 0, "96M"), "")
        tells(service, second, 96)
        equal(second.more(), (OUT_OF_MEMORY, 0, 96, 96))
        equal(said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "none"), "")
        tells(service, first, None)
        equal((first.more()[0], first.more()[2:]), (0, (1024, 1024)))
        equal(other.more()[0], 0)


def test_group_after_a_crash():
    """A daemon that adopts a client in a group still counts what the client has."""
    with mps.Service(SETTINGS) as service:
        said(service, "group", "create", "g", "-device_pinned_mem_limit", 0, "64M")
        said(service, "set_active_thread_percentage", "-group", "g", 25)
        said(service, "set_default_client_priority", 1)
        member = {"MPS_GROUP": "g"}
        first = Holder(service, 40, env=member)
        server = service.server()
        said(service, "set_active_thread_percentage", server, 50)
        service.restart_killed()
        equal(said(service, "get_active_thread_percentage", server), "50.0\n")
        equal(said(service, "get_active_thread_percentage", "-group", "g"), "25.0\n")
        equal(said(service, "get_device_pinned_mem_limit", "-group", "g", 0), "64M\n")
        equal(said(service, "get_default_client_priority"), "1\n")
        second = Holder(service, 20, env=member)
        equal(second.first, (0, 4, 64, 64))
        equal((first.more()[0], second.more()[0]), (OUT_OF_MEMORY,) * 2)


def tells(service, holder, mib):
    """ps shows the new limit as soon as the server has applied it."""
    wait_for("the limit in ps", lambda: told(service, holder.process)[1] == (mib and mib << 20))


def test_groups_raise_nothing():
    """A group's larger limit raises neither the server's limit nor the client's own."""
    with mps.Service(SETTINGS) as service:
        said(service, "group", "create", "g", "-device_pinned_mem_limit", 0, "32M")
        said(service, "set_default_device_pinned_mem_limit", 0, "64M")
        members = [Holder(service, 10, env=dict(env, MPS_GROUP="g")) for env in ({}, {MEMORY: "0=48M"})]
        said(service, "group", "set", "g", "-device_pinned_mem_limit", 0, "512M")
        for member, mib in zip(members, (64, 48)):
            tells(service, member, mib)
            equal(member.more()[2:], (mib, mib))


def test_group_ends():
    """It is deleted when its clients have left; its name is then unknown."""
    with mps.Service() as service:
        said(service, "group", "create", "g", "-active_thread_percentage", 25)
        clients = Together(service, [{"MPS_GROUP": "g"}])
        equal(said(service, "group", "delete", "g"), "Group g has 1 clients: end them first\n")
        equal([len(sms) for sms in clients.run()], [32])
        wait_for("its end", lambda: said(service, "group", "delete", "g") == "")
        code, _, err = service.run("process1", env={"MPS_GROUP": "g"})
        equal(code, 1)
        contains(err, 'Group "g" (MPS_GROUP) does not exist: the operator creates it with "mps-control group '
                      'create g"')
        # A new group with that name is a different one.
        said(service, "group", "create", "g", "-active_thread_percentage", 50)
        equal([len(sms) for sms in Together(service, [{"MPS_GROUP": "g"}]).run()], [64])


def test_group_of_another_user():
    need_root()
    with mps.Service() as service:
        said(service, "group", "create", "g", "-uid", GUESTS[0], "-priority", 1)
        clients = Together(service, [])
        client = clients.add({"MPS_GROUP": "g"}, **user(GUESTS[0]))
        equal(told(service, client), (SMS, None, 1, "g"))
        clients.run()
        for stranger in (user(GUESTS[1]), {}):
            code, _, err = service.run("smids", env={"MPS_GROUP": "g"}, **stranger)
            equal(code, 1, err)
            contains(err, 'The group "g" (MPS_GROUP) is for UID %d' % GUESTS[0])


@contextlib.contextmanager
def made_cgroup(name):
    """A folder of cgroups of version 2, by its path and by the report of the processes in it."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = re.search(r"^0::(/.*)$", file.read(), re.M)
    if not mounts or not own:
        raise harness.Skip("cgroups of version 2 are not mounted")
    path = os.path.join(mounts[0], own[1].strip("/"), name)
    try:
        os.mkdir(path)
    except OSError as why:
        raise harness.Skip("no cgroup can be made: %s" % why) from None
    try:
        yield path, os.path.join(own[1], name)
    finally:
        wait_for("the end of its processes", lambda: not processes_in(path))
        os.rmdir(path)


def processes_in(cgroup):
    with open(os.path.join(cgroup, "cgroup.procs"), encoding="utf-8") as file:
        return file.read().split()


def test_group_of_a_cgroup():
    """Clients of a cgroup have its group's limits; other clients have none."""
    with made_cgroup("mps-test-%d" % os.getpid()) as (path, name):
        def enter():
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write("0\n")

        service = mps.Service(SETTINGS)
        service.daemon_env["MPS_GROUP_BY_CGROUP"] = "1"
        with service:
            equal(said(service, "group", "create", name, "-active_thread_percentage", 25,
                       "-device_pinned_mem_limit", 0, "64M", "-priority", 2), "")
            said(service, "group", "create", "free")
            clients = Together(service, [])
            clients.add(preexec_fn=enter)
            clients.add({"MPS_GROUP": "free"}, preexec_fn=enter)
            clients.add()
            shown = [told(service, client) for client in clients.clients]
            equal(shown, [(32, 64 << 20, 2, name)] * 2 + [(SMS, None, 0, None)])
            first, second, _ = clients.run()
            equal((len(first), second), (32, first))
            allocates(service, 64, ways=ALLOCATIONS[:2], preexec_fn=enter)


def test_group_of_another_cgroup():
    """The kernel says who is in a cgroup, not the client."""
    service = mps.Service(SETTINGS)
    service.daemon_env["MPS_GROUP_BY_CGROUP"] = "1"
    with service:
        said(service, "group", "create", "/job", "-device_pinned_mem_limit", 0, "64M")
        code, _, err = service.run("smids", env={"MPS_GROUP": "/job"})
        equal(code, 1, err)
        contains(err, "MPS_GROUP=/job names a cgroup")


def take_pid(pid):
    """A process that has this PID: the PID is free, and root chooses the next one."""
    for _ in range(200):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(pid - 1))
        child = os.fork()
        if child == 0:
            if os.getpid() == pid:
                time.sleep(600)
            os._exit(0)
        if child == pid:
            return
        os.waitpid(child, 0)
    raise harness.Skip("the PID was not to be had")


def test_group_of_another_process():
    """The process that connected has ended, and another one has its PID: it is not the client."""
    harness.need_root()
    service = mps.Service(SETTINGS)
    service.daemon_env["MPS_GROUP_BY_CGROUP"] = "1"
    with service:
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(service.pipe + "/control")
            socket.send_fds(theirs, [b"x"], [sock.fileno()])
            os._exit(0)
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(child, 0)
        try:
            take_pid(child)
        except OSError as why:
            raise harness.Skip("no PID can be chosen: %s" % why) from None
        try:
            with contextlib.closing(socket.socket(fileno=fds[0])) as sock:
                sock.sendall(wire.hello())
                service.wait_for_log("Cannot determine the cgroup of process %d (No such process)" % child,
                                     "control")
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# ---- the daemon's environment, priorities

def test_daemon_environment():
    """It is the default that commands then change."""
    service = mps.Service(SETTINGS)
    service.daemon_env.update({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "12.5", MEMORY: "0=64M",
                               PRIORITY: "1"})
    with service:
        # It has not reached the clients directly: their environment is different.
        clients = Together(service, [{}, {}])
        equal([told(service, client) for client in clients.clients], [(16, 64 << 20, 1, None)] * 2)
        found = clients.run()
        equal((len(found[0]), len(found[0] | found[1])), (16, 32))
        allocates(service, 64, ways=ALLOCATIONS[:2])
        server = service.server()
        said(service, "set_active_thread_percentage", server, 25)
        said(service, "set_device_pinned_mem_limit", server, 0, "128M")
        said(service, "set_client_priority", server, 0)
        clients = Together(service, [{}])
        equal(told(service, clients.clients[0]), (32, 128 << 20, 0, None))
        clients.run()


def test_priorities():
    """The client's own value wins, except background; with a group, the lower one holds."""
    with mps.Service() as service:
        clients = Together(service, [])

        def priority(**env):
            # One in the background leaves some SMs to the others.
            client = clients.add(env, "--fewer")
            found = told(service, client)[2]
            if found:
                logged(service, client, " on device 0: memory limit all, priority %d" % found)
            return found

        equal((priority(), priority(**{PRIORITY: "1"})), (0, 1))
        equal(said(service, "set_default_client_priority", 1), "")
        equal((priority(), priority(**{PRIORITY: "0"}), priority(**{PRIORITY: "2"})), (1, 0, 2))
        said(service, "group", "create", "g", "-priority", 1)
        equal((priority(MPS_GROUP="g", **{PRIORITY: "0"}), priority(MPS_GROUP="g", **{PRIORITY: "2"})),
              (1, 2))
        server = service.server()
        said(service, "set_client_priority", server, 2)
        equal((priority(), priority(**{PRIORITY: "0"})), (2, 2))
        said(service, "set_client_priority", server, 0)
        equal((priority(), priority(MPS_GROUP="g")), (0, 1))
        said(service, "set_client_priority", "-group", "g", 2)
        equal(priority(MPS_GROUP="g", **{PRIORITY: "0"}), 2)
        clients.ways()


# ---- several users

def check_users(service):
    """Two users with separate limits at the same time: their own groups."""
    for uid, percentage, mib in zip(GUESTS, (25, 50), (64, 96)):
        equal(said(service, "group", "create", "of%d" % uid, "-uid", uid,
                   "-active_thread_percentage", percentage, "-device_pinned_mem_limit", 0,
                   "%dM" % mib), "")
    clients = Together(service, [])
    for uid in GUESTS:
        clients.add({"MPS_GROUP": "of%d" % uid}, **user(uid))
    equal([told(service, client) for client in clients.clients],
          [(32, 64 << 20, 0, "of7001"), (64, 96 << 20, 0, "of7002")])
    found = clients.run()
    equal([len(sms) for sms in found], [32, 64])
    for uid, mib in zip(GUESTS, (64, 96)):
        allocates(service, mib, ways=ALLOCATIONS[:2], env={"MPS_GROUP": "of%d" % uid}, **user(uid))
    return found


def test_users_at_once():
    """Each has a server, whose settings do not affect the other's."""
    need_root()
    with mps.Service(SETTINGS) as service:
        said(service, "set_default_active_thread_percentage", 50)
        said(service, "set_default_device_pinned_mem_limit", 0, "64M")
        clients = Together(service, [])
        first, second = (clients.add(**user(uid)) for uid in GUESTS)
        equal([told(service, client)[:2] for client in (first, second)], [(64, 64 << 20)] * 2)
        servers = [row_of(service, client)["server"] for client in (first, second)]
        assert servers[0] != servers[1]
        said(service, "set_active_thread_percentage", servers[1], 25)
        said(service, "set_device_pinned_mem_limit", servers[1], 0, "96M")
        for uid in GUESTS:
            clients.add(**user(uid))
        equal([told(service, client)[:2] for client in clients.clients],
              [(64, 64 << 20)] * 3 + [(32, 96 << 20)])
        equal([len(sms) for sms in clients.run()], [64, 64, 64, 32])
        for uid, mib in zip(GUESTS, (64, 96)):
            allocates(service, mib, ways=ALLOCATIONS[:2], **user(uid))
        said(service, "set_active_thread_percentage", servers[1], 100)
        check_users_of_servers(service)


def check_users_of_servers(service):
    """A group's limit above the server's does not raise it."""
    said(service, "group", "create", "all", "-active_thread_percentage", 75)
    clients = Together(service, [])
    for uid in GUESTS:
        clients.add({"MPS_GROUP": "all"}, **user(uid))
    equal([told(service, client)[0] for client in clients.clients], [64, 96])
    clients.run()


def test_users_of_groups():
    need_root()
    with mps.Service(SETTINGS) as service:
        check_users(service)
        equal(len(service.servers()), 2)


def test_users_of_one_server():
    """With -M, their SMs differ, too."""
    need_root()
    service = mps.Service(SETTINGS, options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        first, second = check_users(service)
        equal(len(service.servers()), 1)
        assert not first & second, (first, second)


def test_users_in_turns():
    """A server that gets a GPU in EXCLUSIVE_PROCESS has the defaults, not older settings."""
    need_root()
    with mps.Service(dict(SETTINGS, SOFTGPU_COMPUTE_MODE="exclusive")) as service:
        said(service, "set_default_active_thread_percentage", 50)
        said(service, "set_default_device_pinned_mem_limit", 0, "64M")
        clients = Together(service, [])
        first = clients.add(**user(GUESTS[0]))
        said(service, "set_active_thread_percentage", row_of(service, first)["server"], 25)
        second = Together(service, [])
        waiting = service.popen("smids", "--wait", second.go, **user(GUESTS[1]))
        service.wait_for_log("from user %d: Server is not ready, push client to pending list"
                             % GUESTS[1], "control")
        equal(len(service.servers()), 1)
        equal([len(sms) for sms in clients.run()], [64])
        second.clients.append(waiting)
        equal(waiting.stdout.readline(), "ready\n")
        equal(told(service, waiting)[:2], (64, 64 << 20))
        equal([len(sms) for sms in second.run()], [64])


if __name__ == "__main__":
    harness.main(globals())
