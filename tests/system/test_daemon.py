#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
# mostly waits
"""The control daemon and its front end, with a stand-in for the server.

Every daemon has a separate directory, and is gone when its test ends.
"""

import contextlib
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

import harness
import wire
from harness import Skip, contains, equal, need_root, wait_for

# Another user must be able to start it too.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else os.path.realpath(sys.executable)
HERE = os.path.dirname(os.path.abspath(__file__))
CONTROL = os.path.join(harness.BUILD, "bin", "mps-control")
FRAME_HELLO, FRAME_REFUSED, FRAME_SERVER = 1, 2, 5
HELLO_SIZE = wire.FRAMES["hello"].size
# The stand-in's frames, by the numbers of their types.
WIRE = json.dumps({"version": wire.FRAME_VERSION,
                   "sizes": {kind.number: kind.size for kind in wire.FRAMES.values()}})
START = "start_server -uid %d" % os.getuid()
NO_DAEMON = "Cannot find MPS control daemon process\n"
LINE = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (Control|Other|Server) [ \d]{4}\d\] ", re.M)
VERSION = subprocess.run([CONTROL, "-v"], capture_output=True, text=True, check=True).stdout
SPEC = re.search(r"spec ([0-9a-f]{16})", VERSION).group(1)


# ---- a daemon, its directories and its connections

