#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Programs compute the same while their server is restarted at random moments.

A program that cannot move goes on in its server, and the reply says why. MPS_TEST_LONG=1 runs all
programs, until 200 restarts have moved one, and kills a process during 100 moves; MPS_TEST_LONG=5
does so five times as often. With it, a client calls all the time beside the programs, and none of its
calls takes longer than the work of the programs may, and a second more.
"""

import collections
import functools
import math
import operator
import os
import re
import signal
import threading
import time

import card
import harness
import mps
import test_restart
from harness import SLOW, equal, settled, wait_for

LONG = int(os.environ.get("MPS_TEST_LONG") or 0)
CARD_MIB = 1024
MOVES = 200 * LONG
# Restarts of one run, at most, and how long a program runs between two of them.
RESTARTS_MAX = 10 if LONG else 3
# The time for the work of the clients, and how much longer they may have to wait.
DRAIN_S, PAUSE_MAX_S = 1, 1
BETWEEN_S = (0.0002, 0.02)
# One for each kind of object, and programs with several threads.
PROGRAMS = ("graph_capture", "graph_nodes", "events", "callbacks", "stream_overlap", "transpose",
            "thread_streams", "green_ended", "constants", "registered_shared",
            "virtual_memory", "surface")
EVICTED = ("virtual_memory", "stream_overlap", "surface", "transpose")
# So many programs have to be among those that moved: another round follows until they are.
KINDS = len(PROGRAMS) + 1 if LONG else len(PROGRAMS) // 2 + 1
# With many objects, so that a kill often meets the replay.
KILLED = ("graph_capture", "graph_update", "graph_random", "alloc_threads", "programmatic",
          "green_contexts")
KILLS = 100 * LONG or 5
# How far a restart is, by its lines. A kill comes soon after one of them, or after the command.
MOMENTS = (("control.log", "Starting new server"),
           ("server.log", "The clients move to the next server"),
           ("server.log", "come from the server before"))
DELAYS_MAX_S = (0.005, 0.12)
VICTIMS = (("old",), ("new",), ("daemon",), ("daemon", "old"), ("new", "daemon"))
# In the background, with another share of the SMs at each launch.
SHARES = {"MPS_TEST": "shares"}
BACKGROUND = {"CUDA_MPS_CLIENT_PRIORITY": "2"}
SHARING = ("ipc_memory", "pool_ipc", "ipc_event")
SHARED = ("graph_random", "stream_overlap", "thread_streams")
REFUSED = re.compile(r"keeps its clients: client \d+ cannot move: (.*)")


class Beside(threading.Thread):
    """A client that calls all the time."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.resident = test_restart.Resident(service)
        self.has_failed = False
        self.is_ending = threading.Event()

    def run(self):
        self.has_failed = True
        while not self.is_ending.is_set():
            self.resident.ask()
        self.has_failed = False

    def end(self):
        """Returns how long its longest call took, and which one it was."""
        self.is_ending.set()
        self.join()
        equal(self.has_failed, False)
        return self.resident.end()


def restart(service, client, n_beside):
    """"": the clients have moved. Or why not. None: the client has ended meanwhile."""
    servers = service.servers()
    if not servers or client.poll() is not None:
        return None
    reply = service.command("restart_server", str(servers[0]), "-t", str(DRAIN_S), check=False,
                            timeout=60)
    text = reply.stdout + reply.stderr
    refused = REFUSED.search(text)
    if refused:
        return refused.group(1)
    moved = re.search("has moved its ([0-9]+) clients", text)
    if moved and int(moved.group(1)) > n_beside:
        return ""
    # It has ended.
    assert moved or re.search("keeps its clients: server|STOPPING|not found", text), text
    return None


def pause_s(dice):
    return math.exp(dice.uniform(*map(math.log, BETWEEN_S)))


def start(service, name, env=None):
    """Starts the program, and waits until it has used a GPU, or has ended."""
    client = service.popen(name, env=env)
    active = "Status of client {PID: %d, " % client.pid
    wait_for("work", lambda: active in service.server_log() or client.poll() is not None)
    return client


