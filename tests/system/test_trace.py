#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Traces: from the work of programs to the file for Perfetto's viewer."""

import collections
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

import harness
import mps
import terminations
from harness import contains, equal, need_root, wait_for

ALICE, BOB = 12345, 12346
MIB = 1 << 20
KINDS = {"kernel": "launches", "graph": "graph_launches", "copy in": "copies_in",
         "copy out": "copies_out", "copy within": "copies_within", "fill": "fills", "wait": "waits"}
BYTES = {"copy in": "bytes_in", "copy out": "bytes_out", "copy within": "bytes_within"}
# Programs that check themselves and use streams in unusual ways.
PROGRAMS = ("context_shares", "bursts", "callbacks", "cooperative", "events", "graph_capture",
            "graph_conditional", "graph_memory", "green_contexts", "memory_ops", "print",
            "stream_overlap", "surface", "waits_beside")
ENVIRONMENTS = {
    "context_shares": {"CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING": "1"}}
# What a client may have: server/session/trace_writer.c.
CLIENT_MAX = 64 * 1424


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


class Trace:
    """A trace file; checks what holds for each."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        self.about = whole["otherData"]
        self.events = whole["traceEvents"]
        self.names = {event["pid"]: event["args"]["name"] for event in self.events
                      if event["name"] == "process_name"}
        self.check()

    def pids(self):
        return set(self.names)

    def of(self, pid, phases="Xi"):
        return [event for event in self.events
                if event["pid"] == pid and event["ph"] in phases]

    def marks(self, pid):
        return {event["name"] for event in self.of(pid, "i")}

    def check(self):
        rows = {(event["pid"], event["tid"]) for event in self.events
                if event["name"] == "thread_name"}
        ends = collections.defaultdict(float)
        for event in self.events:
            assert event["ph"] in "XiM", event
            if event["ph"] == "M":
                continue
            assert event["pid"] in self.names, event
            row = event["pid"], event["tid"]
            if event["ph"] == "i":
                assert event["s"] in "pt", event
                continue
            assert row in rows, event
            # In order, and none begins before the end of the one before.
            assert event["dur"] >= 0 and event["ts"] >= ends[row] - 0.002, (event, ends[row])
            ends[row] = event["ts"] + event["dur"]

    def counters(self, pid):
        """What stats would say of the client."""
        sums = collections.Counter()
        for event in self.of(pid):
            if event["cat"] in KINDS:
                sums[KINDS[event["cat"]]] += event["args"].get("launches", 1)
            if event["cat"] in BYTES:
                sums[BYTES[event["cat"]]] += event["args"]["bytes"]
        return sums


class Ground(mps.Service):
    """A service with a server that waits for clients."""

    def __enter__(self):
        super().__enter__()
        self.path = self.folder + "/trace.json"
        self.command("start_server", "-uid", str(os.getuid()))
        self.wait_for_server()
        return self

    def wait_for_server(self):
        wait_for("the server", lambda: self.command(
            "get_server_status", str(self.server())).stdout == "ACTIVE\n")

    def trace(self, verb, *words, **more):
        return self.command("--strict", "trace", verb, *words, self.path, **more)

    def stopped(self):
        done = self.trace("stop")
        return Trace(self.path), done.stdout


def worked(service, **more):
    """A client that has done its work and waits."""
    process = service.popen("counted", stdin=subprocess.PIPE, **more)
    equal(process.stdout.readline(), "counted: worked\n")
    return process


def clients(service):
    found = service.counters()
    return {client["pid"]: client for client in found}


def test_two_programs():
    """Each launch, copy, fill and wait is in the file, on the row of its stream."""
    with Ground() as service:
        before = time.monotonic()
        equal(service.trace("start").stdout, "Tracing server %d\n" % service.server())
        assert not os.path.exists(service.path)
        processes = [worked(service), worked(service)]
        counted = clients(service)
        trace, text = service.stopped()
        after = time.monotonic()
        contains(text, "%s: %d events of 2 clients\n" % (service.path, trace.about["events"]))
        equal(trace.about, {"events": trace.about["events"], "clients": 2, "missing_events": 0,
                            "servers": 1, "ended_servers": 0})
        equal(trace.pids(), {process.pid for process in processes})
        for process in processes:
            contains(trace.names[process.pid], "counted")
            want = {name: counted[process.pid][name]
                    for name in (*KINDS.values(), *BYTES.values())}
            equal(dict(trace.counters(process.pid)), {k: v for k, v in want.items() if v})
            kernels = [e for e in trace.of(process.pid) if e["cat"] == "kernel"]
            equal({(event["name"], event["args"]["symbol"]) for event in kernels},
                  {("touch(char*)", "_Z5touchPc")})
            for event in trace.of(process.pid):
                assert before * 1e6 <= event["ts"] <= after * 1e6, (event, before, after)
                assert "untimed" not in event["args"], event
        # The service goes on, and so does its next trace.
        service.trace("start")
        third = worked(service)
        trace, _ = service.stopped()
        equal(trace.pids(), {third.pid})


def test_client_before_the_trace():
    """What runs when the trace begins is traced from then on, and unfinished work is shown."""
    with Ground() as service:
        process = service.popen("process1", "--seconds", "60")
        service.wait_for_listed(process)
        before = clients(service)[process.pid]["launches"]
        service.trace("start")
        wait_for("launches", lambda: clients(service)[process.pid]["launches"] > before + 3)
        trace, _ = service.stopped()
        after = clients(service)[process.pid]["launches"]
        assert 0 < trace.counters(process.pid)["launches"] <= after - before


def test_programs_compute_the_same():
    """A trace changes no result, order, error or capture."""
    with Ground() as service:
        service.trace("start")
        for name in PROGRAMS:
            service.run_ok(name, timeout=120, env=ENVIRONMENTS.get(name))
        trace, _ = service.stopped()
        for name in PROGRAMS:
            assert any(name in text for text in trace.names.values()), name
        equal(sum("end of the client" in trace.marks(pid) for pid in trace.pids()),
              len(trace.pids()))


def test_bound():
    """A client fills its part only. The file and the reply say what is missing."""
    n = CLIENT_MAX + 5000
    with Ground() as service:
        service.trace("start")
        process = service.popen("many_fills", str(n))
        equal(service.finish(process, 200)[0], 0)
        other = worked(service)
        trace, text = service.stopped()
        fills = [event for event in trace.of(process.pid) if event["cat"] == "fill"]
        missing = trace.about["missing_events"]
        assert len(fills) <= CLIENT_MAX, len(fills)
        assert 5000 <= missing <= 5010, missing
        contains(text, "The trace was full: %d later events are missing\n" % missing)
        full, = [event for event in trace.of(process.pid) if event["cat"] == "full"]
        equal(full["args"], {"missing_events": missing})
        equal(trace.counters(other.pid)["launches"], 17)


def test_client_killed():
    """Its events stay, and a mark shows its end."""
    with Ground() as service:
        service.trace("start")
        process = worked(service)
        process.kill()
        process.wait()
        wait_for("its end", lambda: not clients(service))
        trace, _ = service.stopped()
        equal(trace.counters(process.pid)["launches"], 17)
        equal(trace.marks(process.pid) - {"wait"}, {"end of the client"})


def test_fault():
    """The trace of a server survives its end by a fault, which is marked."""
    with Ground() as service:
        server = service.server()
        bystander = worked(service)
        service.trace("start")
        process = service.popen("fault")
        service.finish(process)
        wait_for("the server's end", lambda: server not in service.servers())
        done = service.trace("stop")
        contains(done.stdout, "The trace was cut short: 1 of 1 servers ended before it\n")
        trace = Trace(service.path)
        equal(trace.about["ended_servers"], 1)
        contains(trace.marks(process.pid), "GPU fault")
        launched, = [event for event in trace.of(process.pid) if event["cat"] == "kernel"]
        equal((launched["name"], launched["args"]["symbol"]), ("store(int*)", "_Z5storePi"))
        equal(launched["args"].get("unfinished"), True, launched)
        bystander.kill()


def test_server_ends():
    with Ground() as service:
        server = service.server()
        service.trace("start")
        process = worked(service)
        service.command("shutdown_server", str(server), "-f")
        wait_for("its end", lambda: server not in service.servers())
        done = service.trace("stop", "-server", str(server))
        contains(done.stdout, "cut short")
        equal(Trace(service.path).counters(process.pid)["launches"], 17)
        contains(service.trace("stop", check=False).stderr, "There is no trace")
        assert os.path.exists(service.path)


def test_daemon_restarts():
    """Its traces are lost, its programs go on, and the next trace works."""
    service = Ground(background=True)
    with service:
        process = worked(service)
        server = service.server()
        service.trace("start")
        os.kill(service.daemon_pid(), signal.SIGKILL)
        wait_for("its end", lambda: not service.answers())
        service.start()
        wait_for("the adopted server", lambda: service.command(
            "get_server_status", str(server)).stdout == "ACTIVE\n")
        done = service.trace("stop", check=False)
        equal(done.returncode, 1)
        contains(done.stderr, "There is no trace: begin one with trace start FILE")
        assert not os.path.exists(service.path)
        # The server has closed the earlier one.
        wait_for("a trace", lambda: service.trace("start", check=False).returncode == 0)
        process.stdin.write("\n")
        process.stdin.flush()
        equal(process.stdout.readline(), "counted: was busy\n")
        trace, _ = service.stopped()
        assert trace.counters(process.pid)["copies_in"] > 8


def test_file():
    """The front end opens FILE before anything begins or ends."""
    with Ground() as service:
        nowhere = service.folder + "/nowhere/trace.json"
        for verb in ("start", "stop"):
            done = service.command("trace", verb, nowhere, check=False)
            equal(done.returncode, 1)
            contains(done.stderr, "mps-control: %s: No such file or directory" % nowhere)
        contains(service.trace("stop", check=False).stderr, "There is no trace")
        service.trace("start")
        contains(service.trace("start", check=False).stderr,
                 "Server %d is being traced: end that trace" % service.server())
        worked(service)
        done = service.command("trace", "stop", "/dev/stdout")
        events, _ = json.JSONDecoder().raw_decode(done.stdout)
        assert len(events["traceEvents"]) > 20
        # A file that was longer before.
        with open(service.path, "w", encoding="ascii") as file:
            file.write("x" * MIB)
        service.trace("start")
        equal(service.stopped()[0].events, [])
        for words in (("start",), ("stop", "-server"), ("stop", "-x", "1", "f"), ("again", "f")):
            contains(service.command("trace", *words, check=False).stderr, "Usage: ")


def test_stop_beside_a_long_kernel():
    """The command does not wait for the GPU; the kernel is shown as unfinished."""
    with Ground({"MPS_GRACE_MS": "1000"}) as service:
        service.trace("start")
        process = terminations.running(service, "stuck", "kernel")
        wait_for("its launch", lambda: clients(service)[process.pid]["launches"] > 0)
        trace, _ = service.stopped()
        unfinished = [event for event in trace.of(process.pid, "X")
                      if event["args"].get("unfinished")]
        equal(len(unfinished), 1, unfinished)
        process.kill()


def test_rights():
    """A user traces the own server only, and only its owner and root end a trace."""
    need_root()
    with mps.Service() as service:
        def said(uid, *words):
            done = subprocess.run([service.control, *words], env=service.env, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                                  check=False, cwd="/tmp", **user(uid))
            return done.stdout + done.stderr

        folder = service.folder + "/alice"
        os.mkdir(folder)
        os.chown(folder, ALICE, ALICE)
        path = folder + "/trace.json"
        process = worked(service, **user(ALICE))
        server = str(service.server())
        contains(said(BOB, "trace", "start", "-server", server, "/tmp/mps-test-bob.json"),
                 "Operation not permitted")
        contains(said(BOB, "trace", "start", "/tmp/mps-test-bob.json"), "No server runs that you")
        contains(said(BOB, "trace", "start", path), "Permission denied")
        equal(said(ALICE, "trace", "start", path), "Tracing server %s\n" % server)
        contains(said(BOB, "trace", "stop", "/tmp/mps-test-bob.json"), "There is no trace")
        contains(said(BOB, "trace", "read", "1", "0"), "Trace 1 not found")
        contains(said(BOB, "trace", "drop", "1"), "Trace 1 not found")
        contains(said(BOB, "trace", "stop", "-server", server, "/tmp/mps-test-bob.json"),
                 "Operation not permitted")
        process.stdin.write("\n")
        process.stdin.flush()
        equal(process.stdout.readline(), "counted: was busy\n")
        contains(said(ALICE, "trace", "stop", path), "%s: " % path)
        equal(Trace(path).pids(), {process.pid})
        equal(os.stat(path).st_uid, ALICE)
        assert not os.path.exists("/tmp/mps-test-bob.json")


def test_one_server_for_all():
    """With -M, a user gets the own clients' events only, root gets all."""
    need_root()
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        service.run_ok("process2", **user(ALICE))
        path = service.folder + "/trace.json"
        for uid, both in ((ALICE, False), (0, True)):
            folder = service.folder + "/%d" % uid
            os.mkdir(folder)
            os.chown(folder, uid, uid)
            path = folder + "/trace.json"
            for verb in ("start", "stop"):
                subprocess.run([service.control, "--strict", "trace", verb, path],
                               env=service.env, check=True, timeout=60, stdout=subprocess.PIPE,
                               **user(uid))
                if verb == "start":
                    pids = {who: worked(service, **user(who)).pid for who in (ALICE, BOB)}
            found = Trace(path).pids()
            contains(found, pids[ALICE])
            equal(pids[BOB] in found, both)


