# SPDX-License-Identifier: Apache-2.0
"""Random sequences of commands, client starts, kills, stops and faults.

    sequences.play(dice, number)
    sequences.play(dice, number, named_sequences.NamedWorld)

A service is random: its modes, and the number of sequences that it lives. At the end of each
sequence, all its clients are gone: then nothing of them may be left. At the end of a service,
control.log is compared with the actions (control_log.py).
"""

import collections
import contextlib
import os
import signal
import socket
import subprocess
import time

import control_log
import mps
import operator_lines
from chaos_client import ABSENT, CUT, REFUSED, SERVED, Client
from harness import SLOW, need_root, wait_for

UIDS = (0,) + tuple(range(12345, 12353))
SERVER_USER = "nobody"
GRACE_S = 0.5
# A server that has to end does so within its grace, five seconds, and two for each signal.
SERVER_END_S = GRACE_S + 5 + 4
# Commands that only query; others wait for a server at most.
ASKING_S, PROMPT = 2, ("get_server_list", "get_server_status", "get_client_list")
BUSY_S = 3  # of a machine with other work
REST_S = 60
SEQUENCES = (5, 30)  # of a service
STEPS = (3, 14)
CLIENTS_MAX = 10
# Programs, and whether they end by themselves and succeed if their server is undisturbed.
PROGRAMS = (("process1", True), ("process2", True), ("patient", True), ("matmul", True),
            ("leaver", True), ("events", True), ("fault", False), ("stuck", None))
REFUSALS = ("times within", "is quitting", "isolated programs", "was not ready within",
            "accepts no client until", "client connections", "servers with clients")
# Descriptors of the daemon for each server: its connection, a pidfd, a pipe of its lines.
FILES_A_SERVER = 3
# Threads of the daemon: the loop's, and from the first reload on those of libuv's pool.
DAEMON_THREADS = (1, 5)
DAEMON_KIB = 8 << 10
GROWTH_KIB = 64 << 10
# Sequences between two checks of what servers hold.
LOOK_EACH = 8


class Hang(AssertionError):
    """A time limit was exceeded."""