class Daemon:
    """A daemon in a separate directory that every user may enter."""

    def __init__(self, mode="", uid=None, start=True, environment=None):
        self.root = tempfile.mkdtemp(prefix="mps-")
        os.chmod(self.root, 0o755)
        self.uid = uid
        self.pipe, self.log = self.root + "/pipe", self.root + "/log"
        self.fake = self.root + "/fake"
        os.mkdir(self.fake)
        os.chmod(self.fake, 0o777)
        os.mkdir(self.root + "/bin")
        os.chmod(self.root + "/bin", 0o755)
        if uid is not None:
            os.chown(self.root, uid, uid)
        self.control = shutil.copy(CONTROL, self.root + "/bin/mps-control")
        os.chmod(self.control, 0o755)
        with open(HERE + "/fake_server.py", encoding="utf-8") as file:
            text = "#!%s -IS\n%s" % (PYTHON, file.read())
        with open(self.root + "/bin/mps-server", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.root + "/bin/mps-server", 0o755)
        self.mode(mode)
        self.environment = {
            "PATH": os.environ.get("PATH", ""), "CUDA_MPS_PIPE_DIRECTORY": self.pipe,
            "CUDA_MPS_LOG_DIRECTORY": self.log, "FAKE_DIR": self.fake, "FAKE_SPEC": SPEC,
            "FAKE_WIRE": WIRE, "MPS_SERVER_ENV": "FAKE_DIR,FAKE_SPEC,FAKE_WIRE,NOT_SET", "MPS_GRACE_MS": "0",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.environment.update(environment or {})
        if start:
            done = self.run("-d")
            equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        shutil.rmtree(self.root, ignore_errors=True)

    def end(self):
        """Ends every process that the test has started."""
        for pid in [*self.servers(), self.pid()]:
            if pid and self.owns(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def owns(self, pid):
        """Whether a process was started here: a PID of another namespace is another process."""
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                return self.root.encode() in file.read()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def servers(self):
        """PIDs of all live servers."""
        pids = [int(name[6:]) for name in os.listdir(self.fake) if name.startswith("start.")]
        return [pid for pid in pids if lives(pid) and self.owns(pid)]

    def mode(self, text):
        with open(self.fake + "/mode", "w", encoding="utf-8") as file:
            file.write(text)

    def pid(self):
        try:
            with open(self.pipe + "/nvidia-cuda-mps-control.pid", encoding="utf-8") as file:
                return int(file.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def run(self, *args, text="", uid=None, timeout=30, environment=None):
        """Runs mps-control as the daemon's user, or as another."""
        uid = self.uid if uid is None else uid
        return subprocess.run([self.control, *args], input=text, capture_output=True, text=True,
                              timeout=timeout, check=False, user=uid, group=uid,
                              extra_groups=[] if uid is not None else None,
                              env=dict(self.environment, **(environment or {})))

    def ask(self, command, uid=None, timeout=30):
        """The reply to a command. The front end must succeed; the reply may contain an error."""
        done = self.run(text=command, uid=uid, timeout=timeout)
        equal(done.returncode, 0, command)
        for line in done.stderr.splitlines():
            said = re.fullmatch(r"mps-control: [^ ]*: (.*)", line)
            # Other lines are notes, which only standard error has.
            if said:
                contains(done.stdout.splitlines(), said[1])
        return done.stdout

    def listens(self):
        """The socket exists a moment before the daemon listens."""
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def connect(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(20)
        sock.connect(self.pipe + "/control")
        return sock

    def read(self, name):
        with open("%s/%s.log" % (self.log, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def quit(self, command="quit"):
        pid = self.pid()
        equal(self.ask(command), "", command)
        wait_for("the daemon's end", lambda: not lives(pid))
        equal(sorted(os.listdir(self.pipe)), ["control_lock"], "files left")
        equal(self.servers(), [], "servers left")
        assert self.read("control").endswith("] Exit with status 0\n")


def lives(pid):
    """The main thread of a killed process may end first; other threads have files open."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            is_over = file.read().rpartition(")")[2].split()[0] in "ZX"
        return not is_over or len(os.listdir("/proc/%d/task" % pid)) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def hello(version=wire.FRAME_VERSION, spec=None, size=HELLO_SIZE):
    head = struct.pack("<BBHIIIQ", 0, FRAME_HELLO, 0, size, version, 0,
                       int(SPEC, 16) if spec is None else spec)
    return head + bytes(size - len(head))


def read_refused(sock):
    """What a refused client receives: (CUresult, text)."""
    data = b""
    while len(data) < 272:
        more = sock.recv(272 - len(data))
        assert more, "closed without a word, after %r" % data
        data += more
    zero, kind, _, size, result, _, text = struct.unpack("<BBHIII256s", data)
    equal((zero, kind, size), (0, FRAME_REFUSED, 272))
    return result, text.rstrip(b"\0").decode()


def connected(daemon, count, words=None, uid=None):
    """Connections with a HELLO from a separate process."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            socks = [daemon.connect() for _ in range(count)]
            for sock in socks:
                sock.sendall(hello() if words is None else words)
            socket.send_fds(theirs, [b"x"], [sock.fileno() for sock in socks])
        finally:
            os._exit(0)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, count)
    ours.close()
    os.waitpid(pid, 0)
    return [socket.socket(fileno=fd) for fd in fds]


def many_clients(daemon, count):
    """From several processes, because each may be a client only a few times."""
    socks = []
    while len(socks) < count:
        socks += connected(daemon, min(10, count - len(socks)))
    return [Client(daemon, sock=sock) for sock in socks]


class Client:
    """A client with a HELLO; another user's runs in a separate process."""

    def __init__(self, daemon, uid=None, words=None, sock=None):
        if sock is None and uid is not None:
            sock, = connected(daemon, 1, words, uid)
        self.sock = sock or daemon.connect()
        self.sock.settimeout(20)
        if sock is None:
            self.sock.sendall(hello() if words is None else words)

    def served_by(self):
        """The PID of the server that has replied."""
        line = b""
        while not line.endswith(b"\n"):
            more = self.sock.recv(1)
            assert more, "closed after %r" % line
            line += more
        return int(re.match(rb"served by (\d+) ", line).group(1))

    def refused(self):
        return read_refused(self.sock)

    def close(self):
        self.sock.close()


def is_closed(sock):
    """Whether the daemon has closed the connection without a reply."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


# ---- the front end

def test_no_daemon():
    with Daemon(start=False) as daemon:
        for args, text in ((), "get_server_list"), (("get_server_list",), ""), ((), ""):
            done = daemon.run(*args, text=text)
            equal((done.returncode, done.stdout), (1, NO_DAEMON))
            contains(done.stderr, daemon.pipe + "/control")
            contains(done.stderr, "start the daemon")


def test_version_and_help():
    done = subprocess.run([CONTROL, "-h"], capture_output=True, text=True, check=True)
    for word in "get_server_list", "get_client_list", "start_server", "quit", "CUDA_MPS_PIPE_DIRECTORY":
        contains(done.stdout, word)
    contains(VERSION, "Binary version: 13000")
    for option in "--help", "-help", "-v", "--version":
        equal(subprocess.run([CONTROL, option, "-x"], capture_output=True, check=True).stderr, b"")
    for args in (["-x"], ["-d", "-f"], ["-d", "quit"], ["-M"], ["-S", "get_server_list"], ["-p"],
                 ["-d", "--strict"], ["-p", "4", "get_server_list"], ["-d", "-p", "x"], ["-q", "ps"],
                 ["-d", "-q"], ["-p", "3", "-m"]):
        done = subprocess.run([CONTROL, *args], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout), (1, ""), args)
        contains(done.stderr, "mps-control")
    server = os.path.join(harness.BUILD, "bin", "mps-server")
    for option in "-v", "--version":
        equal(subprocess.run([server, option], capture_output=True, check=True).stdout,
              b"CUDA MPS Server for Linux/Unix. Binary version: 13000\n")


def test_options_of_the_vendor():
    """Every spelling of each; the daemon's arguments stay as given."""
    for words in (["-d", "-S"], ["-dS"], ["--daemon", "--static-partitioning"], ["-daemon"],
                  ["-d", "-p", "2"], ["-d", "--protocol=2"], ["-dp2"]):
        with Daemon(start=False) as daemon:
            equal(daemon.run(*words).returncode, 0, words)
            with open("/proc/%d/cmdline" % daemon.pid(), "rb") as file:
                equal(file.read().split(b"\0"),
                      [word.encode() for word in [daemon.control, *words, ""]])
            equal(daemon.run("-p", "2", "shutdown_server", "1", "-f").stdout, "Server 1 not found\n")
            daemon.quit()
    for word in "--forground", "--foreground", "-foreground", "-f":
        with Daemon(start=False) as daemon:
            process = subprocess.Popen([daemon.control, word], env=daemon.environment,
                                       stdout=subprocess.DEVNULL)
            wait_for("the daemon", lambda daemon=daemon: daemon.run("get_server_list").returncode == 0)
            daemon.ask("quit")
            equal(process.wait(), 0)


def test_protocol():
    """The variable overrides the option; any value except 2 and 3 is refused."""
    with Daemon(start=False) as daemon:
        for words, variable, wrong in ((["-p", "4"], None, "-p"), (["-p", "2"], "4", "CUDA_MPS_PROTOCOL"),
                                       ([], "1", "CUDA_MPS_PROTOCOL"), ([], "2x", "CUDA_MPS_PROTOCOL"),
                                       (["-p", "4"], "2", None), (["--protocol", "2"], "", None)):
            done = daemon.run("-d", *words, environment={} if variable is None else
                              {"CUDA_MPS_PROTOCOL_VERSION": variable})
            equal(done.returncode, 1 if wrong else 0, (words, variable, done.stderr))
            if wrong:
                contains(done.stderr, wrong)
                contains(done.stderr, "set it to 2 or 3")
            else:
                daemon.quit()


def test_one_server_for_all_needs_root():
    need_root()
    for word in "-M", "-multiuser-server", "--multiuser-server":
        with Daemon(start=False) as daemon:
            done = daemon.run("-d", word, uid=65534)
            equal((done.returncode, done.stdout), (1, ""))
            contains(done.stderr, "which only root can do")
            equal(os.path.exists(daemon.pipe), False)




def test_transcript():
    """The vendor's replies, word for word."""
    with Daemon() as daemon:
        for command, answer in (
                ("get_server_list", ""),
                ("nope", 'Unknown command "nope"\n'),
                ("sm_partition add 0 2", 'Unknown command "sm_partition"\n'),
                ("get_server_status 1", "Server 1 not found\n"),
                ("get_client_list 1", "Server 1 not found\n"),
                ("shutdown_server 1", "Server 1 not found\n"),
                ("shutdown_server 1 -f", "Server 1 not found\n"),
                ("start_server", "A user id (UID) is required to start a new server\n"),
                ("start_server -uid", "A user id (UID) is required to start a new server\n"),
                ("start_server 0", "A user id (UID) is required to start a new server\n"),
                ("", ""), ("\n\n", ""), ("  \t ", "")):
            equal(daemon.ask(command), answer, command)
            equal(daemon.ask(command + "\n"), answer, command)
            if command.strip():
                equal(daemon.run(*command.split()).stdout, answer, command)


def test_bad_input():
    """The daemon reports what it cannot do, and continues."""
    with Daemon() as daemon:
        for command, part in (
                ("get_server_status", "Usage: get_server_status PID"),
                ("get_server_status abc", "Server abc not found"),
                ("get_server_status -1", "Server -1 not found"),
                ("get_server_status 99999999999999999999999", "not found"),
                ("get_server_list now", "get_server_list [--json]"),
                ("start_server -uid root", '"root" is not a user id'),
                ("start_server -uid 4294967295", '"4294967295" is not a user id'),
                ("start_server -uid -1", '"-1" is not a user id'),
                ("start_server -uid 0 0", "Usage: start_server -uid UID"),
                ("shutdown_server 1 -g", 'Unknown option "-g"'),
                ("quit -t", "Usage: quit [-t SECONDS]"),
                ("quit now", "Usage: quit [-t SECONDS]"),
                ("quit -t soon", '"soon" is not a number of seconds'),
                ("quit -t -1", '"-1" is not a number of seconds'),
                ("quit -t 99999999999", "is not a number of seconds"),
                ("quit -t 1 1", "Usage: quit"),
                ("\x1b[2J", 'Unknown command "?[2J"'),
                ("caf\u00e9", 'Unknown command "caf\u00e9"'),
                ("a " * 500, 'Unknown command "a"'),
                ("x" * 1023, 'Unknown command "x'),
                ("x" * 1024, "A command has at most 1023 bytes"),
                ("%s%n%s%n", 'Unknown command "%s%n%s%n"')):
            contains(daemon.ask(command), part, command[:80])
        daemon.quit()


def test_failures_are_reported():
    """On standard error, one line per failed command; with --strict, also in the exit status."""
    lines = ("get_server_list\nnope\nget_server_status 1\nstart_server -uid x\n%s\n"
             % ("y" * 1024))
    said = ['nope: Unknown command "nope"', "get_server_status: Server 1 not found",
            'start_server: "x" is not a user id (UID), which must be a number: A user id (UID) is '
            "required to start a new server", ": A command has at most 1023 bytes"]
    with Daemon("crash") as daemon:
        done = daemon.run(text=lines)
        equal((done.returncode, done.stderr),
              (0, "".join("mps-control: %s\n" % line for line in
                          said[:1] + ["help lists the commands"] + said[1:])))
        equal(done.stdout, "".join("%s\n" % line.split(": ", 1)[1] for line in said))
        equal(daemon.run("--strict", text=lines).returncode, 1)
        equal(daemon.run("--strict", "get_server_status", "1").returncode, 1)
        equal(daemon.run("--strict", "get_server_list").returncode, 0)
        # A later command fails, and other front ends get no marks.
        done = daemon.run("--strict", *START.split(), timeout=60)
        equal(done.returncode, 1)
        contains(done.stderr, "mps-control: start_server: The server of UID ")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(daemon.pipe + "/control")
            sock.sendall(b"nope\n\x04\n")
            equal(b"".join(iter(lambda: sock.recv(1), b"\x04")), b'Unknown command "nope"\n')
        daemon.quit()


def test_advice():
    """A word that is no command is answered by the one that may be meant, on standard error only."""
    with Daemon() as daemon:
        for word, advice in (("stop", "quit ends the daemon and its servers"),
                             ("get_server_lst", "did you mean get_server_list?"),
                             ("QUITT", "did you mean quit?"),
                             ("lspart", "only a daemon with partitions of SMs (mps-control -d -S) has "
                                        "this command"),
                             ("start", "mps-control -d starts the daemon, start_server -uid UID a "
                                       "server"),
                             ("x" * 80, "help lists the commands")):
            done = daemon.run(word)
            equal(done.stdout, 'Unknown command "%s"\n' % word)
            equal(done.stderr, 'mps-control: %s: Unknown command "%s"\nmps-control: %s\n'
                  % (word[:47], word, advice))
        # A terminal is both outputs: the reply says that the command failed, and the advice follows.
        ours, theirs = pty.openpty()
        subprocess.run([daemon.control, "stop"], env=daemon.environment, stdin=subprocess.DEVNULL,
                       stdout=theirs, stderr=theirs, timeout=30, check=True)
        equal(os.read(ours, 1000).decode().replace("\r", ""),
              'Unknown command "stop"\nmps-control: quit ends the daemon and its servers\n')
        os.close(ours)
        os.close(theirs)
        daemon.quit()


def test_several_commands_in_order():
    with Daemon("slow") as daemon:
        answer = daemon.ask("get_server_list\n%s\nget_server_list\nnope\nget_server_status 1" % START)
        pid = daemon.servers()[0]
        equal(answer, '%d\nUnknown command "nope"\nServer 1 not found\n' % pid)
        equal(daemon.ask((START + "\n") * 3), "", "it is up already")
        equal(daemon.ask("get_server_list\r\nget_server_status %d\r\n" % pid), "%d\nACTIVE\n" % pid)


def test_another_operator_is_served_meanwhile():
    with Daemon("silent") as daemon:
        waiting = daemon.connect()
        waiting.sendall(b"%s\nget_server_list\n" % START.encode())
        wait_for("the server", daemon.servers)
        pid = daemon.servers()[0]
        equal(daemon.ask("get_server_list"), "%d\n" % pid)
        equal(daemon.ask("get_server_status %d" % pid), "INITIALIZING\n")
        waiting.close()
        equal(daemon.ask("get_server_list"), "%d\n" % pid)
        daemon.quit("quit -t 0")


def test_socat():
    if not shutil.which("socat"):
        raise Skip("no socat")
    with Daemon() as daemon:
        daemon.ask(START)
        for text in "get_server_list\n", "get_server_list":
            done = subprocess.run(["socat", "-", "UNIX-CONNECT:%s/control" % daemon.pipe], input=text,
                                  capture_output=True, text=True, timeout=20, check=False)
            equal((done.returncode, done.stdout), (0, "%d\n" % daemon.servers()[0]))


def test_front_end_needs_few_libraries():
    """In a root with only libc and what libsystemd needs, the front end starts and reports what it finds."""
    need_root()
    with Daemon(start=False) as daemon:
        root = daemon.root + "/bare"
        listed = subprocess.run(["ldd", daemon.control], capture_output=True, text=True, check=True)
        files = re.findall(r"(/\S+) \(0x", listed.stdout)
        dynamic = subprocess.run(["readelf", "-d", daemon.control], capture_output=True, text=True, check=True)
        names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout))
        if any("san" in name for name in names):
            raise Skip("a sanitizer brings its own libraries")
        assert names <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libsystemd.so.0",
                         "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, names
        for path in files + [daemon.control]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(os.path.realpath(path), root + path)
        done = subprocess.run([shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin"), root, daemon.control, "get_server_list"], text=True,
                              capture_output=True, env={}, timeout=10, check=False)
        equal((done.returncode, done.stdout), (1, NO_DAEMON), done.stderr)


def test_dead_daemon_is_not_an_empty_reply():
    with Daemon("silent") as daemon:
        front = subprocess.Popen([daemon.control, *START.split()], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=daemon.environment)
        wait_for("the server", daemon.servers)
        os.kill(daemon.pid(), signal.SIGKILL)
        out, err = front.communicate(timeout=20)
        equal((front.returncode, out), (1, "Cannot send command to MPS control daemon process\n"))
        contains(err, "may not have been executed")


# ---- start and end

def test_files():
    with Daemon() as daemon:
        equal(sorted(os.listdir(daemon.pipe)), ["control", "control_lock", "control_servers.new", "nvidia-cuda-mps-control.pid"])
        for name, mode in (("control", 0o666), ("control_lock", 0o600),
                           ("nvidia-cuda-mps-control.pid", 0o644)):
            equal(stat.S_IMODE(os.lstat(daemon.pipe + "/" + name).st_mode), mode, name)
        for path in daemon.pipe, daemon.log:
            equal(stat.S_IMODE(os.stat(path).st_mode), 0o755, path)
        equal(sorted(os.listdir(daemon.log)), ["control.log", "server.log"])
        with open(daemon.pipe + "/nvidia-cuda-mps-control.pid", encoding="utf-8") as file:
            equal(file.read(), "%d\n" % daemon.pid())
        # A container may have no /dev/kmsg.
        lines = [line for line in daemon.read("control").splitlines() if "kernel's log" not in line]
        for line, part in zip(lines, (
                "Starting control daemon using socket %s/control" % daemon.pipe,
                "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=" + daemon.pipe,
                "CUDA MPS Control binary version: 13000")):
            assert LINE.match(line), line
            contains(line, "Control %5d] %s" % (daemon.pid(), part))
        fds = {os.readlink("/proc/%d/fd/%d" % (daemon.pid(), fd)) for fd in range(3)}
        equal(fds, {"/dev/null"}, "it has left the terminal")
        daemon.quit()


def test_same_directory_for_both():
    with Daemon(start=False) as daemon:
        daemon.environment["CUDA_MPS_LOG_DIRECTORY"] = daemon.pipe
        equal(daemon.run("-d").returncode, 0)
        daemon.log = daemon.pipe
        daemon.ask("quit")
        equal(sorted(os.listdir(daemon.pipe)), ["control.log", "control_lock", "server.log"])


def test_second_daemon():
    with Daemon() as daemon:
        for option in "-d", "-f":
            done = daemon.run(option)
            equal((done.returncode, done.stdout), (1, "An instance of this daemon is already running\n"))
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def test_beside_root():
    """A user learns that a daemon serves already, and how to start one all the same."""
    need_root()
    with Daemon() as daemon:
        done = daemon.run("-d", uid=1000)
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "A daemon of root already serves all users at %s: mps-run --check" % daemon.pipe)
        own = tempfile.mkdtemp(prefix="mps-")
        os.chown(own, 1000, 1000)
        own = {"CUDA_MPS_PIPE_DIRECTORY": own, "CUDA_MPS_LOG_DIRECTORY": own}
        equal(daemon.run("-d", uid=1000, environment=own).returncode, 0)
        equal(daemon.run("quit", uid=1000, environment=own).stdout, "")
        shutil.rmtree(own["CUDA_MPS_PIPE_DIRECTORY"])
        daemon.quit()
        # The lock stays.
        contains(daemon.run("-d", uid=1000).stderr, "control_lock: Permission denied: remove it or set")


def test_relative_and_slashes():
    with Daemon(start=False) as daemon:
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = "pipe///"
        done = subprocess.run([daemon.control, "-d"], cwd=daemon.root, env=daemon.environment, check=False)
        equal(done.returncode, 0)
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.pipe
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def test_bare_environment():
    """Integrators start it with only the two directories."""
    with Daemon(start=False) as daemon:
        daemon.environment = {name: value for name, value in daemon.environment.items()
                              if name not in ("PATH", "MPS_SERVER_ENV")}
        before = os.umask(0o077)
        try:
            equal(daemon.run("-d").returncode, 0)
        finally:
            os.umask(before)
        equal(stat.S_IMODE(os.stat(daemon.pipe).st_mode), 0o755, "whatever the caller's umask")
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def refuses_to_start(daemon, *parts, uid=None):
    for option in "-d", "-f":
        done = daemon.run(option, uid=uid)
        equal((done.returncode, done.stdout), (1, ""), done.stderr)
        for part in parts:
            contains(done.stderr, part)
    assert not daemon.pid() or not lives(daemon.pid())


def test_path_too_long():
    with Daemon(start=False) as daemon:
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.root + "/" + "d" * 100
        length = len(daemon.root) + 101 + len("/control")
        refuses_to_start(daemon, "has %d bytes" % length, "107", "CUDA_MPS_PIPE_DIRECTORY", "at most 99")
        done = daemon.run("get_server_list")
        equal(done.returncode, 1)
        contains(done.stderr, "107")
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.root + "/" + "d" * (98 - len(daemon.root))
        equal(daemon.run("-d").returncode, 0, "99 bytes are fine")
        daemon.pipe = daemon.environment["CUDA_MPS_PIPE_DIRECTORY"]
        daemon.quit()


def test_directories_that_cannot_be_used():
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.root + "/real")
        os.symlink(daemon.root + "/real", daemon.pipe)
        refuses_to_start(daemon, daemon.pipe, "symbolic link", "CUDA_MPS_PIPE_DIRECTORY")
        os.unlink(daemon.pipe)
        with open(daemon.pipe, "w", encoding="utf-8"):
            pass
        refuses_to_start(daemon, daemon.pipe, "Not a directory", "CUDA_MPS_PIPE_DIRECTORY")
        os.unlink(daemon.pipe)
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.root + "/no/such"
        refuses_to_start(daemon, daemon.root + "/no/such", "parent", "CUDA_MPS_PIPE_DIRECTORY")
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.pipe
        os.symlink(daemon.root + "/real", daemon.log)
        refuses_to_start(daemon, daemon.log, "symbolic link", "CUDA_MPS_LOG_DIRECTORY")
        equal(sorted(os.listdir(daemon.pipe)), ["control_lock"], "a failed start leaves nothing")
        os.unlink(daemon.log)
        os.mkdir(daemon.log)
        os.symlink("/etc/passwd", daemon.log + "/control.log")
        refuses_to_start(daemon, daemon.log + "/control.log", "CUDA_MPS_LOG_DIRECTORY")
        os.unlink(daemon.log + "/control.log")
        os.mkfifo(daemon.log + "/control.log")
        refuses_to_start(daemon, daemon.log + "/control.log")
        os.unlink(daemon.log + "/control.log")
        with open(daemon.pipe + "/control", "w", encoding="utf-8"):
            pass
        refuses_to_start(daemon, daemon.pipe + "/control", "is not a socket")


def test_directories_of_others():
    need_root()
    with Daemon(start=False, uid=1000) as daemon:
        os.mkdir(daemon.log)
        refuses_to_start(daemon, daemon.log, "Permission denied", "CUDA_MPS_LOG_DIRECTORY", "UID 1000")
        os.rmdir(daemon.log)
        os.mkdir(daemon.pipe + "2")
        os.chown(daemon.pipe + "2", 1001, 1001)
        os.chmod(daemon.pipe + "2", 0o777)
        daemon.environment["CUDA_MPS_PIPE_DIRECTORY"] = daemon.pipe + "2"
        refuses_to_start(daemon, "belongs to UID 1001", "CUDA_MPS_PIPE_DIRECTORY")


def test_socket_of_another_program():
    """A listener that does not hold the lock (NVIDIA's daemon) is not replaced."""
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.pipe)
        for kind in socket.SOCK_SEQPACKET, socket.SOCK_STREAM:
            other = socket.socket(socket.AF_UNIX, kind)
            other.bind(daemon.pipe + "/control")
            other.listen()
            refuses_to_start(daemon, "Another program", daemon.pipe + "/control")
            other.close()
            os.unlink(daemon.pipe + "/control")


def test_killed_daemon_is_replaced():
    with Daemon() as daemon:
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        assert os.path.exists(daemon.pipe + "/control")
        equal(daemon.run("get_server_list").stdout, NO_DAEMON)
        equal(daemon.run("-d").returncode, 0)
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def test_foreground():
    with Daemon(start=False) as daemon:
        process = subprocess.Popen([daemon.control, "-f"], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=daemon.environment)
        wait_for("the socket", daemon.listens)
        client = Client(daemon)
        server = client.served_by()
        client.close()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
        equal(process.returncode, 0)
        for part in "Starting control daemon", "Other %5d] Startup" % server, "Exit with status 0":
            contains(out, part)
        equal(os.listdir(daemon.pipe), ["control_lock"])
        assert not lives(server)


def test_unread_standard_output():
    with Daemon(start=False) as daemon:
        process = subprocess.Popen([daemon.control, "-f"], stdout=subprocess.PIPE, env=daemon.environment)
        wait_for("the socket", daemon.listens)
        for _ in range(3):
            contains(daemon.ask("x" * 1000 + "\n" + ("y" * 1000 + "\n") * 60), "Unknown")
        daemon.ask("quit")
        process.stdout.close()
        equal(process.wait(timeout=20), 0)


def test_signals():
    for number in signal.SIGTERM, signal.SIGINT:
        with Daemon() as daemon:
            pid = daemon.pid()
            client = Client(daemon)
            server = client.served_by()
            os.kill(pid, number)
            wait_for("its end", lambda pid=pid: not lives(pid))
            assert not lives(server)
            equal(os.listdir(daemon.pipe), ["control_lock"])
            client.close()


def test_logs_are_reopened():
    with Daemon() as daemon:
        os.rename(daemon.log + "/control.log", daemon.log + "/control.log.1")
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_for("a new log", lambda: os.path.exists(daemon.log + "/control.log"))
        daemon.ask("help")
        contains(daemon.read("control"), "Cmd:help")
        contains(daemon.read("control"), "Reopened the logs")


def test_full_disk():
    """A log that cannot be written delays nothing; the loss is reported afterwards."""
    need_root()
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.log)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", daemon.log],
                                 capture_output=True, check=False)
        if mounted.returncode:
            raise Skip("cannot mount a small file system")
        try:
            equal(daemon.run("-d").returncode, 0)
            filler = os.open(daemon.log + "/filler", os.O_WRONLY | os.O_CREAT)
            with contextlib.suppress(OSError):
                while True:
                    os.write(filler, b"x" * 512)
            os.close(filler)
            for _ in range(8):
                contains(daemon.ask("x" * 1000), "Unknown")
            os.unlink(daemon.log + "/filler")
            contains(daemon.ask("again"), "Unknown")
            assert re.search(r"\d+ lines could not be written here: No space left", daemon.read("control"))
            daemon.quit()
        finally:
            subprocess.run(["umount", "-l", daemon.log], check=False)


