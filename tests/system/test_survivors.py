#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""After a GPU fault, clients that had no work on the GPU go on in the next server.

With MPS_TEST_LONG=1 there are 204 faults, 40 kills, and twice a fault every two seconds for five
minutes: about twenty minutes.
"""

import contextlib
import datetime
import json
import os
import random
import re
import select
import subprocess
import sys
import threading
import time

import card
import control_log
import harness
import mps
import test_faults
import test_restart
from harness import SLOW, contains, equal, wait_for

CARD_MIB = 256
# Variables of images lie in memory of the client then, and so can move.
PLACED = {"MPS_OVERSUBSCRIBE": "1"}
LONG = bool(os.environ.get("MPS_TEST_LONG"))
# The faults. A real kernel causes 700, and for the others the software GPU returns them for a launch.
FAULTS = (("fault", 700), ("fault", 700), ("process1", 710), ("atomics", 715),
          ("convolution", 716), ("histogram", 719))


VICTIMS = ("client", "old", "new", "daemon")
# The fault's error, or that of a server's end.
TOLD = r"\((700|80[56])\)"

# Writes a constant, and reads it when it gets a line.
CONSTANT = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, module, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
size, word = ctypes.c_size_t(), ctypes.c_uint32(7)
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), b".version 8.0\\n.target sm_50\\n.address_size 64\\n"
     b".visible .const .align 4 .u32 words[4];\\n.visible .entry kernel() { ret; }\\n")
call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, b"words")
call("cuMemcpyHtoD_v2", address, ctypes.byref(word), ctypes.c_size_t(4))
print("ready", flush=True)
input()
word.value = 0
call("cuMemcpyDtoH_v2", ctypes.byref(word), address, ctypes.c_size_t(4))
print("read", word.value)
"""