class Operator:
    """Gives commands, and records them with their replies."""

    def __init__(self, world):
        self.world, self.said = world, []
        self.waiting = []  # (command, socket, bytes so far)
        self.slowest = collections.Counter()

    def connect(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(REST_S * SLOW)
        sock.connect(self.world.service.pipe + "/control")
        return sock

    def send(self, line):
        """The connection, and the record of the command."""
        command = control_log.Command(line, None, line.split()[0] in PROMPT)
        sock = self.connect()
        self.said.append(command)
        sock.sendall(line.encode() + b"\n\x04\n")
        return command, sock

    def ask(self, line, bound_s=ASKING_S):
        """The lines of the reply; None: the daemon has ended meanwhile."""
        began = time.monotonic()
        try:
            command, sock = self.send(line)
        except OSError:
            return None
        with sock:
            text = self.read(line, sock)
        took = time.monotonic() - began
        name = line.split()[0]
        self.slowest[name] = max(self.slowest[name], took)
        if took > (bound_s + BUSY_S) * SLOW:
            raise Hang("%s took %.1f s, not %.1f" % (line, took, bound_s))
        if text.endswith("\x04"):
            command.reply = text[:-1].splitlines()
        return command.reply

    @staticmethod
    def read(line, sock):
        text = b""
        try:
            while not text.endswith(b"\x04"):
                more = sock.recv(65536)
                if not more:
                    break
                text += more
        except TimeoutError:
            raise Hang("no answer to %s" % line) from None
        except ConnectionError:
            pass
        return text.decode("utf-8", "replace")

    def leave(self, line):
        """Gives a command that may wait for other clients; its reply is read at rest."""
        with contextlib.suppress(OSError):
            command, sock = self.send(line)
            command.is_left = True
            self.waiting.append((command, sock))

    def collect(self):
        for command, sock in self.waiting:
            with sock:
                text = self.read(command.line, sock)
            if text.endswith("\x04"):
                command.reply = text[:-1].splitlines()
        self.waiting = []

    def ask_as(self, uid, line):
        """The same by another user, in a separate process; its reply is not recorded."""
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                with self.connect() as sock:
                    sock.sendall(line.encode() + b"\n\x04\n")
                    self.read(line, sock)
                os._exit(0)
            except OSError:
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            raise Hang("no answer to %s of user %d" % (line, uid))


class World:
    """A service, its clients, and all actions."""

    REFUSALS = REFUSALS

    def __init__(self, dice):
        self.dice = dice
        self.is_multiuser = dice.random() < 0.3
        self.is_exclusive = dice.random() < 0.3
        settings = {"MPS_GRACE_MS": str(int(1000 * GRACE_S * SLOW))}
        if self.is_exclusive:
            settings["SOFTGPU_COMPUTE_MODE"] = "exclusive"
        self.idle_s = 1 if dice.random() < 0.3 else 0
        if self.idle_s:
            settings["MPS_IDLE_S"] = str(self.idle_s)
        self.is_partitioned = dice.random() < 0.15
        self.service = mps.Service(settings, options=["-M"] * self.is_multiuser
                                   + ["-S"] * self.is_partitioned)
        # Servers of all users write their counts there.
        os.chmod(self.service.folder, 0o1777)
        if self.is_multiuser:
            self.service.daemon_env["MPS_SERVER_USER"] = SERVER_USER
        self.users = dice.sample(UIDS, 4)
        self.operator = Operator(self)
        self.commands = operator_lines.table()
        self.clients, self.programs, self.ever = [], [], []
        self.stopped, self.stopped_at = [], 0.0  # PIDs of stopped servers; time of the first
        self.files = None
        self.held = {}  # PID of a server -> what it held at its first check
        self.is_harmed = False
        # Programs may lack memory, or a partition of SMs.
        self.is_limited = self.is_partitioned
        self.steps = []  # the actions of this sequence, to report with a failure
        self.counts = collections.Counter()

    def modes(self):
        return " ".join(name for name, is_on in (
            ("-M", self.is_multiuser), ("-S", self.is_partitioned), ("exclusive", self.is_exclusive),
            ("idle", self.idle_s)) if is_on) or "plain"

    def servers(self):
        return [int(pid) for pid in self.operator.ask("get_server_list") or []]

    def some_server(self):
        servers = [pid for pid in self.servers() if mps.is_alive(pid)]
        return self.dice.choice(servers) if servers else 0

    # ---- steps

    def step_client(self):
        if len(self.clients) >= CLIENTS_MAX:
            return
        uid = self.dice.choice(self.users)
        self.add_client(self.service, uid)

    def add_client(self, service, uid, name=None):
        client = Client(service, self.dice, uid, program=self.dice.randrange(1, 6),
                        is_isolated=int(self.dice.random() < 0.15), command=b"chaos")
        client.name = name
        self.clients.append(client)
        self.steps.append("client %d of %d%s" % (client.pid, uid, " in " + name if name else ""))

    def some_client(self):
        living = [client for client in self.clients if not client.is_over]
        return self.dice.choice(living) if living else None

    def step_work(self):
        client = self.some_client()
        if client:
            client.order("work")

    def step_end(self):
        client = self.some_client()
        if client and not client.is_stopped and client.look():
            client.end()
            self.steps.append("end of %d" % client.pid)

    def step_kill(self):
        client = self.some_client()
        if client:
            client.end(is_killed=True)
            self.steps.append("kill of %d" % client.pid)

    def step_stop(self):
        client = self.some_client()
        if client:
            client.signal(signal.SIGCONT if client.is_stopped else signal.SIGSTOP)
            self.steps.append("stop or start of %d" % client.pid)

    def step_fault(self):
        client = self.some_client()
        if client:
            client.order("fault")
            self.harm("fault of %d" % client.pid)

    def harm(self, what):
        """From now on in this sequence, clients may lose their server."""
        self.is_harmed = True
        self.steps.append(what)

    def step_program(self):
        if len(self.programs) >= 3:
            return
        uid = self.dice.choice(self.users)
        name, ends_well = self.dice.choice(PROGRAMS)
        env = {"MPS_ISOLATE": "1"} if self.dice.random() < 0.1 else {}
        who = {"user": uid, "group": uid, "extra_groups": []}
        words = ("call",) if name == "stuck" else ()
        self.programs.append((self.service.popen(name, *words, env=env, **who), ends_well))
        if ends_well is False:
            self.is_harmed = True
        self.steps.append("%s of %d" % (name, uid))

    def step_command(self):
        """Any command except those with a separate step."""
        name, usage = self.dice.choice(sorted(self.commands.items()))
        if name in ("quit", "shutdown_server", "terminate_client", "suspend_client"):
            return
        known = {"PID": [str(pid) for pid in self.servers()]}
        line = operator_lines.line_of(self.dice, name, usage, known)
        self.steps.append(line)
        self.is_limited = self.is_limited or name.endswith("device_pinned_mem_limit")
        if name == "start_server":
            self.operator.leave(line)
        elif self.dice.random() < 0.3:
            self.operator.ask_as(self.dice.choice(UIDS), line)
        else:
            self.operator.ask(line, ASKING_S if name in PROMPT else SERVER_END_S)

    def step_terminate(self):
        if "terminate_client" not in self.commands:
            return
        pid, clients = self.some_server(), []
        if pid:
            clients = self.operator.ask("get_client_list %d" % pid) or []
        line = "terminate_client %d %s" % (pid, self.dice.choice(clients + ["1"]))
        self.harm(line)
        self.operator.ask(line, SERVER_END_S)

    def step_suspend(self):
        if "suspend_client" not in self.commands:
            return
        uid = self.dice.choice(self.users)
        self.steps.append("suspend_client -uid %d" % uid)
        self.operator.ask("suspend_client -uid %d -t 1" % uid)
        self.operator.ask("resume_client -uid %d" % uid, SERVER_END_S)

    def step_shutdown(self):
        pid = self.some_server()
        if pid:
            line = "shutdown_server %d%s" % (pid, self.dice.choice(("", " -f")))
            if line.endswith("-f"):
                self.is_harmed = True
            self.steps.append(line)
            self.operator.ask(line)

    def step_nonsense(self):
        line = self.dice.choice(("no such command", "get_server_list x y z", "quit -t -1", "\x15 x",
                                 "get_client_list", "shutdown_server 1 -g", "%s%n" * 9, "q" * 900))
        self.steps.append(line)
        with contextlib.suppress(OSError), self.operator.connect() as sock:
            sock.sendall(line.encode() + self.dice.choice((b"\n", b"", b"\r\n", b"\n\x15\n\x04\n")))

    def step_kill_server(self):
        pid = self.some_server()
        if pid:
            self.harm("kill of server %d" % pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def step_stop_server(self):
        pid = self.some_server()
        if pid:
            self.steps.append("stop of server %d" % pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            if not self.stopped:
                self.stopped_at = time.monotonic()
            self.stopped.append(pid)

    def step_hup(self):
        self.steps.append("SIGHUP")
        self.service.daemon.send_signal(signal.SIGHUP)

    def step_kill_daemon(self):
        self.harm("kill of the daemon")
        self.service.daemon.kill()
        self.service.daemon.wait()
        self.service.start()

    def step_quit(self):
        """The daemon is told to end while there are clients, and another one is started."""
        line = "quit -t %d" % self.dice.choice((0, 0, 1))
        self.harm(line)
        self.go_on()
        if self.dice.random() < 0.3:
            self.service.daemon.terminate()
        else:
            self.operator.ask(line, 1 + 2 * SERVER_END_S)
        self.await_end()
        self.service.start()

    def await_end(self):
        try:
            self.service.daemon.wait((1 + 2 * SERVER_END_S + BUSY_S) * SLOW)
        except subprocess.TimeoutExpired:
            raise Hang("the daemon does not end") from None

    STEPS = ((step_client, 40), (step_work, 25), (step_end, 12), (step_kill, 8), (step_stop, 8),
             (step_fault, 2), (step_program, 6), (step_command, 25), (step_terminate, 4),
             (step_suspend, 3), (step_shutdown, 3), (step_nonsense, 4), (step_kill_server, 2),
             (step_stop_server, 2), (step_hup, 1), (step_kill_daemon, 1), (step_quit, 1))

    # ---- a sequence

    def sequence(self):
        self.is_harmed, self.steps = False, []
        steps, weights = zip(*self.STEPS)
        for step in self.dice.choices(steps, weights, k=self.dice.randint(*STEPS)):
            self.counts[step.__name__[5:]] += 1
            step(self)
            if self.dice.random() < 0.3:
                time.sleep(self.dice.uniform(0, 0.03))
        self.rest()

    def go_on(self):
        """Continues the stopped servers early enough that nothing fails."""
        if self.stopped and time.monotonic() - self.stopped_at > GRACE_S + 4:
            self.is_harmed = True
        for pid in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []

    def is_child(self, pid):
        """Whether the daemon has started that server, which may have ended by now."""
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
                return int(file.read().rpartition(")")[2].split()[1]) == self.service.daemon.pid
        except OSError:
            return True

    def rest(self):
        """All clients end, some of them after they have waited for their turn."""
        for client in self.clients:
            if client.is_stopped:
                client.signal(signal.SIGCONT)
        # Sometimes the daemon has to detect a stopped server by itself, and ends it. It detects an
        # adopted one only when a client comes (docs/reliability.md).
        if self.dice.random() < 0.7 or not all(map(self.is_child, self.stopped)):
            self.go_on()
        elif self.stopped:
            self.is_harmed = True
        deadline = time.monotonic() + REST_S * SLOW
        self.end_programs(deadline)
        while any(not client.is_over for client in self.clients):
            for client in self.clients:
                if not client.is_over and client.look():
                    client.end()
            if time.monotonic() > deadline:
                raise Hang("clients wait for ever: %s" % [
                    (c.pid, c.uid) for c in self.clients if not c.is_over])
            time.sleep(0.01)
        self.operator.collect()
        self.judge_clients()
        self.nothing_left()
        self.go_on()

    def end_programs(self, deadline):
        for process, ends_well in self.programs:
            if ends_well is None:
                process.kill()
            # With turns, they wait for clients that only wait to be ended.
            while process.poll() is None and time.monotonic() < deadline:
                for client in self.clients:
                    if not client.is_over and client.look():
                        client.end()
                time.sleep(0.01)
            code, out, err = self.service.finish(process)
            self.service.started.remove(process)
            if ends_well is not None and code < 0:
                raise AssertionError("%s died of signal %d: %s%s" % (
                    process.args[0], -code, out, err))
            if ends_well and code and not self.is_harmed and not self.is_limited:
                raise AssertionError("%s failed: %s%s" % (process.args[0], out, err))
        self.programs = []

    def judge_clients(self):
        for client in self.clients:
            self.counts[client.how or "ended early"] += 1
            if client.how == REFUSED and not any(part in client.text for part in self.REFUSALS):
                raise AssertionError("client %d was refused: %s" % (client.pid, client.text))
            # Its server was deleted before the daemon accepted the connection.
            if client.name and (client.how == ABSENT or "reset by peer" in client.text):
                continue
            if client.how in (CUT, ABSENT) and not self.is_harmed:
                raise AssertionError("client %d was dropped: %s" % (client.pid, client.text))
            if client.how in (SERVED, REFUSED):
                self.ever.append(control_log.Client(client.pid, client.uid, client.server,
                                                    client.began, client.ended, client.name))
        self.clients = []

    def clients_left(self):
        return [pid for server in self.servers()
                for pid in self.operator.ask("get_client_list %d" % server) or []
                if pid.isdigit()]

    def nothing_left(self):
        wait_for("servers without clients", lambda: not self.clients_left(),
                 (2 * SERVER_END_S + BUSY_S) * SLOW)
        wait_for("daemon and servers alone", self.is_alone, (2 * SERVER_END_S + BUSY_S) * SLOW)

    def is_alone(self):
        mine = {self.service.daemon.pid, *self.servers()}
        return set(self.service.processes()) <= mine

    # ---- what servers and daemon hold

    def look(self):
        """Descriptors, threads and memory, of the daemon and of servers that existed before."""
        wait_for("the daemon to hold what it held", self.daemon_is_as_before, 20 * SLOW)
        if not os.environ.get("MPS_SAN"):
            kib = mps.memory_kib(self.service.daemon.pid)
            assert kib < DAEMON_KIB, "the daemon has grown to %d KiB" % kib
        servers = self.servers()
        self.held = {pid: held for pid, held in self.held.items() if pid in servers}
        for pid in servers:
            self.look_at_server(pid)

    def further_files(self):
        return 0

    def daemon_is_as_before(self):
        servers = self.servers()
        pid = self.service.daemon.pid
        files = len(mps.open_files(pid)) - FILES_A_SERVER * len(servers) - self.further_files()
        if self.files is None:
            self.files = files
        return (files == self.files and mps.thread_count(pid) in DAEMON_THREADS
                and servers == self.servers())

    def look_at_server(self, pid):
        """A server may end at any time; one that lives holds no more than at first."""
        def holds():
            try:
                return len(mps.open_files(pid)), mps.thread_count(pid), mps.memory_kib(pid)
            except (OSError, AttributeError):
                return 0, 0, 0

        # The daemon's own server may still open its GPU after the first check.
        if self.service.stats(pid)["launches"] == 0:
            return
        if pid not in self.held:
            self.held[pid] = holds()
            return
        files, threads, kib = self.held[pid]
        try:
            wait_for("", lambda: holds()[0] <= files and holds()[1] <= threads, 20 * SLOW)
        except AssertionError:
            raise AssertionError("server %d has %s descriptors and threads, first %s" % (
                pid, holds()[:2], (files, threads))) from None
        assert os.environ.get("MPS_SAN") or holds()[2] < kib + GROWTH_KIB, "the server has grown"

    def check_log(self):
        log = control_log.Log(self.service.control_log(), self.is_exclusive, self.is_multiuser)
        complaints = log.check(self.operator.said, self.ever)
        assert not complaints, "control.log: %s" % "\n".join(complaints[:20])

    # ---- the run

    def play(self, n):
        self.service.start()
        self.daemon_is_as_before()
        for i in range(n):
            self.sequence()
            if i % LOOK_EACH == LOOK_EACH - 1:
                self.look()
        self.operator.ask("quit -t 1", 1 + 2 * SERVER_END_S)
        self.await_end()
        left = self.service.processes()
        assert not left, "left after quit: %s" % [mps.command_line(pid) for pid in left]
        self.check_log()

    def end(self, is_failed):
        self.go_on()
        for client in self.clients:
            client.end(is_killed=True)
        if is_failed:
            print("    the last steps: %s" % "; ".join(self.steps))
            self.service.show_logs()
        self.service.end_everything()
        mps.shutil.rmtree(self.service.folder, ignore_errors=True)


def play(dice, n, kind=World):
    """Plays so many sequences, on as many services as needed."""
    need_root()
    began = time.monotonic()
    counts, slowest, done = collections.Counter(), collections.Counter(), 0
    while done < n:
        world = kind(dice)
        length = min(dice.randint(*SEQUENCES), n - done)
        is_failed = True
        try:
            world.play(length)
            is_failed = False
        finally:
            world.end(is_failed)
        done += length
        counts.update(world.counts)
        slowest |= world.operator.slowest
        if length > 5 or done == n:
            print("    %4d sequences, %.0f s (%s)" % (
                done, time.monotonic() - began, world.modes()), flush=True)
    print("    %s" % ", ".join("%d %s" % (count, name) for name, count in sorted(counts.items())))
    print("    slowest replies: %s" % ", ".join("%s %.0f ms" % (name, 1000 * s)
                                                for name, s in sorted(slowest.items())))