# ---- clients and their servers

def test_hand_over():
    with Daemon("chatty") as daemon:
        client = Client(daemon)
        server = client.served_by()
        equal(daemon.ask("get_server_list"), "%d\n" % server)
        equal(daemon.ask("get_server_status %d" % server), "ACTIVE\n")
        equal(daemon.ask("get_client_list %d" % server), "%d\n" % os.getpid())
        client.sock.sendall(b"words")
        equal(client.sock.recv(100), b"echo words", "the connection itself is the server's")
        second = Client(daemon)
        equal(second.served_by(), server)
        equal(daemon.ask("get_client_list %d" % server), "%d\n%d\n" % (os.getpid(), os.getpid()))
        log, uid, me = daemon.read("control"), os.getuid(), os.getpid()
        for part in ("NEW CLIENT %d from user %d: Server is not ready, push client to pending list" % (me, uid),
                     "Control %5d] Starting new server %d for user %d" % (server, server, uid),
                     "NEW SERVER %d: Ready" % server,
                     "NEW CLIENT %d from user %d: Server already exists" % (me, uid),
                     "Accepting connection...", "Cmd:get_server_list"):
            contains(log, part)
        assert "credentials" not in log
        client.close()
        second.close()
        wait_for("their end", lambda: daemon.ask("get_client_list %d" % server) == "")
        daemon.quit()
        contains(daemon.read("control"), "Server %d exited with status 0" % server)
        log = daemon.read("server")
        for part in ("Other %5d] Startup" % server, "Other %5d] %s\n" % (server, "x" * 1024),
                     "a?[31mred? line", "Other %5d] Server has started" % server,
                     "Server %5d] Server has been notified to shutdown" % server,
                     "Server %5d] Exiting" % server):
            contains(log, part)
        for line in (daemon.read("control") + log).splitlines():
            assert LINE.match(line), line