class Survivor(test_restart.Resident):
    """A client with objects of each kind, which uses all of them when it is asked to."""

    def __init__(self, service):
        self.service = service
        self.rounds = 0
        self.process = service.popen("survivor", "--requests", stdin=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n")

    def end(self):
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal(code, 0, out + err)
        contains(out, "survivor: ok")


class Sharing:
    """Two processes that share memory and an event."""

    def __init__(self, service):
        self.giver, self.taker = (test_restart.Sharer(service) for _ in range(2))
        self.value = 0
        equal(self.taker.do("take", self.giver.do("give")), "0")
        equal(self.giver.do("fill", self.value), "0")
        equal(self.taker.do("watch", self.giver.do("signal")), "0")

    def ask(self):
        """Neither has lost what was there before, and the one sees what the other does."""
        equal(self.taker.do("look"), str(self.value))
        self.value = (self.value + 1) % 256
        test_restart.promise(self.giver, self.taker, self.value)
        equal(self.giver.do("look"), str(self.value))

    def end(self):
        self.taker.kill()
        self.giver.kill()


def service_with_card(small):
    return mps.Service(dict(small.settings, **PLACED))


def renamed(service, program, number):
    """Another program that does the same: one that faults twice has a server of its own."""
    path = os.path.join(service.folder, "%s-%d" % (program, number))
    os.symlink(mps.program(program), path)
    return path


def fault(service, program="fault"):
    """A program faults, and gets the error."""
    code, out, err = service.run(program)
    equal(code, 0, out + err)


def fault_by_switch(service, program, result):
    """The launch of a program returns the fault."""
    service.switch.set(1, arg=result, only="cuLaunchKernel")
    code, out, err = service.run(program)
    assert code != 0 and str(result) in out + err, (code, out, err)
    service.switch.set(0)


def next_server(service, old):
    """The only server that is left, which is another one."""
    wait_for("the next server", lambda: service.servers() and old not in service.servers() and
             len(service.servers()) == 1)
    return service.server()


def fault_beside(service, clients, number):
    """The clients go on, one of them without a call between two faults."""
    program, result = FAULTS[number % len(FAULTS)]
    culprit, old = renamed(service, program, number), service.server()
    if result == 700:
        fault(service, culprit)
    else:
        fault_by_switch(service, culprit, result)
    next_server(service, old)
    # The second fault meets a client whose objects have not been made again.
    for client in clients[result == 700:]:
        client.ask()
    n = sum(2 if isinstance(client, Sharing) else 1 for client in clients)
    contains(service.control_log(), "Server %d has moved its %d clients" % (old, n))


def test_survivors():
    """Idle clients with all kinds of objects, again and again, whatever the fault is."""
    with card.Card(CARD_MIB) as small, service_with_card(small) as service:
        kinds = (Survivor, Survivor, test_restart.Resident, Sharing)
        more = (Survivor, Survivor, test_restart.Resident) if LONG else ()
        clients = [kind(service) for kind in kinds + more]
        for number in range(204 if LONG else len(FAULTS)):
            fault_beside(service, clients, number)
        for client in clients:
            client.ask()
            client.end()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def test_constant():
    """A fault ends the driver's memory, in which constants lie: the server has a copy."""
    with card.Card(CARD_MIB) as small, service_with_card(small) as service:
        client = service.popen(sys.executable, "-c", CONSTANT, stdin=subprocess.PIPE)
        equal(client.stdout.readline(), "ready\n")
        # It rests, so the copy is made.
        time.sleep(0.2)
        fault(service)
        client.stdin.write("\n")
        equal(service.finish(client), (0, "read 7\n", ""))


def test_spare():
    """The spare of the server is the next one."""
    with mps.Service(dict(PLACED, MPS_SPARE_SERVER="1")) as service:
        survivor, old = Survivor(service), service.server()
        spare = wait_for("the spare", lambda: re.search(r"Server (\d+) is the spare of server %d" % old,
                                                       service.control_log()))
        wait_for("the spare to be ready", lambda: "NEW SERVER %s: Ready" % spare[1] in
                 service.control_log())
        fault(service)
        moved = "Server %d has moved its 1 clients to server %s" % (old, spare[1])
        wait_for("the move", lambda: moved in service.control_log())
        survivor.ask()
        survivor.end()


def reasons(seen):
    """Why clients other than the culprit or the suspects do not survive, by their PIDs."""
    return {client["pid"]: client["reason"] for client in seen["lost"]}


def begin_fault(service):
    """A program that is about to fault."""
    return service.popen("fault")


def test_reasons():
    """Who had work gets the error, and so does who cannot move; server.log says why."""
    with service_with_card(card.Card(CARD_MIB)) as service:
        survivor, old = Survivor(service), service.server()
        stays = test_restart.start_compressed(service)
        busy = service.popen("stuck", "steady")
        equal(busy.stdout.readline(), "stuck: running\n")
        fault(service)
        next_server(service, old)
        contains(service.server_log(), "Client {PID: %d, Context ID: 2} does not survive the fault: "
                 "it has compressed memory" % stays.pid)
        contains(service.control_log(), "Server %d has moved its 1 clients" % old)
        seen, = json.loads(service.command("get_last_fault", "--json").stdout)
        equal([client["pid"] for client in seen["survivors"]], [survivor.process.pid])
        equal((seen["n_survivors"], seen["next_server"]), (1, service.server()))
        text = service.command("get_last_fault").stdout
        contains(text, "Survivor  %d " % survivor.process.pid)
        # The culprit and the busy client are the suspects.
        equal((seen["certain"], reasons(seen)), (False, {stays.pid: "it has compressed memory"}))
        equal(seen["n_lost"], 1)
        assert re.search(r"^Lost +%d .*: it has compressed memory$" % stays.pid, text, re.M), text
        equal(service.finish(busy)[0], 1)
        stays.stdin.write("\n")
        stays.stdin.close()
        stays.stdin = None
        contains(service.finish(stays)[2], "CUDA_ERROR_ILLEGAL_ADDRESS")
        survivor.ask()
        survivor.end()


def test_address():
    """A client in whose addresses that of the fault lies is no survivor: it may have been written."""
    with test_faults.service_with_log() as service:
        hit, spared = (test_restart.Sharer(service) for _ in range(2))
        for client in hit, spared:
            client.do("give")
        old = service.server()
        # Behind its memory, and in its addresses.
        equal(service.run("fault", "at", hex(int(hit.do("where"), 16) + (1 << 30)))[0], 0)
        next_server(service, old)
        seen = test_faults.last_fault(service)
        equal(reasons(seen), {hit.process.pid: "the address of the fault is in its memory"})
        equal([client["pid"] for client in seen["survivors"]], [spared.process.pid])
        equal((hit.do("fill", 7), spared.do("fill", 7)), ("700", "0"))


def time_of(service, text):
    """When control.log got the line."""
    for line in service.control_log().splitlines():
        found = control_log.LINE.match(line)
        if found and text in found[3]:
            return datetime.datetime.fromisoformat(found[1])
    raise AssertionError("%s is not in %s" % (text, service.control_log()))


def wait_of_survivors(service, result, number):
    """Seconds from a fault, of which the kernel has a line without an address, to the move."""
    program, old = renamed(service, "process1", number), service.server()
    with open(service.kernel_log, "a", encoding="utf-8") as log:
        log.write(test_faults.xid_exception(old))
    fault_by_switch(service, program, result)
    next_server(service, old)
    return (time_of(service, "Server %d has moved its 1 clients" % old) -
            time_of(service, "Server %d is FAULT" % old)).total_seconds()


def test_line_without_an_address():
    """Survivors wait for an address only if the fault has one, and at most 0.6 s."""
    with test_faults.service_with_log(writes=False) as service:
        client = test_restart.Resident(service)
        equal(wait_of_survivors(service, 700, 0) > 0.55, True)
        # The machine may be busy.
        waits = [wait_of_survivors(service, 719, number) for number in range(1, 5)]
        assert min(waits) < 0.5, waits
        client.ask()
        client.end()


def test_event_of_a_victim():
    """Who shares an event with a client that cannot move gets the error, too, also after that one's end."""
    with mps.Service(PLACED) as service:
        sharing, beside, old = Sharing(service), test_restart.Resident(service), service.server()
        equal(sharing.taker.do("array"), "0")
        fault(service)
        next_server(service, old)
        service.wait_for_log("Client {PID: %d, Context ID: 1} does not survive the fault: it uses memory or an "
                             "event of a client that does not survive" % sharing.giver.process.pid)
        equal((sharing.giver.do("query"), sharing.taker.do("query")), ("700", "700"))
        beside.ask()
        beside.end()


def test_no_survivor():
    """No successor is started, and the server ends as soon as before."""
    with mps.Service() as service:
        busy = service.popen("stuck", "steady")
        equal(busy.stdout.readline(), "stuck: running\n")
        fault(service)
        equal(service.finish(busy)[0], 1)
        wait_for("the end of the server", lambda: not service.servers())
        equal(service.control_log().count("Starting new server"), 1)


def goes_on(client):
    """Whether the client does. Otherwise it has been told."""
    client.send()
    if not select.select([client.process.stdout], [], [], 30 * SLOW)[0]:
        raise AssertionError("a client hangs: %s" % client.service.server_log())
    line = client.process.stdout.readline()
    client.rounds += 1
    if line == "round %d\n" % client.rounds:
        return True
    assert re.search(TOLD, line), line
    client.service.finish(client.process)
    return False


def kill_during_rescue(victim, delay_s):
    with card.Card(CARD_MIB) as small, service_with_card(small) as service:
        clients = [Survivor(service) for _ in range(2)]
        old = service.server()
        culprit = begin_fault(service)
        service.wait_for_log("encountered a fatal GPU error")
        time.sleep(delay_s)
        if victim == "client":
            clients[0].process.kill()
            clients[0].process.wait()
        else:
            test_restart.kill_one(service, victim, old)
        if victim == "daemon":
            service.start()
        equal(service.finish(culprit)[0], 0)
        left = [client for client in clients[victim == "client":] if goes_on(client)]
        if victim == "client":
            equal(left, clients[1:])
        wait_for("one server at most", lambda: len(test_restart.servers_of(service)) <= 1)
        fresh = Survivor(service)
        for client in left + [fresh]:
            client.ask()
            client.end()
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)
        return len(left)


