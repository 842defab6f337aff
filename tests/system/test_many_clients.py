#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""The link between daemon and server, beside as many clients as a server may have."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import exposition
import harness
import mps
import server_link
import session
import test_config_file
import test_metrics
import test_stats
import wire
from harness import contains, equal, need_root, wait_for

MANY = 1024  # SESSIONS_MAX
OF_A_PROCESS = 8  # what each process may have, whatever others have (server/util/resource.c)
GROUP = "everybody"
LIMIT = "[group %s]\ndevice_pinned_mem_limit = 0=%%dM\n" % GROUP
STRANGER, STRANGERS_AT = 61003, 256
MIB = 1 << 20
LOST, BACK = "Lost the connection to the control daemon", "Connected to the control daemon again"


class Crowd:
    """Sessions that use GPU 0, in processes that hold OF_A_PROCESS sessions each."""

    def __init__(self, service, n, **variables):
        self.hold, self.end = os.pipe()
        began = [self.begin(service, min(OF_A_PROCESS, n - at), variables)
                 for at in range(0, n, OF_A_PROCESS)]
        self.pids = [pid for pid, _ in began]
        for pid, ready in began:
            with open(ready, "rb") as said:
                equal(said.read(5), b"ready", "the sessions of process %d" % pid)

    def begin(self, service, n, variables):
        """(PID, descriptor that says when the sessions are there)."""
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):
                os.close(self.end)
                clients = [session.Asker(service, **variables) for _ in range(n)]
                for client in clients:
                    equal(client.ask("device_open")[0], 0)
                os.write(tell, b"ready")
                os.read(self.hold, 1)
                status = any(client.is_dropped() for client in clients)
            os._exit(status)
        os.close(tell)
        return pid, ready

    def leave(self):
        """The processes end; returns how many of them have lost a session."""
        os.close(self.end)
        os.close(self.hold)
        return sum(os.waitpid(pid, 0)[1] != 0 for pid in self.pids)


@contextlib.contextmanager
def crowd(service, n=MANY, **variables):
    clients = Crowd(service, n, **variables)
    try:
        yield clients
    except BaseException:
        for pid in clients.pids:
            os.kill(pid, signal.SIGKILL)
        clients.leave()
        raise
    equal(clients.leave(), 0, "processes with a lost session")


def limits(service):
    """How many clients have which memory limit; each uses one GPU."""
    found = {}
    for client in service.counters():
        gpu, = client["gpus"]
        found[gpu["memory_limit"]] = found.get(gpu["memory_limit"], 0) + 1
    return found


def link_is_whole(service, server, n_lost=0):
    """The server has not lost its daemon, but for a daemon that was killed."""
    equal(service.servers(), [server])
    equal(service.command("get_server_status", str(server)).stdout, "ACTIVE\n")
    log = service.server_log()
    equal((log.count(LOST), log.count(BACK)), (n_lost, n_lost))
    assert "has lost its connection" not in service.control_log()


def scrape(port):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=20 * mps.SLOW) as page:
        return exposition.read(page.read().decode())


def check_reports(service, port):
    for _ in range(3):
        equal(len(service.counters()), MANY)
        for families in test_metrics.metrics(service), scrape(port):
            equal(families["mps_clients"].value(), MANY)


def check_group(service):
    """A reload changes the limits of each client."""
    equal(limits(service), {64 * MIB: MANY})
    for limit in 96, 32:
        service.reload(LIMIT % limit)
        wait_for("the limits", lambda limit=limit: limits(service) == {limit * MIB: MANY})


def check_trace(service):
    path = service.folder + "/trace.json"
    service.command("--strict", "trace", "start", path)
    contains(service.command("--strict", "trace", "stop", path).stdout, path)


def check_terminate(service, server, pid):
    """All sessions of a process at once."""
    equal(service.command("terminate_client", str(server), str(pid)).stdout, "0\n")
    equal(len(service.counters()), MANY)


def test_reports():
    """Whatever makes the server report on each client does not cost it its daemon."""
    port = test_metrics.free_port()
    service = test_config_file.Service(LIMIT % 64)
    service.daemon_env["MPS_METRICS_LISTEN"] = "127.0.0.1:%d" % port
    with service, crowd(service, group=wire.variable(GROUP.encode())) as clients:
        server = service.server()
        check_reports(service, port)
        check_group(service)
        check_trace(service)
        check_terminate(service, server, clients.pids[0])
        link_is_whole(service, server)


def test_reports_at_the_same_time():
    """The daemon does not read while other reports are due."""
    with mps.Service() as service, crowd(service) as clients:
        server = service.server()
        lines = ["terminate_client %d %d" % (server, pid) for pid in clients.pids[:32]]
        threads = [threading.Thread(target=service.command, args=words.split())
                   for words in lines + ["stats"] * 8]
        os.kill(service.daemon_pid(), signal.SIGSTOP)
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        os.kill(service.daemon_pid(), signal.SIGCONT)
        for thread in threads:
            thread.join()
        equal(len(service.counters()), MANY)
        link_is_whole(service, server)


def test_adoption():
    """A new daemon learns of each client, and the server says once that it was without one."""
    with mps.Service() as service, crowd(service, MANY - OF_A_PROCESS):
        server = service.server()
        before = sorted(service.clients())
        for n in range(1, 3):
            service.daemon.kill()
            service.daemon.wait()
            service.start()
            wait_for("the clients", lambda: service.servers() and len(service.counters()) == len(before))
            equal(sorted(service.clients()), before)
            equal(set(limits(service).values()), {len(before)})
            equal(session.hello(service), session.WELCOMED)
            # The next try of a server without a daemon comes after DAEMON_RETRY_MS.
            time.sleep(1.5)
            link_is_whole(service, server, n)