def test_traces_of_users():
    """With -M, each user has a trace at the same time, and root's goes before them."""
    need_root()
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"

    def trace(uid, verb):
        folder = service.folder + "/%d" % uid
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.chown(folder, uid, uid)
        subprocess.run([service.control, "--strict", "trace", verb, folder + "/trace.json"],
                       env=service.env, check=True, timeout=60, stdout=subprocess.PIPE,
                       **user(uid))
        return folder + "/trace.json"

    with service:
        service.run_ok("process2", **user(ALICE))
        for uid in (ALICE, BOB):
            trace(uid, "start")
        pids = {uid: worked(service, **user(uid)).pid for uid in (ALICE, BOB)}
        equal(Trace(trace(BOB, "stop")).pids(), {pids[BOB]})
        later = worked(service, **user(ALICE)).pid
        trace(0, "start")
        seen = worked(service, **user(ALICE)).pid
        found = Trace(trace(ALICE, "stop")).pids()
        assert {pids[ALICE], later} <= found and pids[BOB] not in found, found
        contains(Trace(trace(0, "stop")).pids(), seen)


def test_traces_of_one_account():
    """A user has four traces with all subordinate UIDs together, and leaves some to others."""
    need_root()
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"

    def start(uid):
        os.seteuid(uid)
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(60)
                sock.connect(service.pipe + "/control")
                sock.sendall(b"trace start\n\x04\n")
                said = b""
                while not said.endswith(b"\x04"):
                    said += sock.recv(4096)
                return said.decode()
        finally:
            os.seteuid(0)

    with tempfile.NamedTemporaryFile("w") as subuid:
        subuid.write("%d:100000:65536\n" % ALICE)
        subuid.flush()
        service.daemon_env["MPS_SUBUID_FILE"] = subuid.name
        with service:
            service.run_ok("process2", **user(ALICE))
            for uid in range(100000, 100004):
                contains(start(uid), "Tracing server")
            for uid in (ALICE, 100004):
                contains(start(uid), "There are too many traces")
            contains(start(BOB), "Tracing server")
            # All that is left, but for root.
            for uid in range(200000, 200023):
                contains(start(uid), "Tracing server")
            contains(start(300000), "There are too many traces")
            contains(start(0), "Tracing server")


if __name__ == "__main__":
    harness.main(globals())