def restart_at_random(service, client, dice, n_beside=0):
    """Mostly the client does not run meanwhile, as it would be over."""
    found = []
    for _ in range(RESTARTS_MAX):
        time.sleep(pause_s(dice))
        if client.poll() is not None:
            break
        is_stopped = dice.random() < 0.75
        if is_stopped:
            client.send_signal(signal.SIGSTOP)
        try:
            # Sometimes again, before its objects were made there.
            found += [restart(service, client, n_beside) for _ in range(dice.choice((1, 1, 2)))]
        finally:
            if is_stopped:
                client.send_signal(signal.SIGCONT)
    return [result for result in found if result is not None]


def run_moving(service, name, dice, env=None, n_beside=0):
    client = start(service, name, env)
    results = restart_at_random(service, client, dice, n_beside)
    code, out, err = service.finish(client, 120)
    if (code, out) != (0, name + ": ok\n"):
        raise AssertionError("%s with %s: %d %s%s" % (name, results, code, out, err))
    return results


def test_programs():
    dice = harness.dice()
    reasons, moves = collections.Counter(), collections.Counter()
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        # The first server: programs are over soon.
        service.command("start_server", "-uid", str(os.getuid()))
        beside = Beside(service) if LONG else None
        if beside:
            beside.start()
        # The program beside takes memory.
        names = [name for name in mps.PROGRAMS_ONCE if name not in mps.ALONE] if LONG else PROGRAMS
        while True:
            for name in names:
                for result in run_moving(service, name, dice, n_beside=1 if beside else 0):
                    if result:
                        reasons[name + ": " + result] += 1
                    else:
                        moves[name] += 1
            if sum(moves.values()) >= MOVES and len(moves) >= KINDS:
                break
        longest = beside.end() if beside else None
        log = service.server_log()
    assert "cannot go on" not in log, re.findall(".*cannot go on.*", log)
    print("    %d moves of %d programs" % (sum(moves.values()), len(moves)))
    if longest:
        print("    the longest call beside them: %.3f s, %s" % longest)
        assert longest[0] <= (DRAIN_S + PAUSE_MAX_S) * SLOW, longest
    for reason, n in sorted(reasons.items()):
        print("    stayed %d times: %s" % (n, reason))


def test_background():
    """Clients in the background move, beside one in the foreground that moves with them."""
    dice = harness.dice()
    with card.Card(CARD_MIB) as small, mps.Service({**small.settings, **SHARES}) as service:
        resident = test_restart.Resident(service)
        for name in SHARED:
            wait_for("a move", lambda: "" in run_moving(service, name, dice, BACKGROUND))
            resident.ask()
        resident.end()
        assert "cannot go on" not in service.server_log(), service.server_log()


def test_evicted():
    """The same if all that may leaves the GPU whenever a program rests."""
    dice = harness.dice()
    moves = 0
    with card.Card(CARD_MIB) as small, mps.Service(
            {**small.settings, "MPS_TEST": "evict", "MPS_OVERSUBSCRIBE": "1"}) as service:
        service.command("start_server", "-uid", str(os.getuid()))
        for name in EVICTED:
            moves += sum(not result for result in run_moving(service, name, dice))
        log = service.server_log()
    assert "cannot go on" not in log, re.findall(".*cannot go on.*", log)
    assert moves > 0
    print("    %d moves" % moves)


def test_shared():
    """Two processes that share memory, or an event, move together."""
    dice = harness.dice()
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        for name in SHARING:
            wait_for("a move", lambda: "" in run_moving(service, name, dice))
        assert "cannot go on" not in service.server_log(), service.server_log()


def open_files(service, pid):
    """How many descriptors of each kind the process has."""
    return collections.Counter(re.sub(r":\[\d+\]", "", path).replace(service.folder, "")
                               for path in mps.open_files(pid))