def test_environment_of_a_server():
    environment = {"LD_PRELOAD": "", "CUDA_VISIBLE_DEVICES": "0,1", "MPS_CUDA_LIBRARY": "/lib/x.so",
                   "SECRET": "1", "LD_LIBRARY_PATH": "/tmp/none", "CUDA_CACHE_PATH": "/tmp/cache",
                   "MPS_SERVER_ENV": "FAKE_DIR,FAKE_SPEC,FAKE_WIRE,LD_PRELOAD,,NOT_SET"}
    with Daemon(environment=environment) as daemon:
        Client(daemon).served_by()
        server = daemon.servers()[0]
        with open("%s/start.%d" % (daemon.fake, server), encoding="utf-8") as file:
            start = json.load(file)
        got = start["environment"]
        for name in "LC_CTYPE", "PATH":
            got.pop(name, None)
        equal(got, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                    "CUDA_MODULE_LOADING": "LAZY", "CUDA_VISIBLE_DEVICES": "0,1",
                    "MPS_CUDA_LIBRARY": "/lib/x.so", "LD_LIBRARY_PATH": "/tmp/none",
                    "CUDA_CACHE_PATH": "/tmp/cache", "MPS_GRACE_MS": "0",
                    "FAKE_DIR": daemon.fake, "FAKE_SPEC": SPEC, "FAKE_WIRE": WIRE})
        equal(start["args"], ["--uid", str(os.getuid()), "--gid", str(os.getgid())])
        equal(start["ignored"], False, "signals have their defaults")
        # The fourth is the directory that is being listed, the fifth the open file.
        assert set(start["fds"]) <= {"0", "1", "2", "3", "4"}, start["fds"]
        equal(os.readlink("/proc/%d/fd/0" % server), "/dev/null")


