#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""restart_server: the clients move to another process, and notice only a pause."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import card
import harness
import mps
import oversubscribed
from harness import SLOW, contains, equal, wait_for

CARD_MIB = 256

# Its first work on a GPU comes when it reads a line.
LATE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, words, word = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint32()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
print("initialized", flush=True)
input()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(64))
call("cuMemsetD32_v2", words, 7, ctypes.c_size_t(16))
call("cuMemcpyDtoH_v2", ctypes.byref(word), words, ctypes.c_size_t(4))
print("ok" if word.value == 7 else word.value)
"""

# Has memory that stays in its server.
COMPRESSED = """
import ctypes, struct
cuda = ctypes.CDLL("libcuda.so.1")
context, handle = ctypes.c_void_p(), ctypes.c_uint64()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
prop = struct.pack("iiiiQBBHI", 1, 0, 1, 0, 0, 1, 0, 0, 0)
call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(2 << 20), prop, ctypes.c_uint64(0))
print("ready", flush=True)
input()
call("cuMemRelease", handle)
call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(2 << 20), prop, ctypes.c_uint64(0))
"""

# Makes a texture for each line that it reads, and writes the texture's value.
TEXTURES = """
import ctypes, struct
cuda = ctypes.CDLL("libcuda.so.1")
context, words, value = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(64))
linear, floats = 2, 0x20
resource = struct.pack("=QQIIQ", linear, words.value, floats, 1, 64).ljust(144, bytes(1))
while True:
    call("cuTexObjectCreate", ctypes.byref(value), resource, bytes(104), None)
    print(value.value, flush=True)
    input()
"""


# Memory and an event that two processes share: each line says what to do with them.
SHARER = """
import ctypes, struct
cuda = ctypes.CDLL("libcuda.so.1")
SIZE = 300000
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
context, memory, handle = ctypes.c_void_p(), ctypes.c_uint64(), Handle()
event, stream = ctypes.c_void_p(), ctypes.c_void_p()
DISABLE_TIMING, INTERPROCESS, NON_BLOCKING, EQUAL = 2, 4, 1, 1
host = (ctypes.c_ubyte * SIZE)()
call = lambda name, *args: getattr(cuda, name)(*args)
def must(name, *args):
    assert call(name, *args) == 0, name
