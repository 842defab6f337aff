# SPDX-License-Identifier: Apache-2.0
"""A service for several users, and checks that its processes keep nothing of hostile clients.

After a round a server must hold no more than it held after good programs alone. The
stream pool is the exception: a server creates streams in advance for the next client.
"""

import glob
import os
import re
import time

import mps
from harness import wait_for
from test_kill import holds

# After these programs a server holds all that it keeps for its next client, on both GPUs.
WARM_UP = ("process1", "events", "local_memory", "green_contexts", "graph_capture", "peers")
GPUS = 2
# server/schedule/stream_pool.h
SPARE_STREAMS = 40 * GPUS
# The software GPU is part of the server, and its allocator keeps some freed memory.
GROWTH_KIB = 96 << 10
DAEMON_KIB = 8 << 10
# Descriptors of the daemon for each server: a connection, a pidfd, a pipe for standard error.
FILES_A_SERVER = 3
DEADLINE_S = 20
LINES_OF_DEATH = re.compile(r"Server (\d+) was ended by signal .*|Server (\d+) ignores .*")


class Service(mps.Service):
    """A service whose servers belong to several users and write sanitizer reports into files."""

    def __init__(self, settings):
        super().__init__(settings)
        # Servers of all users write their counts and reports there.
        os.chmod(self.folder, 0o1777)
        self.subordinates = os.path.join(self.folder, "subuid")
        self.daemon_env["MPS_SUBUID_FILE"] = self.subordinates
        self.reports = os.path.join(self.folder, "sanitizer")
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            said = self.daemon_env.get(name)
            if os.environ.get("MPS_SAN"):
                self.daemon_env[name] = ":".join(filter(None, (said, "log_path=" + self.reports)))
        if os.environ.get("MPS_SAN"):
            self.daemon_env["MPS_SERVER_ENV"] += ",UBSAN_OPTIONS"

    def complaints(self):
        """The sanitizer reports so far."""
        found = []
        for path in sorted(glob.glob(self.reports + ".*")):
            with open(path, encoding="utf-8", errors="replace") as file:
                found.append(file.read())
        return found


    def last_words(self, pid, n=8):
        """The last lines of both logs that name that server, or that it has written."""
        return "\n".join(
            line for text in (self.control_log(), self.server_log())
            for line in [line for line in text.splitlines() if re.search(r"\b%d\b" % pid, line)][-n:])


class User:
    """A UID, its server, and what the server held before hostile clients connected."""

    def __init__(self, service, uid, is_first):
        self.service, self.uid, self.is_first = service, uid, is_first
        self.become = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
        self.server, self.before, self.memory = 0, {}, 0

    def run(self, name):
        return self.service.popen(name, **self.become)

    def warm_up(self):
        """Runs good programs alone, and notes what the server then holds."""
        for name in WARM_UP:
            code, out, err = self.service.finish(self.run(name))
            assert code == 0, "%s of user %d: exit code %d: %s%s" % (name, self.uid, code, out, err)
        self.server = self.server_of()
        wait_for("user %d to have no clients" % self.uid, self.is_alone, DEADLINE_S * mps.SLOW)
        self.before = self.settled()
        self.memory = mps.memory_kib(self.server)

    def server_of(self):
        """The PID of the server that serves this user; 0: there is none."""
        for pid in self.service.servers():
            try:
                if os.stat("/proc/%d" % pid).st_uid == self.uid:
                    return pid
            except OSError:
                pass
        return 0

    def is_alone(self):
        done = self.service.command("get_client_list", str(self.server), check=False)
        return done.returncode == 0 and not done.stdout.split()

    def holds(self):
        return dict(holds(self.service, self.server), threads=mps.thread_count(self.server))

    def settled(self):
        last = None
        while last != (last := self.holds()):
            time.sleep(0.5)
        return last

    def left(self):
        """The counts that have grown beyond their bounds: name -> (before, now)."""
        may = dict(self.before)
        may["streams"] = max(may["streams"], SPARE_STREAMS)
        return {name: (may.get(name, 0), now) for name, now in self.holds().items()
                if now > may.get(name, 0)}

    def check(self):
        """Fails unless the same server still runs and has given everything back."""
        pid = self.server_of()
        assert pid == self.server, "the server of user %d was replaced: %d, now %d; it said:\n%s" % (
            self.uid, self.server, pid, self.service.last_words(self.server))
        wait_for("clients of user %d to be gone" % self.uid, self.is_alone, DEADLINE_S * mps.SLOW)
        try:
            wait_for("", lambda: not self.left(), DEADLINE_S * mps.SLOW)
        except AssertionError:
            raise AssertionError("left behind in the server of user %d: %s" % (
                self.uid, self.left())) from None
        if not os.environ.get("MPS_SAN"):
            grown = mps.memory_kib(self.server) - self.memory
            assert grown < GROWTH_KIB, "%d KiB more memory" % grown


class Daemon:
    """The daemon, which must keep nothing of any client."""

    def __init__(self, service):
        self.service, self.process = service, service.daemon
        self.n_files = self.count_files()

    def count_files(self):
        """The number of descriptors that are not for a server."""
        servers = len(self.service.servers())
        return len(mps.open_files(self.process.pid)) - FILES_A_SERVER * servers

    def end_traces(self):
        """The daemon keeps the memory of a trace until somebody has read it."""
        self.service.command("trace", "stop", os.path.join(self.service.folder, "trace.json"),
                             check=False, timeout=60)

    def check(self):
        assert self.process.poll() is None, "the daemon has ended: %s" % self.process.returncode
        self.end_traces()
        try:
            wait_for("", lambda: self.count_files() <= self.n_files, DEADLINE_S * mps.SLOW)
        except AssertionError:
            raise AssertionError("the daemon had %d descriptors besides its servers', and has %s" % (
                self.n_files, mps.open_files(self.process.pid))) from None
        if not os.environ.get("MPS_SAN"):
            kib = mps.memory_kib(self.process.pid)
            assert kib < DAEMON_KIB, "the daemon has grown to %d KiB" % kib


def deaths(text):
    """Lines of control.log about servers that a signal ended.

    A user may end a server before it has begun: it has no handler for SIGTERM yet.
    """
    ended = {"Server %s was ended by signal 15 (Terminated)" % pid
             for pid in re.findall(r"Try shutting down server (\d+)", text)}
    return [match.group(0) for match in LINES_OF_DEATH.finditer(text) if match.group(0) not in ended]
