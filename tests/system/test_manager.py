#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
# mostly waits
"""The service manager's side of the daemon: states, watchdog and the socket that it passes.

The test takes the place of systemd. tests/cluster/test_systemd.py has a real one.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness
import mps
from harness import SLOW, contains, equal, need_root, wait_for
from test_daemon import Client, Daemon

# Runs words as a process that has the socket as descriptor 3, as sd_listen_fds(3) describes.
PASS_SOCKET = """
import os, sys
fd, n, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
os.dup2(fd, 3)
os.environ.update(LISTEN_FDS=n, LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="mps-control.socket")
os.execv(words[0], words)
"""


class Manager:
    """The socket of a service manager, and what the daemon has sent there."""

    def __init__(self, address):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(address.replace("@", "\0", 1))
        if not address.startswith("@"):
            os.chmod(address, 0o777)
        self.address = address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def next(self, pattern, skip=r"WATCHDOG=1"):
        """The next message but those that match skip; it has to match the pattern."""
        self.sock.settimeout(20 * SLOW)
        while True:
            text = self.sock.recv(1000).decode()
            if re.fullmatch(pattern, text):
                return text
            assert re.fullmatch(skip, text), "%r, want %r" % (text, pattern)

    def none(self, seconds):
        """No message comes in that time, other than signs of life."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.sock.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                equal(self.sock.recv(1000), b"WATCHDOG=1")
            except TimeoutError:
                return

    def environment(self, **more):
        return dict({"NOTIFY_SOCKET": self.address}, **more)


def state(word, text):
    return r"%s=1\nSTATUS=%s" % (word, text)


READY = state("READY", "0 servers, 0 clients")


def start(daemon, mode="-f", launcher=(), fds=(), **environment):
    """Starts the daemon in the foreground; its standard error is a pipe."""
    return subprocess.Popen([*launcher, daemon.control, mode], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, pass_fds=fds,
                            env=dict(daemon.environment, **environment))


def comes(daemon):
    """Waits until the daemon answers: its files are complete then."""
    wait_for("the daemon", daemon.listens)
    equal(daemon.ask("get_server_list"), "")


def finish(process):
    """Exit status and standard error of a daemon that ends."""
    _, err = process.communicate(timeout=20 * SLOW)
    return process.returncode, err


# ---- states

def test_ready_and_stopping():
    """By a path and by an abstract address."""
    for abstract in (False, True):
        with Daemon(start=False) as daemon:
            address = "@" + daemon.root if abstract else daemon.root + "/notify"
            with Manager(address) as manager:
                process = start(daemon, **manager.environment())
                manager.next(READY)
                equal(daemon.ask("get_server_list"), "")
                daemon.ask("quit")
                manager.next(state("STOPPING", "Stopping: 0 servers, 0 clients"))
                equal(finish(process), (0, ""))


def test_manager_that_is_not_there():
    """A wrong address does not stop the daemon."""
    for address in ("/nonexistent/notify", "", "vsock:2:1234", "/" + "x" * 200):
        with Daemon(start=False) as daemon:
            process = start(daemon, NOTIFY_SOCKET=address)
            comes(daemon)
            daemon.quit()
            equal(finish(process), (0, ""), address)


def test_manager_that_does_not_read():
    """The daemon does not wait for it, and it has the last state in the end."""
    with Daemon(start=False) as daemon, Manager(daemon.root + "/notify") as manager:
        filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        filler.connect(manager.address)
        try:
            while True:
                filler.send(b"WATCHDOG=1")
        except BlockingIOError:
            pass
        process = start(daemon, **manager.environment(WATCHDOG_USEC="200000"))
        comes(daemon)
        for _ in range(3):
            equal(daemon.ask("get_server_list"), "")
            equal(daemon.ask("reload").splitlines()[-1:], ["There is no /etc/mps.conf: the defaults apply"]
                  if not os.path.exists("/etc/mps.conf") else ["Applied /etc/mps.conf"])
        manager.next(READY, skip=r"WATCHDOG=1|RELOADING=1\n.*")
        manager.next(r"WATCHDOG=1", skip=r"RELOADING=1\n.*|" + READY)
        filler.close()
        daemon.ask("quit")
        equal(finish(process), (0, ""))