def test_nice_values():
    """The daemon goes before others; a server has the value that the daemon was started with."""
    need_root()
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 3)
    try:
        with Daemon() as daemon:
            equal(os.getpriority(os.PRIO_PROCESS, daemon.pid()), -10)
            Client(daemon).served_by()
            equal(os.getpriority(os.PRIO_PROCESS, daemon.servers()[0]), 3)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def test_many_clients_at_once():
    with Daemon("slow") as daemon:
        clients = many_clients(daemon, 200)
        equal(len({client.served_by() for client in clients}), 1)
        server = daemon.servers()[0]
        equal(len(daemon.ask("get_client_list %d" % server).split()), 200)
        for client in clients:
            client.close()
        wait_for("their end", lambda: daemon.ask("get_client_list %d" % server) == "")
        daemon.quit()


def test_users_side_by_side():
    need_root()
    with Daemon() as daemon:
        clients = {uid: Client(daemon, uid=uid) for uid in (1000, 1001, 0)}
        servers = {uid: client.served_by() for uid, client in clients.items()}
        equal(len(set(servers.values())), 3)
        for uid, server in servers.items():
            equal(os.stat("/proc/%d" % server).st_uid, uid)
        everyone = sorted(servers.values())
        for uid in 0, 1000, 4711:
            equal(sorted(int(pid) for pid in daemon.ask("get_server_list", uid=uid).split()), everyone)
        mine, other = servers[1000], servers[1001]
        equal(daemon.ask("get_server_status %d" % mine, uid=1000), "ACTIVE\n")
        assert daemon.ask("get_client_list %d" % mine, uid=1000)
        for command in ("get_server_status %d", "get_client_list %d", "shutdown_server %d",
                        "shutdown_server %d -f"):
            equal(daemon.ask(command % other, uid=1000),
                  "Operation not permitted: %s needs UID 0 or UID 1001\n" % command.split()[0])
        for command in "quit", "quit -t 0":
            equal(daemon.ask(command, uid=1000), "Operation not permitted: quit needs UID 0\n")
        equal(daemon.ask("start_server -uid 1001", uid=1000),
              "Operation not permitted: start_server needs UID 0 or UID 1001\n")
        contains(daemon.read("control"), "Operation not permitted: quit needs UID 0\n")
        contains(daemon.read("control"), "of user 1000")
        equal(daemon.ask("shutdown_server %d -f" % mine, uid=1000), "")
        wait_for("its end", lambda: not lives(mine))
        equal(daemon.ask("start_server -uid 1000", uid=1000), "")
        daemon.quit("quit -t 0")


def test_daemon_of_a_user():
    need_root()
    with Daemon(uid=1000) as daemon:
        client = Client(daemon, uid=1000)
        server = client.served_by()
        for uid in 1001, 0:
            result, text = Client(daemon, uid=uid).refused()
            equal(result, 800)
            for part in "UID 1000", "serve UID %d too" % uid, "as root":
                contains(text, part)
        contains(daemon.ask("start_server -uid 1001"), "runs as UID 1000")
        done = daemon.run(text="get_server_list", uid=0)
        equal((done.returncode, done.stdout), (1, "Cannot find MPS control daemon process\n"))
        contains(done.stderr, "MPS_TRUST_UID=1000 if you trust that user")
        daemon.environment["MPS_TRUST_UID"] = "1000"
        contains(daemon.ask("start_server -uid 1001", uid=0), "runs as UID 1000")
        equal(daemon.ask("get_server_list", uid=1001), "%d\n" % server)
        equal(daemon.ask("quit", uid=1001), "Operation not permitted: quit needs UID 0 or UID 1000\n")
        equal(daemon.ask("quit -t 0", uid=0), "", "root may")
        assert not lives(server)
        client.close()


def test_no_server_program():
    with Daemon(start=False) as daemon:
        os.unlink(daemon.root + "/bin/mps-server")
        daemon.environment["PATH"] = "/nowhere"
        equal(daemon.run("-d").returncode, 0)
        result, text = Client(daemon).refused()
        equal(result, 805)
        contains(text, "mps-server is neither in")
        contains(daemon.ask(START), "mps-server is neither in")
        daemon.quit()


def test_server_from_path():
    with Daemon(start=False) as daemon:
        os.mkdir(daemon.root + "/other")
        os.rename(daemon.root + "/bin/mps-server", daemon.root + "/other/mps-server")
        daemon.environment["PATH"] = "relative:/nowhere:" + daemon.root + "/other"
        equal(daemon.run("-d").returncode, 0)
        Client(daemon).served_by()


def test_hand_over_to_a_dying_server():
    """A client whose connection the server never read gets the next server."""
    with Daemon() as daemon:
        first = Client(daemon)
        server = first.served_by()
        os.kill(server, signal.SIGSTOP)
        late = many_clients(daemon, 150)
        wait_for("the queue to be full", lambda: daemon.read("control").count("NEW CLIENT") == 151)
        equal(daemon.ask("get_server_list"), "%d\n" % server, "the daemon goes on")
        equal(len(daemon.ask("get_client_list %d" % server).split()), 2, "one is on its way")
        os.kill(server, signal.SIGKILL)
        after = {client.served_by() for client in late}
        equal(len(after), 1)
        assert server not in after
        equal(first.sock.recv(1), b"")
        contains(daemon.read("control"), "did not reach its server")
        for client in late:
            client.close()
        wait_for("their end", lambda: daemon.ask("get_client_list %d" % after.copy().pop()) == "")


def started(sock, last):
    """The PID of the server that is starting, as soon as it exists; `last' has ended."""
    said = b""
    while said.strip() in (b"", b"%d" % last):
        sock.sendall(b"get_server_list\n\x04\n")
        said = b""
        while not said.endswith(b"\x04"):
            said += sock.recv(4096)
        said = said[:-1]
    return int(said)


def test_server_told_to_end_as_it_starts():
    """A signal for a server that has not executed its program yet does not reach the daemon."""
    with Daemon() as daemon:
        pid = daemon.pid()
        server = 0
        for _ in range(100):
            with daemon.connect() as asks, daemon.connect() as starts:
                starts.sendall(START.encode() + b"\n")
                # The daemon lists a server that has ended until it has seen the end.
                server = started(asks, server)
                asks.sendall(b"shutdown_server %d\n\x04\n" % server)
                equal(asks.recv(4096), b"\x04")
            wait_for("its end", lambda server=server: not lives(server), 10)
        equal(daemon.pid(), pid)
        equal(daemon.read("control").count("the daemon shuts down"), 0)


def test_hostile_server():
    for mode, part in (("garbage", "violated the protocol"), ("wrong_uid", "claims to be another user's server"),
                       ("strange_notes", "a client that it does not have")):
        with Daemon(mode) as daemon:
            client = Client(daemon)
            wait_for(part, lambda daemon=daemon, part=part: part in daemon.read("control"))
            equal(daemon.ask("nope"), 'Unknown command "nope"\n')
            daemon.quit("quit -t 0")
            client.close()


def test_server_of_another_build():
    with Daemon("wrong_spec") as daemon:
        result, text = Client(daemon).refused()
        equal(result, 805)
        contains(text, "mps-server has version %d (spec " % wire.FRAME_VERSION)


