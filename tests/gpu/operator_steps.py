# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: users, and commands of the operator."""

import os
import re
import statistics
import subprocess
import time
import types

import copies
import mps
import terminations
import test_commands
import test_multiuser
import test_trace
import ways
from harness import equal, wait_for
from table import need, row, save, show
from examples import numbers, vendor

ALICE, BOB = test_multiuser.ALICE, test_multiuser.BOB
COMMAND_S = 10
# After so many commands without an answer, no other is asked.
SILENT_MAX = 3
TERMINATE_S = 300
# A client's part of a trace has room for the launches of so many seconds, and for their waits.
TRACED_S = "0.3"


# ---- users


def users_at_once(service):
    """Two users have a server each, at the same time."""
    running = {uid: service.popen("process1", "--seconds", "10", **test_multiuser.user(uid))
               for uid in (ALICE, BOB)}
    pids = {uid: process.pid for uid, process in running.items()}
    wait_for("two servers with a client each", lambda: sorted(
        pid for server in service.servers() for pid in service.clients(server))
        == sorted(pids.values()))
    lists = [service.clients(server) for server in service.servers()]
    for process in running.values():
        service.wait_for_listed(process)
    seen = {uid: terminations.said_by(service, test_multiuser.user(uid), "ps") for uid in pids}
    ends = [service.finish(process, 30) for process in running.values()]
    need("clients of two users at once, results right", all(e[0] == 0 for e in ends), ends)
    need("... each in the list of another server", sorted(lists) == sorted(
        [pid] for pid in pids.values()), lists)
    need("... and `ps' of a user shows the own client only", all(
        str(pids[uid]) in seen[uid].split() and str(pids[other]) not in seen[uid].split()
        for uid, other in ((ALICE, BOB), (BOB, ALICE))), seen)


def users_in_turn(service):
    for uid in (ALICE, BOB, ALICE):
        began = time.monotonic()
        service.run_ok("process1", timeout=60, **test_multiuser.user(uid))
        row("a client of user %d, in turn: s" % uid, "%.2f" % (time.monotonic() - began))