def test_manager_that_is_replaced():
    """A new socket of the same name gets what follows."""
    with Daemon(start=False) as daemon:
        with Manager(daemon.root + "/notify") as manager:
            process = start(daemon, **manager.environment(WATCHDOG_USEC="400000"))
            manager.next(READY)
        os.unlink(manager.address)
        with Manager(manager.address) as manager:
            manager.next(r"WATCHDOG=1")
            daemon.ask("quit")
            manager.next(state("STOPPING", ".*"))
        equal(finish(process), (0, ""))


def test_status():
    """The numbers of servers and clients; quit says that it waits, and STOPPING=1 only at the end."""
    with tempfile.TemporaryDirectory() as folder, Manager(folder + "/notify") as manager:
        service = mps.Service()
        service.daemon_env.update(manager.environment())
        with service:
            manager.next(READY)
            process = service.popen("process1", "--seconds", "600")
            between = state("READY", r"[01] servers?, [01] clients?")
            manager.next(state("READY", "1 server, 1 client"), skip=between)
            other = service.popen("process1", "--seconds", "600")
            manager.next(state("READY", "1 server, 2 clients"))
            quitting = subprocess.Popen([mps.CONTROL, "quit"], env=service.env, stdout=subprocess.DEVNULL)
            waits = "Quits when the clients have left: 1 server, %s"
            manager.next(state("READY", waits % "2 clients"))
            other.kill()
            manager.next(state("READY", waits % "1 client"))
            manager.none(1)
            process.kill()
            manager.next(state("STOPPING", "Stopping: 0 servers, 0 clients"),
                         skip=state("READY", waits % "[01] clients?"))
            equal(quitting.wait(20 * SLOW), 0)


def test_stopping_at_once():
    """SIGTERM, and quit with a time that is over: STOPPING=1 comes before the servers have ended."""
    for is_signal in (True, False):
        with Daemon(start=False) as daemon, Manager(daemon.root + "/notify") as manager:
            process = start(daemon, **manager.environment())
            manager.next(READY)
            client = Client(daemon)
            client.served_by()
            if is_signal:
                process.send_signal(signal.SIGTERM)
            else:
                daemon.ask("quit -t 0")
            manager.next(state("STOPPING", "Stopping: .*"), skip=state("READY", ".*"))
            equal(finish(process)[0], 0)
            client.close()