def test_reports_of_strangers():
    """With one server for all, what one user asks for costs no other user the server."""
    need_root()
    stranger = {"user": STRANGER, "group": STRANGER, "extra_groups": []}
    with mps.Service({"MPS_SERVER_USER": "nobody"}, options=["-M"]) as service, \
            crowd(service, STRANGERS_AT):
        server = service.server()
        for words in ("stats",), ("stats", "--json"), ("metrics",), ("ps",):
            done = subprocess.run([service.control, *words], env=service.env, capture_output=True,
                                  text=True, timeout=20 * mps.SLOW, check=True, **stranger)
            assert not re.search(r"^[0-9]", done.stdout, re.M), done.stdout
        service.run_ok("process1", **stranger)
        wait_for("the program's end", lambda: len(service.counters()) == STRANGERS_AT)
        link_is_whole(service, server)


class Listener:
    """Stands in for a daemon: takes a server's connection and reads nothing of it."""

    def __init__(self, service):
        path = service.pipe + "/control"
        os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(20 * mps.SLOW)
            self.sock, _ = listener.accept()
        os.unlink(path)

    def ask(self, words, most):
        """Sends the same frame until the server takes no more for a while; how often it was sent."""
        sent = 0
        self.sock.settimeout(1 * mps.SLOW)
        with contextlib.suppress(TimeoutError):
            while sent < most * len(words):
                sent += self.sock.send(words[sent % len(words):])
        assert sent % len(words) == 0, sent
        return sent // len(words)

    def receive(self, size):
        """Exactly so many bytes: with a time limit, recv() may return fewer in spite of MSG_WAITALL."""
        words = b""
        while len(words) < size:
            part = self.sock.recv(size - len(words))
            assert part, "the server has closed the connection after %r" % words
            words += part
        return words

    def read(self, name, wanted):
        """Reads until `wanted' frames of that type name no client; returns how many name one."""
        n = 0
        self.sock.settimeout(20 * mps.SLOW)
        while wanted > 0:
            words = self.receive(wire.HEAD_OF_FRAME)
            size = int.from_bytes(words[4:8], "little")
            words += self.receive(size - len(words))
            if wire.frame_name(words) != name:
                continue
            is_last = wire.frame_member(words, name, "client") == 0
            wanted -= is_last
            n += not is_last
        return n


def test_daemon_that_reads_nothing():
    """The server keeps each report, and not more than one for each client."""
    n, most = 64, 20000
    with mps.Service() as service, crowd(service, n):
        server = service.server()
        service.daemon.kill()
        service.daemon.wait()
        daemon = Listener(service)
        memory = mps.memory_kib(server)
        asked = daemon.ask(wire.frame("counters"), most)
        assert 0 < asked < most, asked
        grown = mps.memory_kib(server) - memory
        print("    %d requests; the server has %d KiB more" % (asked, grown))
        assert grown < 4096 * mps.SLOW, grown  # a sanitizer keeps what was freed
        equal(daemon.read("counters", asked), asked * n)
        daemon.sock.close()
        service.start()
        wait_for("the clients", lambda: service.servers() and len(service.counters()) == n)
        link_is_whole(service, server, 2)


def test_server_that_reads_nothing():
    """The daemon keeps what it has to tell the server."""
    service = test_config_file.Service(LIMIT % 64)
    with service, crowd(service, 1, group=wire.variable(GROUP.encode())):
        server = service.server()
        path = service.folder + "/trace.json"
        os.kill(server, signal.SIGSTOP)
        try:
            # Each change is a frame; the socket takes some dozens.
            for limit in range(100, 300):
                service.command("group", "set", GROUP, "-device_pinned_mem_limit", "0",
                                "%dM" % limit)
            contains(service.command("trace", "start", path).stdout, "Tracing server %d" % server)
            service.command("stats")
        finally:
            os.kill(server, signal.SIGCONT)
        wait_for("the last limit", lambda: limits(service) == {299 * MIB: 1})
        contains(service.command("--strict", "trace", "stop", path).stdout, path)
        link_is_whole(service, server)


def fills(service):
    """Of the clients that are there, and of all clients of their user."""
    said = json.loads(service.command("stats", "--json").stdout)
    return sum(client["fills"] for client in said["clients"]), said["users"][0]["fills"]


def test_link_that_breaks():
    """Both sides say once that the link is lost, and once that it is back. Clients stay."""
    group = wire.variable(GROUP.encode())
    service = test_config_file.Service(LIMIT % 64)
    with service, crowd(service, 2 * OF_A_PROCESS, group=group):
        server = service.server()
        before = sorted(service.clients())
        process = test_stats.worked(service)
        done = fills(service)
        assert done[0] > 0 and done[0] == done[1], done
        with server_link.of(server, service.daemon_pid()) as link:
            link.shutdown(socket.SHUT_RDWR)
        service.wait_for_log("Server %d of user %d is connected again" % (server, os.getuid()),
                             "control")
        wait_for("the clients", lambda: sorted(service.clients()) == sorted([*before, process.pid]))
        # What the daemon knows of them stays, and no work counts twice.
        equal(sorted(str(client["group"]) for client in service.counters()),
              ["None"] + [GROUP] * len(before))
        equal(fills(service), done)
        equal(service.control_log().count("Server %d of user %d has lost its connection"
                                          % (server, os.getuid())), 1)
        log = service.server_log()
        equal((log.count(LOST), log.count(BACK)), (1, 1))
        equal(session.hello(service), session.WELCOMED)


if __name__ == "__main__":
    harness.main(globals())