def test_killed():
    """A client, a server or the daemon ends meanwhile: every client goes on, or is told."""
    dice = harness.dice()
    went_on = {}
    for victim in VICTIMS * (10 if LONG else 1):
        went_on[victim] = went_on.get(victim, 0) + kill_during_rescue(victim, dice.uniform(0, 0.1))
    print("    went on: %s" % went_on)


class Asker(threading.Thread):
    """Sends requests to a program, with pauses, until it is told to stop."""

    def __init__(self, service, seed, make=Survivor):
        super().__init__(daemon=True)
        self.client = make(service)
        self.dice = random.Random(seed)
        # Held during a request.
        self.turn = threading.Lock()
        self.must_stop = False
        self.longest_s = 0
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.must_stop:
                time.sleep(self.dice.uniform(0, 0.06))
                with self.turn:
                    began = time.monotonic()
                    self.client.ask()
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
        except (AssertionError, OSError) as error:
            self.error = error

    def end(self):
        self.must_stop = True
        self.join()
        assert not self.error, self.error
        self.client.end()


def fault_in_a_pause(service, askers, program):
    """The program faults while no request is under way; the next ones come at once."""
    said = "Server is handling a fatal GPU error"
    n_faults = service.server_log().count(said)
    with contextlib.ExitStack() as pauses:
        for asker in askers:
            pauses.enter_context(asker.turn)
        time.sleep(0.1)
        culprit = service.popen(program)
        wait_for("the fault", lambda: service.server_log().count(said) > n_faults)
    code, out, err = service.finish(culprit)
    equal(code, 0, out + err)