def test_reload():
    """RELOADING=1 and then READY=1, by the command and by SIGHUP, also if the file has an error."""
    with Daemon(start=False) as daemon, Manager(daemon.root + "/notify") as manager:
        path = daemon.root + "/mps.conf"

        def write(text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        write("[daemon]\nidle_s = 7\n")
        process = subprocess.Popen([daemon.control, "-c", path, "-f"], stdout=subprocess.DEVNULL,
                                   env=dict(daemon.environment, **manager.environment()))
        manager.next(READY)
        for text in ("[daemon]\nidle_s = 8\n", "[daemon]\nidle_s = x\n"):
            write(text)
            before = time.monotonic_ns() // 1000
            if "x" in text:
                contains(daemon.ask("reload"), "idle_s")
            else:
                process.send_signal(signal.SIGHUP)
            said = manager.next(r"RELOADING=1\nMONOTONIC_USEC=\d+")
            assert before <= int(said.rpartition("=")[2]) <= time.monotonic_ns() // 1000, said
            manager.next(READY)
        manager.none(0.5)
        daemon.ask("quit")
        equal(process.wait(20 * SLOW), 0)


# ---- the watchdog

def test_watchdog():
    """Signs of life come several times in the time that is allowed, also while quit waits."""
    with Daemon(start=False) as daemon, Manager(daemon.root + "/notify") as manager:
        process = start(daemon, **manager.environment(WATCHDOG_USEC="2000000"))
        manager.next(READY)
        client = Client(daemon)
        client.served_by()
        any_state = state("READY", ".*")
        quitting = None
        for i in range(12):
            manager.next(r"WATCHDOG=1", skip=any_state)
            if i == 6:
                quitting = subprocess.Popen([daemon.control, "quit"], env=daemon.environment,
                                            stdout=subprocess.DEVNULL)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        manager.sock.setblocking(False)
        try:
            while True:
                manager.sock.recv(1000)
        except BlockingIOError:
            pass
        manager.none(1)
        process.send_signal(signal.SIGCONT)
        manager.next(r"WATCHDOG=1", skip=any_state)
        client.close()
        process.send_signal(signal.SIGTERM)
        equal(finish(process)[0], 0)
        quitting.wait(20 * SLOW)


def test_watchdog_of_another_process():
    """WATCHDOG_PID names another process, or the time is no number: no signs of life."""
    for environment in ({"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "-5"},
                        {"WATCHDOG_USEC": "1e5"}, {"WATCHDOG_USEC": "0"}, {}):
        with Daemon(start=False) as daemon, Manager(daemon.root + "/notify") as manager:
            process = start(daemon, **manager.environment(**environment))
            manager.next(READY, skip="never")
            manager.sock.settimeout(0.3)
            try:
                raise AssertionError(manager.sock.recv(1000))
            except TimeoutError:
                pass
            daemon.ask("quit")
            manager.next(state("STOPPING", ".*"), skip="never")
            equal(finish(process)[0], 0)


# ---- the socket

def listener(daemon, path=None):
    """The socket as a socket unit makes it."""
    if not os.path.exists(daemon.pipe):
        os.mkdir(daemon.pipe)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path or daemon.pipe + "/control")
    os.chmod(path or daemon.pipe + "/control", 0o666)
    sock.listen()
    return sock


def activated(daemon, sock, n=1, mode="-f", **environment):
    launcher = (sys.executable, "-IS", "-c", PASS_SOCKET, str(sock.fileno()), str(n))
    return start(daemon, mode, launcher, [sock.fileno()], **environment)


def test_first_client():
    """A client that came before the daemon is served; the socket stays for the next daemon."""
    with Daemon(start=False) as daemon, listener(daemon) as sock:
        for _ in range(2):
            client = Client(daemon)
            process = activated(daemon, sock)
            assert client.served_by() in daemon.servers()
            client.close()
            daemon.ask("quit -t 0")
            equal(finish(process), (0, ""))
            equal(sorted(os.listdir(daemon.pipe)), ["control", "control_lock"])


def test_servers_do_not_have_the_socket():
    """Neither the socket nor the variables of the service manager reach a server."""
    with Daemon(start=False) as daemon, listener(daemon) as sock, \
            Manager(daemon.root + "/notify") as manager:
        process = activated(daemon, sock, **manager.environment(WATCHDOG_USEC="10000000"))
        client = Client(daemon)
        server = client.served_by()
        with open("/proc/%d/environ" % server, "rb") as file:
            names = {part.partition(b"=")[0] for part in file.read().split(b"\0")}
        equal(names & {b"LISTEN_FDS", b"LISTEN_PID", b"LISTEN_FDNAMES", b"NOTIFY_SOCKET",
                       b"WATCHDOG_USEC"}, set())
        number = os.fstat(sock.fileno()).st_ino
        assert "socket:[%d]" % number not in mps.open_files(server)
        client.close()
        daemon.ask("quit -t 0")
        equal(finish(process)[0], 0)


def test_killed_daemon_and_its_socket():
    """The next daemon gets the same socket, and adopts the servers of the previous one."""
    with Daemon(start=False) as daemon, listener(daemon) as sock:
        process = activated(daemon, sock)
        client = Client(daemon)
        server = client.served_by()
        process.kill()
        process.communicate()
        late = Client(daemon)
        process = activated(daemon, sock)
        equal(late.served_by(), server, "adopted")
        for each in (client, late):
            each.close()
        daemon.ask("quit -t 0")
        equal(finish(process)[0], 0)


def test_wrong_sockets():
    """A socket of another directory or kind, or several, is refused with what to do."""
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.pipe)
        other = daemon.root + "/control"
        with listener(daemon, other) as sock:
            code, err = finish(activated(daemon, sock))
            equal(code, 1)
            contains(err, other)
            contains(err, "ListenStream=%s/control" % daemon.pipe)
        with listener(daemon) as sock:
            code, err = finish(activated(daemon, sock, n=2))
            equal(code, 1)
            contains(err, "exactly one listening stream socket")
        ours, theirs = socket.socketpair()
        code, err = finish(activated(daemon, theirs))
        equal(code, 1)
        contains(err, "exactly one listening stream socket")
        ours.close()
        theirs.close()


