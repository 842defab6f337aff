# SPDX-License-Identifier: Apache-2.0
"""Many clients of many users that work regularly, beside strangers, scrapes and restarts.

    crowd.play(dice, n_users, seconds)

Each user has a server, PROGRAMS programs (regular.c), and a process with SESSIONS sessions that
speaks the protocol itself and measures how long a piece of work takes.
Each client does a small piece of work again and again, and checks the result. Meanwhile commands
of root and scrapes of the metrics are answered within their bound, strangers play the acts of
floods.py in turn, and the daemon is killed and started again, as an upgrade does it. At the end
each client is there, and `ps' has exactly these clients.
"""

import collections
import contextlib
import http.client
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import exposition
import floods
import mps
import session
import wire
from harness import SLOW, equal, need_root, wait_for

FIRST_UID, STRANGER_UID = 20000, 61003
PROGRAMS, SESSIONS = 8, 2  # of each user
CLIENTS = PROGRAMS + SESSIONS
NAP_S = 1.0  # of a process between two pieces of work
# Of a command and a scrape (as Prometheus waits); of the adoption of all servers; of the start of a
# user's clients, as starts of servers are limited; of a client's answer.
COMMAND_S, ADOPTION_S, ARRIVAL_S, ANSWER_S = 10, 30, 60, 30
RESTART_S = 60  # between two restarts of the daemon
REPORT_S = 60
PAGE = 4096
LINES = (("ps",), ("get_server_list",), ("stats", "--json"), ("metrics",), ("ps", "-l", "--json"))


class Worker(session.Asker):
    """A session that copies through the GPU's memory."""

    def open(self):
        equal(self.ask("device_open")[0], 0, "device_open")
        result, answer = self.ask("memory_alloc", size=2 * PAGE)
        equal(result, 0, "memory_alloc")
        self.address, self.value = answer["address"], 0
        return self

    def work(self):
        words = os.urandom(PAGE)
        self.staging[:PAGE], self.staging[PAGE:2 * PAGE] = words, bytes(PAGE)
        self.value += 1
        for message, values in (
                ("copy_in", {"dst": self.address, "offset": 0, "size": PAGE}),
                ("copy_device", {"dst": self.address + PAGE, "src": self.address, "size": PAGE}),
                ("copy_out", {"src": self.address + PAGE, "offset": PAGE, "size": PAGE}),
                ("seqno_write", {"value": self.value})):
            self.place(wire.message(message, **values))
        wait_for("the end of the copies", lambda: self.is_done() or self.is_dropped(),
                 ANSWER_S * SLOW)
        assert self.is_done(), "the server has hung up"
        assert self.staging[PAGE:2 * PAGE] == words, "the copy differs"
        equal(self.ask("memory_info")[0], 0, "memory_info")

    def is_done(self):
        return struct.unpack_from("<Q", self.page, wire.TIMELINE)[0] == self.value


def is_over(sock, nap_s):
    """Waits; whether the other end has been closed meanwhile."""
    sock.settimeout(nap_s)
    try:
        return not sock.recv(1)
    except TimeoutError:
        return False