def users_of_one_server():
    """-M: one server for both, whose memory is apart."""
    service = mps.Service(library=None, options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = test_multiuser.SERVER_USER
    with service:
        running = [service.popen("process1", "--seconds", "5", **test_multiuser.user(uid))
                   for uid in (ALICE, BOB)]
        ends = [service.finish(process, 30) for process in running]
        need("-M: clients of two users at once, results right", all(e[0] == 0 for e in ends), ends)
        need("... of one server", len(service.servers()) == 1, service.servers())
        row("... its user", test_multiuser.status(service.server(), "Uid")[0])
        is_over = os.path.join(service.folder, "over")
        owner = service.popen("trespass", "owner", is_over, **test_multiuser.user(ALICE))
        said = owner.stdout.readline().split()
        try:
            test_multiuser.trespass(service, "stranger", BOB, *said)
            test_multiuser.trespass(service, "friend", ALICE, *said)
        finally:
            with open(is_over, "w", encoding="utf-8"):
                pass
            end = service.finish(owner, 30)
            save(service, "users_of_one_server")
        need("... memory of one is out of the other's reach", end[0] == 0, end)


def step_users():
    mode = (copies.nvidia_smi("gpu=compute_mode") or ["unknown"])[0]
    row("compute mode", mode)
    if os.geteuid() != 0:
        row("clients of two users", "skipped", "needs root")
        return
    with mps.Service(library=None) as service:
        (users_in_turn if "xclusive" in mode else users_at_once)(service)
        save(service, "users")
    users_of_one_server()


# ---- terminate_client


def step_terminate():
    """40 clients at work are terminated in turn, 20 times."""
    began = time.monotonic()
    rounds, slowest = terminations.in_turn(40, 20, library=None, limit_s=TERMINATE_S)
    row("terminate_client, 40 in turn, rounds in %.0f s" % (time.monotonic() - began), rounds, "20",
        rounds == 20)
    row("... the slowest of %d, ms" % (40 * rounds), "%.0f" % (slowest * 1e3))


# ---- the transcript


def with_names(line, facts):
    """The line with names for PIDs; a name of a column has the column's width."""
    for name in ("SERVER", "OLD", "NEW"):
        def named(match, name=name):
            spaces = len(match.group(1))
            return "{%s:%d}" % (name, len(match.group())) if spaces > 1 else (
                "{%s}" % name + " " * spaces)
        line = re.sub(r"\b%s\b( *)" % facts[name], named, line)
    return line


def replay(side, facts):
    """The answers to the commands of the transcript, with names for PIDs."""
    found, n_silent = [], 0
    # The first two steps are about a daemon that does not run yet.
    for step in test_commands.read_transcript()[2:]:
        try:
            reply, status = test_commands.replay_step(side, step, facts, COMMAND_S)
        except subprocess.TimeoutExpired:
            reply, status = ["no answer in %d s" % COMMAND_S], None
            n_silent += 1
        found.append((step.name(), [with_names(line, facts) for line in reply], status))
        if n_silent == SILENT_MAX:
            break
    return found


def replay_vendor(env):
    """The same with two clients of the vendor's service."""
    side = types.SimpleNamespace(control=ways.vendor_control(), daemon_env=env)

    def said(line):
        done = subprocess.run([side.control], env=env, input=line + "\n", capture_output=True,
                              text=True, timeout=COMMAND_S, check=False)
        return done.stdout.split()
    clients = []
    try:
        # One after the other: the daemon lists clients in the order in which they came.
        for name, stdin in ("victim", subprocess.DEVNULL), ("terminated", subprocess.PIPE):
            clients.append(subprocess.Popen(
                [mps.program(name)], env=env, text=True, stdin=stdin, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))
            equal(clients[-1].stdout.readline(), name + ": running\n")
        old, new = (str(client.pid) for client in clients)
        wait_for("both in ps", lambda: {old, new} <= set(said("ps")), 20)
        return replay(side, {"SERVER": said("get_server_list")[0], "OLD": old, "NEW": new})
    finally:
        for client in clients:
            client.kill()
            client.communicate(timeout=20)


def replay_ours():
    with mps.Service(background=True, library=None) as service:
        facts = {}
        test_commands.attach_two(service, facts)
        found = replay(service, facts)
        save(service, "transcript")
        return found


def step_transcript():
    """The commands of tests/system/transcript.txt to both daemons; docs/compat/vendor.md has the table."""
    theirs = vendor(replay_vendor)
    if not theirs:
        row("the vendor's service", "not here")
        return
    documented = {name for name, _, _ in test_commands.DIFFERENCES}
    count, unknown = {"agree": 0, "documented": 0}, []
    ours = replay_ours()
    for their, our in zip(theirs, ours):
        name = their[0]
        if their == our:
            count["agree"] += 1
            print("      %-50s agree" % name)
            continue
        if name in documented:
            count["documented"] += 1
        else:
            unknown.append(name)
        print("      %-50s %s" % (name, "documented" if name in documented else "DIFFER"))
        for who, (_, reply, status) in (("vendor", their), ("ours", our)):
            show("\n".join("  %-7s| %s" % (who, line) for line in reply + ["rc %s" % status]))
    row("commands whose replies agree", "%d of %d" % (count["agree"], len(theirs)))
    row("replies that differ as documented", count["documented"], "<= %d" % len(documented))
    need("no other reply differs", not unknown, unknown)
    need("all commands were asked", len(theirs) == len(ours) == len(
        test_commands.read_transcript()) - 2)


# ---- traces


def trace_of_two(service):
    """Two clients at work before, and two that do counted work."""
    busy = [service.popen(name, "--seconds", "30") for name in ("process1", "process2")]
    wait_for("their launches", lambda: [client["launches"] > 2 for client in
                                        test_trace.clients(service).values()] == [True] * 2)
    before = test_trace.clients(service)
    service.trace("start")
    counted = [test_trace.worked(service) for _ in range(2)]
    time.sleep(0.3)
    exact = test_trace.clients(service)
    trace, said = service.stopped()
    after = test_trace.clients(service)
    show(said)
    need("a trace is valid, with rows for all clients", trace.pids() == {
        process.pid for process in busy + counted}, trace.names)
    row("... its events, and those missing", "%d, %d" % (
        trace.about["events"], trace.about["missing_events"]))
    untimed = sum("untimed" in e["args"] for pid in trace.pids() for e in trace.of(pid, "X"))
    row("... events without a time", untimed, "0", untimed == 0)
    kinds = test_trace.KINDS.values()
    wrong = [(kind, trace.counters(process.pid)[kind], exact[process.pid][kind])
             for process in counted for kind in kinds
             if trace.counters(process.pid)[kind] != exact[process.pid][kind]]
    need("... its counts are those of stats", not wrong, wrong)
    for process in busy:
        n, most = (trace.counters(process.pid)["launches"],
                   after[process.pid]["launches"] - before[process.pid]["launches"])
        row("... launches of a client at work before", n, "1 to %d" % most, 0 < n <= most)
    ends = [process.kill() or process.communicate(timeout=20) for process in busy + counted]
    assert len(ends) == 4


def step_trace():
    """A trace beside clients at work, and what it costs them."""
    speeds, missing = {False: [], True: []}, 0
    with test_trace.Ground(library=None) as service:
        trace_of_two(service)
        for i in range(10):
            is_traced = i % 2 == 1
            if is_traced:
                service.trace("start")
            found = numbers(service, "bench", "sync", TRACED_S)
            speeds[is_traced].append(found["per_s"])
            if is_traced:
                trace, _ = service.stopped()
                missing += trace.about["missing_events"]
        save(service, "trace")
    median = {key: statistics.median(found) for key, found in speeds.items()}
    for is_traced in (False, True):
        row("launch + synchronise %s a trace, a second" % ("with" if is_traced else "without"),
            "%.0f" % median[is_traced],
            "%.0f to %.0f" % (min(speeds[is_traced]), max(speeds[is_traced])))
    row("... with / without", "%.3f" % (median[True] / median[False]))
    row("... events for which the traces had no room", missing, "0", missing == 0)


STEPS = [(step_users, 90), (step_terminate, 330), (step_transcript, 150), (step_trace, 120)]