def fault_beside_askers(service, askers, choose, is_known, n_faults, pause_s):
    """Faults beside programs that serve requests, which live to the end, and compute right: how many
    requests they serve, and seconds of the longest. `choose' names the program of each fault.
    `is_known': those after the first one come at any moment.
    """
    for number in range(n_faults):
        began = time.monotonic()
        if is_known and number > 0:
            fault(service, choose(service, number))
        else:
            fault_in_a_pause(service, askers, choose(service, number))
        time.sleep(max(0, began + pause_s - time.monotonic()))
        for asker in askers:
            assert not asker.error, (number, asker.error)
    for asker in askers:
        asker.end()
    return sum(asker.client.rounds for asker in askers), max(asker.longest_s for asker in askers)


def stranger(service, number):
    return renamed(service, "fault", number)


def same(_service, _number):
    return "fault"


def fault_again_and_again(choose, is_known):
    n_faults, pause_s = (150, 2) if LONG else (4, 0.3)
    with card.Card(CARD_MIB) as small, service_with_card(small) as service:
        dice = harness.dice()
        askers = [Asker(service, dice.random()) for _ in range(4)]
        requests, longest_s = fault_beside_askers(service, askers, choose, is_known, n_faults, pause_s)
        print("    %d faults, %d requests, the longest %.0f ms" % (n_faults, requests, 1000 * longest_s))


def test_strangers_fault():
    """Each fault is another program's, in a pause of the programs that serve requests."""
    fault_again_and_again(stranger, False)


def test_one_faults_again_and_again():
    """One program: on probation after its first fault, it meets pauses only; then it is alone."""
    fault_again_and_again(same, True)


if __name__ == "__main__":
    harness.main(globals())