def do(word, argument):
    global handle
    if word == "give":
        must("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
        must("cuIpcGetMemHandle", ctypes.byref(handle), memory)
        return bytes(handle.bytes).hex()
    if word == "again":
        must("cuIpcGetMemHandle", ctypes.byref(handle), memory)
        return bytes(handle.bytes).hex()
    if word == "where":
        return hex(memory.value)
    if word == "take":
        handle = Handle.from_buffer_copy(bytes.fromhex(argument))
        return call("cuIpcOpenMemHandle_v2", ctypes.byref(memory), handle, 1)
    if word == "close":
        return call("cuIpcCloseMemHandle", memory)
    if word == "free":
        return call("cuMemFree_v2", memory)
    if word == "fill":
        return call("cuMemsetD8_v2", memory, int(argument), ctypes.c_size_t(SIZE)) or call("cuCtxSynchronize")
    if word == "signal":
        must("cuEventCreate", ctypes.byref(event), DISABLE_TIMING | INTERPROCESS)
        must("cuIpcGetEventHandle", ctypes.byref(handle), event)
        return bytes(handle.bytes).hex()
    if word == "watch":
        handle = Handle.from_buffer_copy(bytes.fromhex(argument))
        return call("cuIpcOpenEventHandle", ctypes.byref(event), handle)
    if word == "promise":
        # The event is done when the memory has that value.
        value = ctypes.c_uint32(int(argument) * 0x01010101)
        return call("cuStreamWaitValue32_v2", stream, memory, value, EQUAL) or call("cuEventRecord", event, stream)
    if word == "query":
        return call("cuEventQuery", event)
    if word == "wait":
        return call("cuEventSynchronize", event)
    if word == "array":
        floats = struct.pack("QQII", 16, 0, 0x20, 1)
        return call("cuArrayCreate_v2", ctypes.byref(ctypes.c_void_p()), floats)
    if word == "drop":
        return call("cuEventDestroy_v2", event)
    must("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(SIZE))
    return min(host) if min(host) == max(host) else "mixed"
must("cuInit", 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
must("cuCtxSetCurrent", context)
must("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
print("ready", flush=True)
while True:
    word, _, argument = input().partition(" ")
    print(do(word, argument), flush=True)
"""


class Sharer:
    """A client that does what it is told."""

    def __init__(self, service, env=None):
        self.process = service.popen(sys.executable, "-c", SHARER, env=env, stdin=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n")

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Resident:
    """A client with memory, which checks it when it is asked to."""

    def __init__(self, service):
        self.service = service
        self.rounds = 0
        self.process = service.popen("resident", "--requests", stdin=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n")

    def send(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        self.rounds += 1
        line = self.process.stdout.readline()
        if line != "round %d\n" % self.rounds:
            raise AssertionError("%r: %s" % (line, self.service.finish(self.process)))

    def ask(self):
        self.send()
        self.answer()

    def end(self):
        """Returns how long its longest call took in a round, and which one it was."""
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal(code, 0, out + err)
        contains(out, "resident: ok")
        longest = re.search("longest: ([0-9]+) us, (.*)", out)
        return int(longest.group(1)) / 1e6, longest.group(2)


def restart(service, *options):
    old = service.server()
    out = service.command("restart_server", str(old), *options).stdout
    contains(out, "Server %d has moved its" % old)
    new = int(out.split()[-1])
    wait_for("the old server to end", lambda: service.servers() == [new])
    return out


def test_memory_moves():
    """Several times, with copies between, and everything is where it was."""
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        clients = [Resident(service) for _ in range(3)]
        for _ in range(3):
            contains(restart(service), "moved its 3 clients")
            for client in clients:
                client.ask()
        for client in clients:
            client.end()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def test_evicted_memory_moves():
    """Two clients do not fit on the card together: of one, all is in the store, and moves as well."""
    with oversubscribed.service() as (service, small):
        workers = [oversubscribed.Worker(service, oversubscribed.LARGE_MIB) for _ in range(2)]
        for _ in range(2):
            for worker in workers:
                worker.ask()
            contains(restart(service), "moved its 2 clients")
        for worker in workers:
            worker.ask()
            worker.end()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def test_shared_memory():
    """It is shared as before, under the same handle, until the last client has closed it."""
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        giver, taker, other = (Sharer(service) for _ in range(3))
        handle = giver.do("give")
        equal(giver.do("fill", 1), "0")
        equal(taker.do("take", handle), "0")
        for i in range(3):
            # Without a call of theirs between, and with one.
            for _ in range(1 + i % 2):
                restart(service)
            equal(taker.do("look"), str(2 * i + 1))
            equal(taker.do("fill", 2 * i + 2), "0")
            restart(service)
            equal(giver.do("look"), str(2 * i + 2))
            equal(giver.do("fill", 2 * i + 3), "0")
        equal(giver.do("again"), handle)
        equal(other.do("take", handle), "0")
        equal((other.do("look"), giver.do("free")), ("7", "0"))
        restart(service)
        # Those that have it open keep it.
        equal((taker.do("look"), taker.do("close"), other.do("look")), ("7", "0", "7"))
        equal(other.do("close"), "0")
        for each in giver, taker, other:
            each.kill()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


NOT_READY, INVALID_HANDLE = "600", "400"


def promise(recorder, watcher, value):
    """Both see when the event is done."""
    equal((recorder.do("promise", value), watcher.do("query"), recorder.do("query")), ("0", NOT_READY, NOT_READY))
    equal((watcher.do("fill", value), watcher.do("wait"), recorder.do("wait")), ("0", "0", "0"))


def test_shared_event():
    """It is one event after each move, under the same handle, also when who made it has destroyed it."""
    with mps.Service() as service:
        giver, taker, other = (Sharer(service) for _ in range(3))
        memory = giver.do("give")
        equal((giver.do("fill", 1), taker.do("take", memory), other.do("take", memory)), ("0", "0", "0"))
        handle = giver.do("signal")
        equal(taker.do("watch", handle), "0")
        promise(giver, taker, 2)
        restart(service)
        equal((giver.do("query"), taker.do("query")), ("0", "0"))
        promise(giver, taker, 3)
        # Twice without a call of theirs between.
        restart(service)
        restart(service)
        promise(taker, giver, 4)
        restart(service)
        equal(other.do("watch", handle), "0")
        promise(other, giver, 5)
        equal(giver.do("drop"), "0")
        restart(service)
        promise(taker, other, 6)
        # One that has ended keeps nobody.
        other.kill()
        wait_for("its end", lambda: len(service.clients(service.server())) == 2)
        restart(service)
        equal((taker.do("query"), taker.do("drop"), taker.do("look")), ("0", "0", "6"))
        equal(giver.do("watch", handle), INVALID_HANDLE)


def test_memory_of_an_ended_client():
    with mps.Service() as service:
        giver, taker = (Sharer(service) for _ in range(2))
        handle = giver.do("give")
        equal((giver.do("fill", 5), taker.do("take", handle)), ("0", "0"))
        restart(service)
        giver.kill()
        wait_for("its end", lambda: service.clients(service.server()) == [taker.process.pid])
        reply = service.command("restart_server", str(service.server()), check=False)
        contains(reply.stdout + reply.stderr, "cannot move: it uses memory of a client that has ended")
        equal((taker.do("look"), taker.do("close")), ("5", "0"))
        restart(service)
        equal(taker.do("give") != "", True)


def test_work_goes_on():
    """Programs that copy all the time see nothing of it."""
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        busy = [service.popen("resident", "80") for _ in range(2)]
        for client in busy:
            service.wait_for_active(client)
        for _ in range(2):
            restart(service)
        for client in busy:
            code, out, err = service.finish(client)
            equal(code, 0, out + err)
            contains(out, "resident: ok")


def test_textures():
    """A client that rests keeps the value of its texture, whatever others make before it goes on."""
    with mps.Service() as service:
        clients = [service.popen(sys.executable, "-c", TEXTURES, stdin=subprocess.PIPE)
                   for _ in range(2)]
        values = [int(client.stdout.readline()) for client in clients]
        restart(service)
        for client in clients[1], clients[1], clients[0]:
            client.stdin.write("\n")
            client.stdin.flush()
            values.append(int(client.stdout.readline()))
        equal(len(set(values)), 5, values)
        for client in clients:
            client.kill()


def test_exit_that_frees_late():
    """The driver frees what the old server had in the GPU's memory a while after its end."""
    with card.Card(CARD_MIB) as small, \
            mps.Service({**small.settings, "SOFTGPU_CARD_LATE_MS": "300"}) as service:
        client = Resident(service)
        restart(service)
        client.ask()
        client.end()


def test_idle_server():
    """A server without clients, and one whose client has not used a GPU yet."""
    with mps.Service() as service:
        service.command("start_server", "-uid", str(os.getuid()))
        contains(restart(service), "moved its 0 clients")
        late = service.popen(sys.executable, "-c", LATE, stdin=subprocess.PIPE)
        equal(late.stdout.readline(), "initialized\n")
        contains(restart(service), "moved its 1 clients")
        late.stdin.write("\n")
        equal(service.finish(late), (0, "ok\n", ""))
        service.run_ok("resident")


def start_compressed(service):
    client = service.popen(sys.executable, "-c", COMPRESSED, stdin=subprocess.PIPE)
    equal(client.stdout.readline(), "ready\n")
    return client


def test_who_stays():
    """A client that cannot move: nothing has changed, and the reason is told. -f ends it."""
    with mps.Service() as service:
        resident = Resident(service)
        code = start_compressed(service)
        old = service.server()
        reply = service.command("restart_server", str(old), check=False)
        contains(reply.stdout + reply.stderr, "Server %d keeps its clients: client %d cannot move: "
                 "it has compressed memory" % (old, code.pid))
        wait_for("the successor to end", lambda: service.servers() == [old])
        resident.ask()
        contains(restart(service, "-f"), "moved its 1 clients")
        resident.ask()
        code.stdin.write("\n")
        code.stdin.close()
        code.stdin = None
        contains(service.finish(code)[2], "the server has ended")
        resident.end()


def restart_of(service, client):
    """What `ps' says of the client: the word, and the JSON."""
    rows = json.loads(service.command("ps", "-l", "--json").stdout)["clients"]
    line = [line for line in service.command("ps", "-l").stdout.splitlines()
            if line.startswith("%d " % client.pid)][0]
    return line.split()[-2], [row["restart"] for row in rows if row["pid"] == client.pid][0]


def test_told():
    """ps shows who can move, and why another client cannot, before anybody tries."""
    with mps.Service() as service:
        resident = Resident(service)
        compressed = start_compressed(service)
        busy = service.popen("stuck", "busy")
        equal(busy.stdout.readline(), "stuck: running\n")
        for client, word, text in (
                (resident.process, "yes", "yes"),
                (compressed, "no", "it has compressed memory"),
                (busy, "maybe", "it may have code whose variables the driver has placed")):
            wait_for(text, lambda client=client, both=(word, text):
                     restart_of(service, client) == both)
        busy.kill()


def test_other_gpus():
    """A successor that finds other facts about the GPUs takes nobody, and the reply says why."""
    with mps.Service({"SOFTGPU_DEVICES": "2"}) as service:
        client = Resident(service)
        old = service.server()
        service.switch.set(1, arg=1, only="cuDeviceCanAccessPeer")
        reply = service.command("restart_server", str(old), check=False)
        contains(reply.stdout + reply.stderr,
                 "Server %d keeps its clients: the next server has other GPUs" % old)
        wait_for("the successor to end", lambda: service.servers() == [old])
        client.ask()
        client.end()


def test_twice_at_once():
    """The second restart begins while the successor of the first one still opens the GPU."""
    with mps.Service() as service:
        client = Resident(service)
        service.switch.set(1, mps.Switch.STALL, 500, only="cuDevicePrimaryCtxRetain")
        for _ in range(2):
            contains(restart(service), "moved its 1 clients")
        client.ask()
        client.end()


def test_driver_that_stalls():
    """The successor has the clients, and its driver does not open the GPU: their calls end."""
    with mps.Service({"MPS_GRACE_MS": str(100 * SLOW)}) as service:
        client = Resident(service)
        old = service.server()
        service.switch.set(1, mps.Switch.STALL, 60000, only="cuDevicePrimaryCtxRetain")
        service.command("restart_server", str(old))
        equal(goes_on(client), False)
        service.wait_for_log("The GPUs are not open after")
        service.switch.set(0)
        service.run_ok("resident")


def test_work_without_a_pause():
    """The next kernels are queued long before the last has ended."""
    with mps.Service() as service:
        busy = service.popen("stuck", "busy")
        equal(busy.stdout.readline(), "stuck: running\n")
        for _ in range(2):
            contains(restart(service), "moved its 1 clients")
        equal(busy.poll(), None)
        busy.kill()


def test_work_that_does_not_end():
    """All stay, and the reply names the client. Its calls went on waiting meanwhile."""
    with mps.Service() as service:
        resident = Resident(service)
        stuck = service.popen("stuck", "in a host function")
        equal(stuck.stdout.readline(), "stuck: running\n")
        old = service.server()
        reply = service.command("restart_server", str(old), "-t", "1", check=False)
        contains(reply.stdout + reply.stderr, "Server %d keeps its clients: client %d cannot move: "
                 "it still has work on a GPU" % (old, stuck.pid))
        equal(service.servers()[0], old)
        resident.ask()
        resident.end()
        stuck.kill()


def servers_of(service):
    """PIDs of mps-server, also while there is no daemon."""
    return [pid for pid in service.processes() if "mps-server" in mps.command_line(pid)
            and not mps.is_receiver(pid)]


def kill_one(service, victim, old):
    """Kills it if there is one."""
    if victim == "daemon":
        service.daemon.kill()
        service.daemon.wait()
        return
    # To look through all processes would take longer than a move.
    for pid in map(int, re.findall("Starting new server ([0-9]+)", service.control_log())):
        if (pid == old) == (victim == "old") and "mps-server" in mps.command_line(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def goes_on(client, result=80, text="the server has ended"):
    """Whether the client does. Otherwise it has the error that the end of a server brings."""
    client.send()
    if not select.select([client.process.stdout], [], [], 30 * SLOW)[0]:
        raise AssertionError("a client hangs: %s" % client.service.server_log())
    line = client.process.stdout.readline()
    client.rounds += 1
    if line == "round %d\n" % client.rounds:
        return True
    contains(line, "returned %d" % result)
    contains(client.service.finish(client.process)[2], text)
    return False


def begin_restart(service, server):
    return subprocess.Popen([mps.CONTROL, "restart_server", str(server)], env=service.env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_during_move(victim, delay_s):
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        clients = [Resident(service) for _ in range(2)]
        old = service.server()
        command = begin_restart(service, old)
        time.sleep(delay_s)
        kill_one(service, victim, old)
        if victim == "daemon":
            service.start()
        command.wait(60 * SLOW)
        left = [client for client in clients if goes_on(client)]
        if victim == "daemon":
            equal(len(left), 2)
        wait_for("one server at most", lambda: len(servers_of(service)) <= 1)
        fresh = Resident(service)
        for client in left + [fresh]:
            client.ask()
            client.end()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)
        return len(left) == 2


def test_killed():
    """The old server, the successor or the daemon ends at any moment of a move."""
    dice = harness.dice()
    for victim in ("old", "new", "daemon") * (10 if os.environ.get("MPS_TEST_LONG") else 1):
        kill_during_move(victim, dice.uniform(0, 0.15))


def terminate_during_move(service, clients, old):
    """Who was terminated has ended, the other goes on, and a command that failed did nothing."""
    reply = service.command("terminate_client", str(old), str(clients[0].process.pid),
                            check=False)
    if goes_on(clients[0], 810, "terminated this client"):
        assert reply.returncode != 0 or reply.stdout.strip() != "0", reply.stdout
        clients[0].end()
    equal(goes_on(clients[1]), True)
    clients[1].end()


def shut_down_during_move(service, clients, old):
    """All end, or all have moved before, and go on."""
    reply = service.command("shutdown_server", str(old), "-f", check=False)
    left = [client for client in clients if goes_on(client)]
    assert len(left) in (0, 2), reply.stdout + reply.stderr
    wait_for("the server to end", lambda: old not in servers_of(service))
    for client in left:
        client.end()


def quit_during_move(service, clients, _):
    """Nothing is left."""
    service.command("quit", "-t", "1")
    equal([goes_on(client) for client in clients], [False, False])
    wait_for("the servers to end", lambda: servers_of(service) == [])


def test_orders():
    """Another command at any moment of a move."""
    dice = harness.dice()
    orders = (terminate_during_move, shut_down_during_move, quit_during_move)
    for order in orders * (10 if os.environ.get("MPS_TEST_LONG") else 1):
        with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
            clients = [Resident(service) for _ in range(2)]
            old = service.server()
            command = begin_restart(service, old)
            time.sleep(dice.uniform(0, 0.2))
            order(service, clients, old)
            command.wait(60 * SLOW)
            wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


if __name__ == "__main__":
    harness.main(globals())