def test_second_server_of_a_user():
    with Daemon() as daemon:
        Client(daemon).served_by()
        sock = daemon.connect()
        sock.sendall(struct.pack("<BBHIIIQQQ", 0, FRAME_SERVER, 0, 40, wire.FRAME_VERSION, os.getuid(), int(SPEC, 16), 1, 0))
        equal(sock.recv(100), struct.pack("<BBHIII", 0, 10, 0, 16, 0, 0), "leave when you can")
        assert is_closed(sock)
        contains(daemon.read("control"), "neither this daemon nor the previous one has started it")


# ---- the daemon dies

def test_adoption():
    with Daemon() as daemon:
        client = Client(daemon)
        server = client.served_by()
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        client.sock.sendall(b"still")
        equal(client.sock.recv(100), b"echo still", "running clients go on")
        equal(daemon.run("-d").returncode, 0)
        second = Client(daemon)
        equal(second.served_by(), server)
        equal(daemon.ask("get_server_list"), "%d\n" % server)
        equal(len(daemon.ask("get_client_list %d" % server).split()), 2)
        contains(daemon.read("control"), "Adopted server %d of user %d" % (server, os.getuid()))
        second.close()
        wait_for("one to leave", lambda: len(daemon.ask("get_client_list %d" % server).split()) == 1)
        daemon.quit("quit -t 0")
        contains(daemon.read("server"), "notified to shutdown now")
        contains(daemon.read("control"), "Server %d has ended" % server)


def claim_clients(daemon, uid):
    """From now on the server of that user reports clients that it does not have."""
    with open("%s/claims_clients_%d" % (daemon.fake, uid), "w", encoding="utf-8") as file:
        file.write("1")


def client_facts(daemon):
    return sorted((one["pid"], one["uid"], one["command"])
                  for one in json.loads(daemon.ask("stats --json"))["clients"])


def test_server_that_claims_clients():
    """The daemon knows whom it has handed over."""
    need_root()
    with Daemon() as daemon:
        claim_clients(daemon, 1000)
        client = Client(daemon, uid=1000)
        server = client.served_by()
        facts = client_facts(daemon)
        equal([uid for _, uid, _ in facts], [1000])
        for uid in 0, 1000:
            contains(daemon.read("control"), "Server %d of user 1000 claims that process 1 of user "
                     "%d is its client, which is not believed" % (server, uid))
        equal(client_facts(daemon), facts)


def test_adopted_server_that_claims_clients():
    """A new daemon believes nothing about other users."""
    need_root()
    with Daemon() as daemon:
        client = Client(daemon, uid=1000)
        server = client.served_by()
        pid, = (pid for pid, _, _ in client_facts(daemon))
        claim_clients(daemon, 1000)
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        equal(daemon.run("-d").returncode, 0)
        wait_for("the server", lambda: daemon.ask("get_server_status %d" % server) == "ACTIVE\n")
        equal(client_facts(daemon),
              sorted([(pid, 1000, ""), (0, 1000, ""), (0, 1000, "/root/program")]))
        client.sock.sendall(b"still")
        equal(client.sock.recv(100), b"echo still")


def test_adoption_of_another_version():
    """An upgrade: old clients keep their server, new clients get another one at once."""
    with Daemon() as daemon:
        client = Client(daemon)
        old = client.served_by()
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        with open("%s/other_spec_%d" % (daemon.fake, old), "w", encoding="utf-8") as file:
            file.write("1")
        equal(daemon.run("-d").returncode, 0)
        wait_for("its release", lambda: "Server %d of user %d is of another version" % (old, os.getuid())
                 in daemon.read("control"))
        began = time.monotonic()
        second = Client(daemon)
        new = second.served_by()
        assert new != old and time.monotonic() - began < 10
        equal(daemon.ask("get_server_list"), "%d\n" % new)
        # Longer than a server without a connection gets to connect: MPS_GRACE_MS (0) and 5 s.
        wait_for("further attempts", lambda: time.monotonic() - began > 8, 60)
        assert lives(old)
        client.sock.sendall(b"still")
        equal(client.sock.recv(100), b"echo still")
        equal(daemon.read("control").count("Server %d of user %d is refused" % (old, os.getuid())), 1)
        client.close()
        wait_for("the end of the old server", lambda: not lives(old), 30)


def test_adoption_needs_the_record():
    """A process's own report does not make it a server, even while the daemon expects one."""
    need_root()
    with Daemon() as daemon:
        server = Client(daemon).served_by()
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        with open(daemon.pipe + "/control_servers", encoding="utf-8") as file:
            title, line = file.read().splitlines()
        equal(os.stat(daemon.pipe + "/control_servers").st_mode & 0o777, 0o600)
        pid, uid, start, *slot = line.split()
        equal(slot, ["0", "0", "0"], "the shared one")
        equal((int(pid), int(uid)), (server, os.getuid()))
        with open(daemon.pipe + "/control_servers", "w", encoding="utf-8") as file:
            # Of another start, of another user, and of a PID that does not exist.
            file.write("%s\n%s %s %d 0 0 0\n%s 1000 %s 0 0 0\n4194305 1000 5 0 0 0\nnonsense\n"
                       % (title, pid, uid, int(start) + 1, pid, start))
        equal(daemon.run("-d").returncode, 0)
        wait_for("its end without clients", lambda: not daemon.servers(), 30)
        equal(daemon.ask("get_server_list"), "")
        assert "Adopted" not in daemon.read("control")
        contains(daemon.read("control"), "neither this daemon nor the previous one has started it")
        assert not os.path.exists(daemon.pipe + "/control_servers")


def test_strangers_are_not_servers():
    """The daemon does not read the pipe to which such a process writes."""
    need_root()
    read_end, write_end = os.pipe()
    with Daemon() as daemon:
        child = os.fork()
        if child == 0:
            os.dup2(write_end, 2)
            os.setgid(1000)
            os.setuid(1000)
            sock = daemon.connect()
            sock.sendall(struct.pack("<BBHIIIQQQ", 0, FRAME_SERVER, 0, 40, wire.FRAME_VERSION, 1000, int(SPEC, 16), os.getpid(), 0))
            sock.recv(100)
            os._exit(0 if is_closed(sock) else 1)
        equal(os.waitpid(child, 0)[1], 0)
        os.write(write_end, b"a line of root's\n")
        contains(daemon.read("control"), "Server %d of user 1000 is refused" % child)
        equal(daemon.ask("get_server_list"), "")
        equal((os.read(read_end, 100), daemon.read("server")), (b"a line of root's\n", ""))
    os.close(read_end)
    os.close(write_end)


ROOT_JOB = """
#include <unistd.h>
int main(void)
{
	if (setresuid(0, 0, 0) < 0)
		return 1;
	sleep(60);
}
"""


def test_adopted_server_that_becomes_roots():
    """Its user executes a program of root in it: the daemon sends that process no signal."""
    need_root()
    with Daemon("becomes_root") as daemon:
        job = daemon.fake + "/root_job"
        subprocess.run(shlex.split(os.environ.get("CC", "cc")) + ["-D_GNU_SOURCE", "-x", "c", "-", "-o", job],
                       input=ROOT_JOB, text=True, check=True)
        os.chmod(job, 0o4755)
        daemon.ask("start_server -uid 1000")
        server, = daemon.servers()
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        equal(daemon.run("-d").returncode, 0)
        try:
            wait_for("root's job", lambda: lives(server) and os.stat("/proc/%d" % server).st_uid == 0)
            daemon.ask("shutdown_server %d -f" % server, uid=1000)
            wait_for("the daemon to look", lambda: "Process %d no longer belongs to user 1000 and gets no "
                     "signal" % server in daemon.read("control"), 30)
            assert lives(server)
            equal(daemon.ask("get_server_list"), "")
        finally:
            os.kill(server, signal.SIGKILL)


def test_quit_right_after_adoption_began():
    with Daemon() as daemon:
        client = Client(daemon)
        client.served_by()
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_for("its end", lambda: not lives(daemon.pid()))
        equal(daemon.run("-d").returncode, 0)
        began = time.monotonic()
        daemon.quit("quit -t 0")
        assert time.monotonic() - began < 4