def idle_files(service, server):
    """Those of the daemon and of its server; for a moment also those of a client that has ended."""
    return {"daemon": open_files(service, service.daemon.pid),
            "server": open_files(service, server)}


@functools.cache
def new_files():
    """The same of a new service, when a client has come and gone, and nothing is being closed."""
    with card.Card(CARD_MIB) as small, mps.Service(small.settings) as service:
        service.run_ok("resident", "1")
        server = service.server()
        return settled(lambda: idle_files(service, server), 0.5 * SLOW, 20 * SLOW)


def differences(files, others):
    """What each of the processes has more or fewer of."""
    return ["%s: %+d %s" % (process, found[kind] - others[process][kind], kind)
            for process, found in files.items() for kind in sorted({*found, *others[process]})
            if found[kind] != others[process][kind]]


def nothing_left(service, about):
    """Waits until both have as many as those of a new service, and the daemon knows of no client."""
    want, found = new_files(), {}

    def is_new():
        service.run_ok("resident", "1")
        found.update(idle_files(service, service.server()))
        return found == want

    try:
        wait_for("no descriptor to be left", is_new)
    except AssertionError as error:
        raise AssertionError("%s, %s: %s, of %s" % (
            about, error, differences(found, want), want)) from None
    wait_for("no client to be left", lambda: service.clients() == [])


def moments_passed(service):
    return [service.read("log/" + log).count(text) for log, text in MOMENTS]


def restart_and_kill(service, client, victims, moment, delays_s):
    """Returns how many of the moments had passed at the first kill."""
    old, before, passed = service.server(), moments_passed(service), []
    command = test_restart.begin_restart(service, old)
    while moment and moments_passed(service)[moment - 1] == before[moment - 1]:
        if command.poll() is not None:
            break
        time.sleep(0.0005)
    for victim, delay_s in zip(victims, delays_s):
        time.sleep(delay_s)
        passed.append(moments_passed(service))
        test_restart.kill_one(service, victim, old)
        if victim == "daemon":
            service.start()
    client.send_signal(signal.SIGCONT)
    command.wait(60 * SLOW)
    return sum(map(operator.ne, passed[0], before))


def killed_meanwhile(name, victims, dice):
    """Whether the program goes on. Otherwise it has the error that the end of a server brings."""
    moment = dice.randrange(len(MOMENTS) + 1)
    delays_s = [dice.uniform(0, dice.choice(DELAYS_MAX_S)) for _ in victims]
    passed = None
    spares = {"MPS_SPARE_SERVER": "1", "MPS_IDLE_S": "1"} if dice.random() < 0.3 else {}
    with card.Card(CARD_MIB) as small, mps.Service(dict(small.settings, **spares)) as service:
        client = start(service, name)
        time.sleep(pause_s(dice))
        client.send_signal(signal.SIGSTOP)
        if client.poll() is None and service.servers():
            passed = restart_and_kill(service, client, victims, moment, delays_s)
        client.send_signal(signal.SIGCONT)
        code, out, err = service.finish(client, 120)
        is_well = (code, out) == (0, name + ": ok\n")
        assert is_well or victims != ("daemon",) and re.search(
            "server has ended|80[56]", out + err), (name, victims, code, out, err)
        wait_for("one server at most", lambda: len(test_restart.servers_of(service)) <= 1)
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)
        if not spares:
            nothing_left(service, (name, victims, moment, delays_s, is_well))
        return is_well, passed


def test_killed():
    """The old server, the next one or the daemon ends at any moment of a move, or two of them."""
    dice = harness.dice()
    went_on, at = collections.Counter(), collections.Counter()
    for i in range(KILLS):
        victims = VICTIMS[i % len(VICTIMS)]
        is_well, passed = killed_meanwhile(dice.choice(KILLED), victims, dice)
        went_on[" and ".join(victims)] += is_well
        at[passed] += 1
    print("    %d kills; went on: %s" % (KILLS, dict(went_on)))
    print("    so many moments had passed: %s" % dict(at))


if __name__ == "__main__":
    harness.main(globals())
