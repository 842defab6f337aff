#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contents of control.log and server.log, and that they are complete."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading

import harness
import mps
from harness import Skip, equal, need_root, wait_for

# Lines of NVIDIA's daemon, driver 580.159, at a start, a client's run and quit, without the parts
# that differ between runs. "=": both have it; "-": only NVIDIA's; "+": only this project's.
CONTROL = """
= Starting control daemon using socket PATH
= To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=PATH
= CUDA MPS Control binary version: N
= Accepting connection...
- User did not send valid credentials
+ Cmd:get_server_list
= Accepting connection...
= NEW CLIENT N from user N: Server is not ready, push client to pending list
= Starting new server N for user N
= Accepting connection...
= NEW SERVER N: Ready
- Accepting connection...
- NEW CLIENT N from user N: Server already exists
+ Accepting connection...
= Cmd:quit
= Try shutting down server N, backoff is disabled
= Server N exited with status N
= Exit with status N
"""

SERVER = """
= Startup
= Connecting to control daemon on socket: PATH
= Initializing server process
- Creating server context on device N (NAME)
- Created anonymous shared memory region mps.shm.N.N
= CUDA MPS Server for Linux/Unix. Binary version: N
- Display Driver version: N
+ CUDA driver: PATH, CUDA N.N
= Active Threads Percentage set to N.N
= Server Priority set to N
= Server has started
= Received new client request for {PID: N, Context ID: N}
+ Host memory for clients: N MiB each, N MiB in all
= Client {PID: N, Context ID: N} connected
= Creating worker thread for client {PID: N, Context ID: N}
+ Creating server context on device N (NAME)
= Device NAME (uuid GPU) is associated
= Status of client {PID: N, Context ID: N} is ACTIVE
- Server failed to recevie command with status N, assuming client {PID: N, Context ID: N} exit
= Client {PID: N, Context ID: N} exiting. Number of active client contexts is N.
= Client process N disconnected
= Server has been notified to shutdown
= Waiting for current clients to finish
+ Destroy server context on device N (NAME)
= Exiting
"""


def shape(line):
    """A line without its stamp and without the parts that differ between runs."""
    text = re.sub(r"^\[[^]]*\] ", "", line)
    for pattern, word in ((r"GPU-[0-9a-f-]{36}", "GPU"), (r"(?<=[ =])/[^ ,]+", "PATH"),
                          (r"Software GPU", "NAME"), (r"-?\d+", "N")):
        text = re.sub(pattern, word, text)
    return text


def check_shapes(log, wanted):
    equal([shape(line) for line in log.splitlines()],
          [line[2:] for line in wanted.strip().splitlines() if line[0] in "=+"])


def test_shapes():
    with mps.Service() as service:
        # If a driver's module is loaded, its version is logged as well.
        service.run_ok("process1")
        service.wait_for_log("disconnected")
        service.command("quit")
        wait_for("the end", lambda: "Exit with" in service.control_log())
        # The server may have reported the client's end only after the daemon's quit, and a container
        # may have no /dev/kmsg.
        check_shapes(re.sub(r".*(active worker threads|the kernel's log).*\n", "",
                            service.control_log()), CONTROL)
        check_shapes(re.sub(r".*\] Display Driver version.*\n", "", service.server_log()), SERVER)


class Journal(threading.Thread):
    """A journal of the test: the fields of its entries."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(folder + "/socket")
        os.chmod(folder + "/socket", 0o666)
        self.entries = []
        self.start()

    def run(self):
        while True:
            data = self.sock.recv(65536).decode()
            if data == "end":
                return
            self.entries.append(dict(line.split("=", 1) for line in data[:-1].split("\n")))

    def end(self):
        """All entries, once no more can come."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(self.sock.getsockname())
            sock.sendall(b"end")
        self.join()
        self.sock.close()
        return self.entries