def test_first_process_of_a_container():
    """It reaps all orphans, and its servers as always."""
    need_root()
    with Daemon(start=False) as daemon:
        process = subprocess.Popen(["unshare", "--pid", "--mount-proc", "--kill-child", "-f",
                                    daemon.control, "-f"],
                                   stdout=subprocess.DEVNULL, env=daemon.environment)
        wait_for("the socket, or the end", lambda: process.poll() is not None or daemon.listens())
        if process.poll() is not None:
            raise Skip("no PID namespace to be had")
        try:
            first, = children(process.pid)
            client = Client(daemon)
            client.sock.recv(100)
            contains(daemon.read("control"), "NEW CLIENT 0 from user")
            subprocess.run(["nsenter", "-t", str(first), "-p", "sh", "-c",
                            "(true & sleep 0.1 & true) & true"], check=True)
            wait_for("one child, the server", lambda: len(children(first)) == 1)
            os.kill(children(first)[0], signal.SIGKILL)
            wait_for("none", lambda: not children(first))
            wait_for("the line", lambda: "was ended by signal 9" in daemon.read("control"))
            daemon.ask("quit")
            equal(process.wait(timeout=20), 0)
        finally:
            process.kill()  # and, by --kill-child, everything in the namespace
            process.wait()


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


# ---- quit

def test_quit_waits_for_clients():
    with Daemon() as daemon:
        client = Client(daemon)
        server = client.served_by()
        # A shell that starts the tests in the background ignores the signal of Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        fronts = [subprocess.Popen([daemon.control, "quit"], env=daemon.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                  for _ in range(2)]
        signal.signal(signal.SIGINT, before)
        waits = ("mps-control: quit waits for 1 client to end: %d (%s); Ctrl-C ends the wait, but not "
                 "the quit; mps-control quit -t 0 ends their work now\n" % (os.getpid(), "-"))
        for front in fronts:
            equal(front.stderr.readline(), waits)
        equal(daemon.ask("get_server_status %d" % server), "STOPPING\n")
        result, text = Client(daemon).refused()
        equal((result, text), (805, "The MPS daemon is quitting: start it again when its clients have "
                                    "ended (1 now)"))
        contains(daemon.ask(START), text)
        fronts[0].send_signal(signal.SIGINT)
        equal(fronts[0].communicate(timeout=20), ("", ""))
        equal(fronts[0].returncode, -signal.SIGINT)
        time.sleep(0.3)
        assert fronts[1].poll() is None and lives(server)
        client.close()
        equal((fronts[1].communicate(timeout=20), fronts[1].returncode), (("", ""), 0))
        assert not lives(server) and not daemon.pid()


def test_quit_has_no_deadline():
    """The time limit of an incomplete line ends once the line is complete."""
    with Daemon() as daemon:
        client = Client(daemon)
        client.served_by()
        pid = daemon.pid()
        sock = daemon.connect()
        sock.sendall(b"nope\nqu")
        equal(sock.recv(100), b'Unknown command "nope"\n')
        sock.sendall(b"it\n")
        time.sleep(5.5)
        assert lives(pid), "it waits for its client"
        client.close()
        equal(sock.recv(100), b"")
        wait_for("its end", lambda: not lives(pid))


def test_quit_kills_a_server_that_hangs():
    with Daemon("hang") as daemon:
        client = Client(daemon)
        server = client.served_by()
        began = time.monotonic()
        daemon.quit("quit -t 0")
        assert time.monotonic() - began < 20
        log = daemon.read("control")
        for part in ("Server %d did not end in time: sending SIGTERM" % server,
                     "Server %d ignores SIGTERM: sending SIGKILL" % server,
                     "Server %d was ended by signal 9" % server):
            contains(log, part)
        client.close()


# ---- strangers

def test_clients_of_another_build():
    with Daemon() as daemon:
        for words in hello(version=1), hello(spec=1), hello(version=1, size=24), hello(version=9, size=4000):
            result, text = Client(daemon, words=words).refused()
            equal(result, 803)
            for part in SPEC, "restart the daemon or use the library of the same build":
                contains(text, part)
        equal(daemon.servers(), [])


def test_hostile_bytes():
    with Daemon() as daemon:
        good = hello()
        bad = [b"\0", b"\0" * 8, b"\0" * 5000, b"\0\xff" + b"\xff" * 100,
               wire.frame("client", 1),
               b"\0\x0a" + struct.pack("<HI", 0, 16) + bytes(8),
               good[:4] + struct.pack("<I", 0) + good[8:], good[:4] + struct.pack("<I", 2 ** 32 - 1) + good[8:],
               good[:2] + struct.pack("<H", 3) + good[4:], good[:24] + b"\xff" * (HELLO_SIZE - 24),
               good[:24] + struct.pack("<I", 2) + good[28:]]
        bad += [good[:n] for n in (1, 7, 8, 9, 23, 24, HELLO_SIZE - 1)]
        for words in bad:
            sock = daemon.connect()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(words)
                sock.shutdown(socket.SHUT_WR)
            assert is_closed(sock), words[:40]
            sock.close()
        # A server of another version, as it seems: it is told to end, in a form of every version.
        sock = daemon.connect()
        sock.sendall(b"\0\x05" + b"\xff" * 2000)
        equal(sock.recv(100), b"\0\x0a" + struct.pack("<HI", 0, 16) + bytes(8))
        assert is_closed(sock)
        sock.close()
        equal(daemon.servers(), [])
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def test_mutated_frames():
    """HELLOs and all frames of a server, with changed bytes, never end the daemon."""
    chance = harness.dice(1)
    server = struct.pack("<BBHIIIQQQ", 0, FRAME_SERVER, 0, 40, wire.FRAME_VERSION, os.getuid(), int(SPEC, 16), 1, 0)
    said = [struct.pack("<BBHIIIQ256s", 0, 6, 0, 280, state, 0, 1, b"text") for state in (1, 2, 3, 4)]
    said += [wire.frame(kind, id=number, pid=5) for kind in ("client_here", "client_gone") for number in (1, 2)]
    with Daemon("exit") as daemon:
        pid = daemon.pid()
        for _ in range(300):
            words = bytearray(server if chance.random() < 0.7 else hello())
            words += b"".join(chance.choices(said, k=chance.randrange(6)))
            for _ in range(chance.randrange(4)):
                words[chance.randrange(len(words))] = chance.choice((0, 1, 2, 127, 128, 255))
            speak_once(daemon, words[:chance.randrange(1, len(words) + 1)])
        equal(daemon.ask("nope"), 'Unknown command "nope"\n')
        equal(daemon.pid(), pid)
        assert "Adopted server" not in daemon.read("control")
        daemon.quit("quit -t 0")


def test_mutated_frames_of_a_server():
    """The same from a process that the daemon has started, which connects repeatedly."""
    environment = {"FAKE_SEED": str(harness.seed(1)), "MPS_SERVER_ENV": "FAKE_DIR,FAKE_SPEC,FAKE_WIRE,FAKE_SEED"}
    with Daemon("mutated", environment=environment) as daemon:
        pid = daemon.pid()
        daemon.ask(START)
        wait_for("all its frames", lambda: "every frame was said" in daemon.read("server"), 60)
        equal(daemon.pid(), pid)
        contains(daemon.read("control"), "violated the protocol")
        daemon.quit("quit -t 0")