class Sessions:
    """A process of a user with SESSIONS sessions, forked from this one."""

    n_clients = SESSIONS

    def __init__(self, service, uid):
        self.sock, other = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self.be_child(service, uid, other)
        other.close()
        self.text = b""

    def be_child(self, service, uid, parent):
        """Does not return."""
        status = 1
        try:
            kept = parent.fileno()
            os.closerange(3, kept)
            os.closerange(kept + 1, 1 << 20)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            self.live(service, parent)
            status = 0
        except BaseException:
            with contextlib.suppress(OSError):
                parent.sendall(traceback.format_exc().encode())
        finally:
            os._exit(status)

    @staticmethod
    def live(service, parent):
        workers = [Worker(service).open() for _ in range(SESSIONS)]
        for worker in workers:
            worker.work()
        parent.sendall(b"worked\n")
        slowest, n = 0, 0
        while not is_over(parent, NAP_S):
            began = time.monotonic()
            workers[n % SESSIONS].work()
            slowest = max(slowest, time.monotonic() - began)
            n += 1
        for worker in workers:
            worker.work()
            assert not worker.is_dropped(), "the server has hung up"
        parent.settimeout(None)
        parent.sendall(b"%f %d" % (slowest, n))

    def await_work(self):
        self.sock.settimeout(ARRIVAL_S * SLOW)
        said = self.sock.recv(1 << 16)
        assert said == b"worked\n", said.decode()

    def is_lost(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self):
        """Why it has lost a client, or ""; and its slowest piece of work, and how many pieces."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(2 * ANSWER_S * SLOW)
        said = self.sock.makefile("rb").read().decode()
        _, status = os.waitpid(self.pid, 0)
        if status:
            return "process %d, status %d: %s" % (self.pid, status, said), 0, 0
        slowest, n = said.split()
        return "", float(slowest), int(n)

    def kill(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)


class Program:
    """A preloaded program."""

    n_clients = 1

    def __init__(self, service, uid):
        self.service = service
        self.process = service.popen("regular", stdin=subprocess.PIPE, env={"MPS_CLIENT_REQUIRE": "1"},
                                     user=uid, group=uid, extra_groups=[])
        self.pid = self.process.pid

    def await_work(self):
        said = self.process.stdout.readline()
        equal(said, "regular: worked\n", "" if said else self.process.stderr.read())

    def is_lost(self):
        return self.process.poll() is not None

    def end(self):
        code, out, err = self.service.finish(self.process)
        self.service.started.remove(self.process)
        is_well = code == 0 and out == "regular: ok\n"
        return "" if is_well else "program %d, %d: %s%s" % (self.pid, code, out, err), 0, 0

    def kill(self):
        """The service does it."""


class Crowd:
    def __init__(self, service, dice, n_users, port):
        self.service, self.dice, self.n_users, self.port = service, dice, n_users, port
        self.clients = []
        self.generation = 0  # odd: the daemon is being replaced
        self.lock = threading.Lock()  # of a command that needs the daemon
        self.over = threading.Event()
        self.failures = []
        self.slowest, self.n = collections.Counter(), collections.Counter()
        self.flood = None

    # ---- clients

    def arrive(self):
        """Users come one after another, each with all clients."""
        began = time.monotonic()
        for uid in range(FIRST_UID, FIRST_UID + self.n_users):
            ours = [Sessions(self.service, uid)]
            self.clients += ours
            ours += [Program(self.service, uid) for _ in range(PROGRAMS)]
            self.clients += ours[1:]
            for client in ours:
                client.await_work()
        print("    %d clients of %d users after %.0f s; %s" % (
            self.n_users * CLIENTS, self.n_users, time.monotonic() - began, self.memory()), flush=True)

    def memory(self):
        """What all processes of the service hold now."""
        found = collections.Counter()
        for pid in self.service.processes():
            name = mps.status_of(pid, "Name")
            with contextlib.suppress(OSError), open("/proc/%d/smaps_rollup" % pid,
                                                    encoding="ascii") as file:
                found[name] += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        return ", ".join("%s %d MiB" % (name, kib >> 10) for name, kib in found.most_common())

    def wanted(self):
        """PID -> how many clients `ps' has to list."""
        return {client.pid: client.n_clients for client in self.clients}

    def listed(self):
        lines = self.service.command("ps", timeout=COMMAND_S).stdout.splitlines()[1:]
        found = collections.Counter(int(line.split()[0]) for line in lines)
        wanted = self.wanted()
        # Strangers may be clients, too.
        return {pid: n for pid, n in found.items() if pid in wanted}

    # ---- what must be answered

    def measure(self, name, ask):
        """Asks; an answer that does not come counts unless the daemon was replaced meanwhile."""
        generation, began = self.generation, time.monotonic()
        try:
            ask()
        except Exception as why:
            if generation % 2 == 0 and generation == self.generation:
                self.failures.append("%s: %r" % (name, why))
            return
        took = time.monotonic() - began
        self.n[name] += 1
        self.slowest[name] = max(self.slowest[name], took)
        if took > COMMAND_S * SLOW:
            self.failures.append("%s took %.1f s" % (name, took))

    def command(self):
        words = self.dice.choice(LINES)
        with self.lock:
            self.measure(" ".join(words), lambda: self.service.command(
                *words, timeout=3 * COMMAND_S))

    def scrape(self):
        """From another address than the strangers': those of one address share its connections."""
        def ask():
            conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3 * COMMAND_S * SLOW,
                                              source_address=("127.0.0.2", 0))
            with contextlib.closing(conn):
                conn.request("GET", "/metrics")
                exposition.read(conn.getresponse().read().decode())
        self.measure("scrape", ask)

    def each_second(self, ask):
        while not self.over.wait(1):
            ask()

    # ---- what disturbs them

    def restart(self):
        """Replaces the daemon; the next one knows all servers and clients again."""
        with self.lock:
            self.generation += 1
            self.service.daemon.kill()
            self.service.daemon.wait()
            began = time.monotonic()
            self.service.start()
            wait_for("the clients of all servers", lambda: self.listed() == self.wanted(),
                     ADOPTION_S * SLOW)
            self.slowest["adoption"] = max(self.slowest["adoption"], time.monotonic() - began)
            self.n["adoption"] += 1
            self.generation += 1

    def begin_act(self, name, seconds):
        words = (name, STRANGER_UID, self.service.pipe, self.port, seconds)
        self.flood = subprocess.Popen([sys.executable, floods.__file__, *map(str, words)],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.n["act " + name] += 1

    def end_act(self):
        flood, self.flood = self.flood, None
        if flood:
            _, said = flood.communicate(timeout=60 * SLOW)
            equal(flood.returncode, 0, said)

    def look(self):
        lost = [client.pid for client in self.clients if client.is_lost()]
        assert not lost, "processes %s have ended" % lost
        assert not self.failures, "\n".join(self.failures[:20])

    def disturb(self, seconds, restart_s, act_s):
        """Acts in turn and restarts, until the time is over and each act was there."""
        names = sorted(floods.ACTS)
        self.dice.shuffle(names)
        began = told = time.monotonic()
        restarted, n = began, 0
        while time.monotonic() < began + seconds or n < len(names):
            self.begin_act(names[n % len(names)], act_s)
            n += 1
            while self.flood.poll() is None:
                time.sleep(0.2)
                self.look()
                if time.monotonic() > restarted + restart_s:
                    self.restart()
                    restarted = time.monotonic()
            self.end_act()
            if time.monotonic() > told + REPORT_S:
                told = time.monotonic()
                print("    %5d s: %s" % (told - began, self.sums()), flush=True)

    def sums(self):
        return ", ".join("%d %s%s" % (n, name, " (%.2f s)" % self.slowest[name]
                                      if name in self.slowest else "")
                         for name, n in sorted(self.n.items()))

    # ---- the whole

    def run(self, seconds, restart_s, act_s):
        try:
            self.arrive()
            threads = [threading.Thread(target=self.each_second, args=(ask,))
                       for ask in (self.command, self.scrape)]
            for thread in threads:
                thread.start()
            try:
                self.disturb(seconds, restart_s, act_s)
            finally:
                self.over.set()
                for thread in threads:
                    thread.join()
            self.look()
            self.judge()
        except BaseException:
            if self.flood:
                self.flood.kill()
                self.flood.wait()
            for client in self.clients:
                client.kill()
            raise

    def judge(self):
        equal(self.listed(), self.wanted(), "ps")
        rows = self.service.counters()
        found = collections.Counter(row["pid"] for row in rows)
        equal({pid: found[pid] for pid in self.wanted()}, self.wanted(), "stats")
        print("    %s; %s" % (self.sums(), self.memory()))
        ends = [client.end() for client in self.clients]
        complaints = [text for text, _, _ in ends if text]
        assert not complaints, "%d lost: %s" % (len(complaints), "\n".join(complaints[:10]))
        wait_for("the end of all clients", lambda: not self.listed())
        print("    %d pieces of work by sessions, the slowest %.2f s" % (
            sum(n for _, _, n in ends), max(slowest for _, slowest, _ in ends)))


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def play(dice, n_users, seconds, restart_s=RESTART_S, act_s=15):
    need_root()
    port = free_port()
    service = mps.Service()
    with tempfile.NamedTemporaryFile("w") as subordinates:
        subordinates.write("%d:%d:%d\n" % (STRANGER_UID, floods.SUBORDINATES,
                                           floods.N_SUBORDINATES))
        subordinates.flush()
        service.daemon_env.update(MPS_METRICS_LISTEN="127.0.0.1:%d" % port,
                                  MPS_SERVERS_MAX=str(2 * n_users + 8),
                                  MPS_SUBUID_FILE=subordinates.name)
        # Servers of all users write their counts there.
        os.chmod(service.folder, 0o1777)
        with service:
            Crowd(service, dice, n_users, port).run(seconds, restart_s, act_s)