@contextlib.contextmanager
def journalled(folder):
    """A service as if started by systemd, with a journal in the folder."""
    need_root()
    script = ("mount -t tmpfs mps-test /run && mkdir -p /run/systemd/journal && "
              "mount --bind %s /run/systemd/journal && exec \"$@\"" % folder)
    launcher = [mps.need_program("unshare"), "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*launcher, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skip("no mounts")
    service = mps.Service(launcher=launcher)
    service.daemon_env["NOTIFY_SOCKET"] = folder + "/nobody"
    with service:
        yield service


def quit_service(service):
    service.command("quit")
    wait_for("the end", lambda: not service.processes())


def test_journal():
    """Each line is there once, without its stamp, with its fields."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder)
        with journalled(folder) as service:
            process = service.popen("process1")
            equal(service.finish(process)[0], 0)
            server = service.server()
            service.wait_for_log("Client process %d disconnected" % process.pid)
            quit_service(service)
            lines = {"control": service.control_log(), "server": service.server_log()}
            out = service.read("daemon.out")
        entries = journal.end()
    lost = [int(entry["MESSAGE"].split()[0]) for entry in entries
            if entry["MESSAGE"].endswith("control.log and server.log only")]
    written = {role: [text.split("] ", 1)[1] for text in log.splitlines()]
               for role, log in lines.items()}
    n_written = sum(len(texts) for texts in written.values())
    equal(len(entries) + sum(lost) - len(lost), n_written)
    if not lost:
        for role, texts in written.items():
            equal([entry["MESSAGE"] for entry in entries if entry["MPS_ROLE"] == role], texts)
        check_fields(entries, process.pid, server)
    equal(len(out.splitlines()), n_written, "in the foreground they go to standard output, too")


def check_fields(entries, client, server):
    for part, wanted in (
            ("Starting control daemon", {"MPS_ROLE": "control", "PRIORITY": "6"}),
            ("NEW CLIENT", {"MPS_ROLE": "control", "MPS_CLIENT_PID": str(client), "MPS_UID": "0"}),
            ("Starting new server", {"MPS_SERVER_PID": str(server)}),
            ("exited with status 0", {"MPS_SERVER_PID": str(server), "MPS_UID": "0"}),
            ("Status of client", {"MPS_ROLE": "server", "MPS_SERVER_PID": str(server),
                                  "MPS_CLIENT_PID": str(client), "MPS_UID": "0"}),
            ("Client process", {"MPS_ROLE": "server", "MPS_SERVER_PID": str(server),
                                "MPS_CLIENT_PID": str(client)}),
            ("Creating server context", {"MPS_DEVICE": "0", "MPS_SERVER_PID": str(server)})):
        entry = next((entry for entry in entries if part in entry["MESSAGE"]), None)
        assert entry, "%s is not there: %s" % (part, entries)
        equal({name: entry.get(name) for name in wanted}, wanted, part)
        equal(entry["SYSLOG_IDENTIFIER"], "mps-control")
    assert not any("MPS_CLIENT_PID" in entry for entry in entries if "Cmd:" in entry["MESSAGE"])


def test_no_journal_without_systemd():
    """Without the variables of systemd, nothing is sent to a journal."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder)
        with journalled(folder) as service:
            quit_service(service)
            wait_for("the last line", lambda: journal.entries[-1]["MESSAGE"] == "Exit with status 0")
            n_entries = len(journal.entries)
            del service.daemon_env["NOTIFY_SOCKET"]
            service.start()
            service.run_ok("process1")
            quit_service(service)
            equal(len(journal.end()), n_entries)


def test_standard_error_is_the_journal():
    """A journal as standard error is recognised; if output is the same, no line is doubled."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder)
        with journalled(folder) as service:
            quit_service(service)
            wait_for("the last line", lambda: journal.entries[-1]["MESSAGE"] == "Exit with status 0")
            n_entries, out = len(journal.entries), service.read("daemon.out")
            numbers = os.stat(service.folder + "/daemon.out")
            del service.daemon_env["NOTIFY_SOCKET"]
            service.daemon_env["JOURNAL_STREAM"] = "%d:%d" % (numbers.st_dev, numbers.st_ino)
            service.start()
            service.run_ok("process1")
            quit_service(service)
            equal(service.read("daemon.out"), out)
            assert len(journal.end()) > n_entries + 10


def test_moved_while_lines_are_written():
    """logrotate moves the files and sends SIGHUP: each line is in one of them."""
    with mps.Service() as service:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(service.pipe + "/control")
        reader = sock.makefile("rb")
        n_files, n_lines = 6, 0
        for i in range(n_files):
            for _ in range(40):
                sock.sendall(b"unknown%d\n" % n_lines)
                n_lines += 1
            # Some of these lines are still in a pipe.
            os.rename(service.log + "/control.log", service.log + "/control.log.%d" % (i + 2))
            os.kill(service.daemon_pid(), signal.SIGHUP)
            wait_for("a new file", lambda: os.path.exists(service.log + "/control.log"))
        for i in range(n_lines):
            equal(reader.readline(), b'Unknown command "unknown%d"\n' % i)
        reader.close()
        sock.close()

        def log():
            return "".join(service.read("log/control.log.%d" % (i + 2))
                           for i in range(n_files)) + service.control_log()
        # The daemon opens a file before it writes so.
        wait_for("each notice", lambda: log().count("Reopened the logs") == n_files)
        equal(re.findall(r"Cmd:unknown(\d+)\n", log()), [str(i) for i in range(n_lines)])


if __name__ == "__main__":
    harness.main(globals())