def test_variables_of_another_process():
    """LISTEN_PID names another process: the daemon makes its own socket."""
    with Daemon(start=False) as daemon:
        process = start(daemon, LISTEN_PID="1", LISTEN_FDS="1")
        comes(daemon)
        daemon.quit()
        equal(finish(process)[0], 0)


# ---- the socket unit and other daemons

def check(daemon, **more):
    return daemon.run("check-directory", **more)


def test_socket_unit_beside_a_daemon():
    """What the socket unit asks before it takes the path, and a daemon that comes second."""
    with Daemon(start=False) as daemon:
        done = check(daemon)
        equal((done.returncode, done.stdout), (0, "%s: no daemon has it\n" % daemon.pipe), done.stderr)
        equal(sorted(os.listdir(daemon.pipe)), ["control_lock"])
        equal(os.stat(daemon.pipe + "/control_lock").st_mode & 0o777, 0o600)

        equal(daemon.run("-d").returncode, 0)
        done = check(daemon)
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "mps-control quit")
        equal(daemon.ask("get_server_list"), "", "the daemon has not noticed it")
        daemon.quit()

        # Another program, such as NVIDIA's daemon, and then systemd itself listens.
        with listener(daemon):
            done = check(daemon)
            equal(done.returncode, 1)
            contains(done.stderr, "listens on %s/control" % daemon.pipe)
            done = daemon.run("-d")
            equal(done.returncode, 1)
            contains(done.stderr, "systemctl start mps-control")
        equal(check(daemon).returncode, 0, "a socket without a listener")


def test_activated_beside_a_daemon():
    """The lock decides: the daemon that was there stays, and the other one says why it ends."""
    with Daemon() as daemon:
        os.unlink(daemon.pipe + "/control")
        with listener(daemon) as sock, Manager(daemon.root + "/notify") as manager:
            code, err = finish(activated(daemon, sock, **manager.environment()))
            equal(code, 1)
            contains(err, "Another daemon")
            manager.none(0.1)
        os.unlink(daemon.pipe + "/control")
        os.kill(daemon.pid(), signal.SIGTERM)


def test_directories_that_are_refused():
    """check-directory and an activated daemon keep to the rules of the directory."""
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.pipe)
        os.chmod(daemon.pipe, 0o777)
        done = check(daemon)
        equal(done.returncode, 1)
        contains(done.stderr, "chmod go-w")
        with listener(daemon) as sock:
            code, err = finish(activated(daemon, sock))
            equal(code, 1)
            contains(err, "chmod go-w")
        done = daemon.run("check-directory", "x")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "check-directory takes no argument")


def test_directory_of_another_user():
    need_root()
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.pipe)
        os.chown(daemon.pipe, 12345, 12345)
        done = check(daemon)
        equal(done.returncode, 1)
        contains(done.stderr, "belongs to UID 12345")


def test_unit():
    """The end of one user's server, or its many threads, do not end those of others."""
    with open(os.path.join(harness.ROOT, "daemon", "dist", "mps-control.service"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in "OOMPolicy=continue", "TasksMax=infinity", "KillMode=process":
        equal(lines.count(line), 1, line)


if __name__ == "__main__":
    harness.main(globals())