def speak_once(daemon, words):
    """In a separate process: a process that is taken for a server may be killed as one."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            sock = daemon.connect()
            sock.settimeout(0.01)
            sock.sendall(words)
            sock.recv(4096)
        os._exit(0)
    os.waitpid(child, 0)


def test_hello_in_pieces():
    with Daemon() as daemon:
        sock = daemon.connect()
        words = hello()
        for i in range(0, len(words), 100):
            sock.sendall(words[i:i + 100])
            time.sleep(0.005)
        equal(sock.recv(9), b"served by")
        sock = daemon.connect()
        for letter in "get_server_list\n":
            sock.sendall(letter.encode())
            time.sleep(0.005)
        equal(sock.recv(100), b"%d\n" % daemon.servers()[0])


def queued(daemon, uid, count):
    """Concurrent front ends of a user, whose first command takes a while."""
    words = [daemon.control, "--strict", "start_server", "-uid", str(uid)]
    return [subprocess.Popen(words, env=dict(daemon.environment, MPS_TRUST_UID=str(os.getuid())),
                             user=uid, group=uid, extra_groups=[], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(count)]


def test_front_ends_queue():
    """A hundred front ends of an ordinary user are all served, though only 64 may be connected."""
    need_root()
    with Daemon("slow") as daemon:
        processes = queued(daemon, 2000, 100)
        for process in processes:
            equal(process.communicate(timeout=60), ("", None))
            equal(process.returncode, 0)
        daemon.quit()


def poll_closed(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    finally:
        sock.settimeout(20)


def test_front_end_that_does_not_read():
    with Daemon() as daemon:
        sock = daemon.connect()
        sock.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 10 ** 7:
                sent += sock.send(b"an unknown command whose reply is not read\n" * 50)
        assert sent < 10 ** 7, "it goes on without end"
        equal(daemon.ask("get_server_list"), "")
        sock.settimeout(10)
        began = time.monotonic()
        while time.monotonic() - began < 20:
            try:
                sock.send(b"x")
            except (BrokenPipeError, ConnectionResetError):
                break
            except TimeoutError:
                pass
            time.sleep(0.2)
        else:
            raise AssertionError("it is kept for ever")


def test_flood_of_a_server():
    """Excess output of a server is dropped, and the number is reported afterwards."""
    with Daemon("talks") as daemon:
        daemon.ask(START)
        told = wait_for("the number", lambda: re.findall(
            r" Control .*\] (\d+) lines of servers of account \d+ were dropped", daemon.read("server")))
        log = daemon.read("server")
        words = len(re.findall(r"\] word \d+\n", log))
        assert 10000 <= words < 30000, words
        others = [text for text in ("Startup", "Server has started", "Active Threads Percentage set to 100.0",
                                    "Server Priority set to 0") if "] %s\n" % text not in log]
        equal(int(told[0]), 30000 + len(others) - words)
        contains(log, "Too many lines at once: dropping the next ones")
        daemon.quit()


def test_size_of_logs():
    with Daemon(environment={"MPS_LOG_MAX_MIB": "1"}) as daemon:
        for _ in range(40):
            daemon.ask("an unknown command with many words %s\n" % ("x" * 900) * 100)
            assert os.path.getsize(daemon.log + "/control.log") <= 1 << 20
        assert (1 << 19) < os.path.getsize(daemon.log + "/control.log.1") <= 1 << 20
        mode = 0o640 if os.getuid() == 0 else 0o644
        for name in "control.log", "control.log.1", "server.log":
            equal(os.stat(daemon.log + "/" + name).st_mode & 0o777, mode, name)


# ---- limits of users


@contextlib.contextmanager
def users_with(daemon, uids, use):
    """For each user, a process that calls use(daemon) and keeps the result."""
    read_end, write_end = os.pipe()
    children = []
    for uid in uids:
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                kept = use(daemon)
                os.write(write_end, b"x" if kept else b"-")
                time.sleep(600)
            finally:
                os._exit(1)
        children.append(child)
    try:
        said = b""
        while len(said) < len(children):
            said += os.read(read_end, 100)
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(read_end)
        os.close(write_end)


def test_connections_of_many_users():
    """All users together leave room for root, and for a user with few connections."""
    need_root()

    def hold(daemon):
        kept = []
        for words in [b""] * 20 + [b"get_server_list\n"] * 20 + [hello()] * 20:
            sock = daemon.connect()
            with contextlib.suppress(OSError):
                sock.sendall(words)
            kept.append(sock)
        return kept

    with Daemon("silent", start=False) as daemon:
        daemon.environment["MPS_SERVERS_MAX"] = "50"
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (900, 900))
        done = subprocess.run([daemon.control, "-d"], env=daemon.environment, preexec_fn=limit, check=False)
        equal(done.returncode, 0)
        with users_with(daemon, range(2000, 2030), hold):
            began = time.monotonic()
            assert daemon.ask("get_server_list")
            daemon.ask("get_server_list", uid=3000)
            waits = Client(daemon, uid=3000)
            assert not poll_closed(waits.sock)
            assert time.monotonic() - began < 10
            assert "Too many open files" not in daemon.read("control")
            contains(daemon.read("control"), "one more than the limit: closing one of user")
            waits.close()
        daemon.quit("quit -t 0")


@contextlib.contextmanager
def as_user(uid):
    """What connects here has this UID."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def subordinate_daemon(where, **settings):
    """A daemon for which UIDs from 100000 on are subordinate UIDs of UID 1002."""
    daemon = Daemon(start=False, environment=settings)
    daemon.environment["MPS_SUBUID_FILE"] = where.name
    where.write("1002:100000:65536\n")
    where.flush()
    return daemon


def test_silence_of_one_account():
    """All subordinate UIDs of a user have 256 silent connections together."""
    need_root()
    with tempfile.NamedTemporaryFile("w") as where, subordinate_daemon(where) as daemon:
        equal(daemon.run("-d").returncode, 0)
        with as_user(1001):
            other = daemon.connect()
        silent = []
        for index in range(260):
            with as_user(100000 + index):
                silent.append(daemon.connect())
        wait_for("the limit", lambda: daemon.read("control").count("silent connections: closing the oldest") == 4)
        # A thread closes them, a little after the line.
        wait_for("the ends", lambda: all(map(poll_closed, silent[:4])))
        assert not any(map(poll_closed, silent[4:] + [other]))
        for sock in silent + [other]:
            sock.close()


def test_waiting_terminal():
    """An operator at a terminal may be silent longer than other connections."""
    with Daemon() as daemon:
        front = subprocess.Popen([daemon.control], text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, env=daemon.environment)
        time.sleep(6)
        front.stdin.write("nope\n")
        front.stdin.flush()
        equal(front.stdout.readline(), 'Unknown command "nope"\n')
        front.stdin.close()
        equal((front.stdout.read(), front.wait(timeout=20)), ("", 0))


def test_at_a_terminal():
    """It prints where one is and how to leave; a failure is printed once; quit ends it too."""
    with Daemon() as daemon:
        for last in "\x04", "quit\n":
            master, slave = pty.openpty()
            front = subprocess.Popen([daemon.control], stdin=slave, stdout=slave, stderr=slave,
                                     env=daemon.environment)
            os.close(slave)
            os.write(master, b"nope\n")
            seen = b""
            while seen.count(b'Unknown command "nope"') < 1:
                seen += os.read(master, 1000)
            os.write(master, last.encode())
            equal(front.wait(timeout=20), 0, seen)
            with contextlib.suppress(OSError):
                seen += os.read(master, 1000)
            os.close(master)
            contains(seen.decode(), "connected to the daemon at %s/control" % daemon.pipe)
            equal(seen.count(b'Unknown command "nope"'), 1, seen)
        wait_for("the daemon's end", lambda: daemon.pid() is None)


def test_out_of_descriptors():
    with Daemon(start=False) as daemon:
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        done = subprocess.run([daemon.control, "-d"], env=daemon.environment, preexec_fn=limit, check=False)
        equal(done.returncode, 0)
        socks = [daemon.connect() for _ in range(50)]
        wait_for("a word about it", lambda: "Cannot accept a connection: Too many open files"
                 in daemon.read("control"))
        for sock in socks:
            sock.close()
        equal(daemon.ask("get_server_list"), "")
        daemon.quit()


def test_nothing_is_kept():
    """After all kinds of connections, the daemon has no more descriptors than before."""
    with Daemon() as daemon:
        client = Client(daemon)
        client.served_by()
        client.close()
        daemon.ask("get_server_list")
        # It may still be closing the connections above.
        before = len(os.listdir("/proc/%d/fd" % daemon.pid()))
        for _ in range(30):
            guests = [Client(daemon), Client(daemon, words=hello(version=7)), Client(daemon, words=b"\0\1")]
            guests[0].served_by()
            for guest in guests:
                guest.close()
            daemon.ask("get_server_list\nhelp")
        server = daemon.servers()[0]
        wait_for("their end", lambda: daemon.ask("get_client_list %d" % server) == "")
        wait_for("all to be closed",
                 lambda: len(os.listdir("/proc/%d/fd" % daemon.pid())) <= before)


if __name__ == "__main__":
    harness.main(globals())
