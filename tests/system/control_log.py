# SPDX-License-Identifier: Apache-2.0
"""Checks control.log against what happened.

    log = control_log.Log(text, is_exclusive=False, is_multiuser=False)
    complaints = log.check(commands, clients, was_quit=True)

The log follows each server through its states. The test records the commands and clients:
each command with its reply, each client with the server that welcomed it. A log without
contradictions gives no complaints.
"""

import json
import re

LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) Control +(\d+)\] (.*)")
CONTROL_BYTES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd]")
LINE_BYTES_MAX = 1152  # LOG_LINE_MAX
# A daemon that was killed may have logged an event without recording it (control_servers).
UNRECORDED_LINES = 3
BEGIN = "Starting control daemon using socket "
END = "Exit with status 0"
STARTED = re.compile(r"Starting new server (\d+) for user (\d+)$")
ENDED = re.compile(r"Server (\d+) (?:exited with status \d+|was ended by signal \d+ \(.*\)"
                   r"|has ended \(its exit status is unknown, as it was adopted\))$")
GIVEN_UP = re.compile(r"(?:Server (\d+) cannot be killed|Process (\d+) no longer belongs to user \d+)")
READY = re.compile(r"NEW SERVER (\d+): Ready$")
WAITS = re.compile(r"Server (\d+) of user \d+ waits for its turn: .* EXCLUSIVE_PROCESS")
STOPPING = re.compile(r"Try shutting down server (\d+), backoff is disabled")
STATE = re.compile(r"Server (\d+) is ([A-Z]+), result \d+")
KNOWN = re.compile(r"Server (\d+) of user (\d+) was started by the previous daemon$")
GONE = re.compile(r"Server (\d+) of user \d+ of the previous daemon is not adopted: ")
REFUSED_SERVER = re.compile(r"Server (\d+) of user \d+ is refused: ")
REFUSED_CLIENT = re.compile(r"Refused client (\d+) of user (\d+): ")
CLIENT = re.compile(r"NEW CLIENT (\d+) from user (\d+): (.*)$")
CLIENT_WORDS = ("Server already exists", "Server is not ready, push client to pending list")
ADDED = re.compile(r"Adding server '(\w+)'")
DELETED = re.compile(r"Server '(\w+)' is deleted")
RESTART = re.compile(r"Cmd:restart_server (\d+)\b")
APART = re.compile(r"Client (\d+) of user \d+ gets a server of its own: ")


def is_json(line):
    try:
        return line[:1] in ("{", "[") and json.loads(line) is not None
    except ValueError:
        return False


class Command:
    """A command of the test. `reply' is None if the daemon ended before it."""

    def __init__(self, line, reply=None, is_prompt=False):
        self.line, self.reply = line, reply
        self.is_prompt = is_prompt  # no line comes between the command and its reply
        self.is_left = False  # later commands did not wait for it: it may come after them


class Client:
    """A client of the test; `server' is 0 if no server welcomed it. All times use one clock.

    `name' is that of the named server in whose directory it came.
    """

    def __init__(self, pid, uid, server=0, began=0.0, ended=0.0, name=None):
        self.pid, self.uid, self.server, self.name = pid, uid, server, name
        self.began, self.ended = began, ended  # it is served at least during this time


class Server:
    def __init__(self, pid, uid, at):
        self.pid, self.uid, self.started = pid, uid, at
        self.ready = self.stopping = self.ended = None
        self.is_active = False
        self.is_orphan = False  # its daemon has died, and the next daemon has not mentioned it yet

    def is_at(self, at):
        return self.started <= at and (self.ended is None or self.ended > at)


class Log:
    def __init__(self, text, is_exclusive=False, is_multiuser=False):
        self.is_exclusive, self.is_multiuser = is_exclusive, is_multiuser
        self.complaints, self.lines = [], []
        self.servers = []
        self.clients = []  # (at, pid, uid)
        self.refused = set()  # (pid, uid)
        self.apart = set()  # PIDs of clients with an isolated server
        self.restarted = set()  # PIDs of servers that were to move their clients to another one
        self.named = {}  # name of a server -> [(first line, last line or None), ...]
        self.unsure = set()  # names that a daemon has deleted and may not have recorded so
        self.daemon = None
        self.run_began = 0  # the daemon's first line
        self.split(text)
        for at, (pid, line) in enumerate(self.lines):
            self.follow(at, pid, line)

    def complain(self, at, text):
        self.complaints.append("line %d: %s: %s" % (at + 1, text, self.lines[at][1] if at < len(
            self.lines) else ""))

    # ---- lines

    def split(self, text):
        if text and not text.endswith("\n"):
            self.complaints.append("the last line has no end")
        last = ""
        for n, line in enumerate(text.split("\n")[:-1]):
            found = LINE.fullmatch(line)
            if CONTROL_BYTES.search(line):
                self.complaints.append("line %d has control bytes: %r" % (n + 1, line))
            if len(line.encode()) + 1 > LINE_BYTES_MAX:
                self.complaints.append("line %d is too long" % (n + 1))
            if not found:
                self.complaints.append("line %d is no whole line: %r" % (n + 1, line))
                self.lines.append((0, ""))
                continue
            if found.group(1) < last:
                self.complaints.append("line %d: time goes back: %s" % (n + 1, line))
            last = found.group(1)
            self.lines.append((int(found.group(2)), found.group(3)))

    # ---- the content of lines

    def follow(self, at, pid, line):
        started = STARTED.match(line)
        if started:
            self.on_start(at, pid, int(started.group(1)), int(started.group(2)))
            return
        if pid != self.daemon and line:
            self.on_new_daemon(at, pid)
        for pattern, action in ((READY, self.on_ready), (ENDED, self.on_end),
                                (STOPPING, self.on_stopping), (STATE, self.on_state),
                                (GIVEN_UP, self.on_end), (KNOWN, self.on_known),
                                (GONE, self.on_gone), (REFUSED_SERVER, self.on_refused),
                                (REFUSED_CLIENT, self.on_refused_client),
                                (ADDED, self.on_added), (DELETED, self.on_deleted),
                                (CLIENT, self.on_client), (APART, self.on_apart),
                                (RESTART, self.on_restart)):
            found = pattern.match(line)
            if found:
                action(at, found)
        if line.startswith(BEGIN):
            self.on_begin(at)
        elif line == END:
            self.on_exit(at)

    def server(self, pid):
        """The latest server with that PID."""
        return next((one for one in reversed(self.servers) if one.pid == pid), None)

    def living(self, at, pid, what):
        """The server, which must have started and not ended."""
        server = self.server(pid)
        if not server:
            self.complain(at, "server %d %s, but was never started" % (pid, what))
        elif server.ended is not None:
            self.complain(at, "server %d %s, but has ended" % (pid, what))
            return None
        return server

    def on_start(self, at, prefix, pid, uid):
        before = self.server(pid)
        if before and before.ended is None:
            self.complain(at, "server %d is started twice" % pid)
        if prefix != pid:
            self.complain(at, "not in the name of server %d" % pid)
        self.servers.append(Server(pid, uid, at))

    def on_new_daemon(self, at, pid):
        """The first line of the next daemon, after the last line of the previous daemon."""
        if self.daemon is not None:
            for server in self.servers:
                server.is_orphan = server.ended is None
        self.daemon, self.run_began = pid, at

    def on_begin(self, at):
        for server in self.servers:
            if server.is_orphan and self.run_began - server.started > UNRECORDED_LINES:
                self.complain(at, "server %d has no end, and no daemon adopts it" % server.pid)
            if server.is_orphan:
                server.is_orphan, server.ended = False, at
        for name, lives in self.named.items():
            if lives[-1][1] is not None and self.is_unrecorded(lives[-1][1]) and not self.follows_an_end():
                self.unsure.add(name)
                lives.append((at, None))

    def on_known(self, at, found):
        server = self.server(int(found.group(1)))
        if (server and server.ended is not None
                and self.run_began - server.ended <= UNRECORDED_LINES):
            server.ended = None  # a second end must follow, from the record
        server = self.living(at, int(found.group(1)), "is adopted")
        if server:
            server.is_orphan, server.is_active, server.stopping = False, False, None

    def on_gone(self, at, found):
        server = self.server(int(found.group(1)))
        if not server:
            self.complain(at, "server %s was never started" % found.group(1))
        elif server.ended is None:
            server.ended, server.is_orphan = at, False
        elif self.run_began - server.ended > UNRECORDED_LINES:
            self.complain(at, "server %d ends twice" % server.pid)

    def on_refused(self, at, found):
        server = self.server(int(found.group(1)))
        if server and server.is_orphan:
            server.ended, server.is_orphan = at, False

    def on_ready(self, at, found):
        server = self.living(at, int(found.group(1)), "is ready")
        if not server:
            return
        server.is_active = True
        if server.ready is None:
            server.ready = at
        earlier = [one for one in self.servers[:self.servers.index(server)] if one.ended is None]
        if self.is_exclusive and earlier:
            waits = WAITS.match(self.lines[at + 1][1]) if at + 1 < len(self.lines) else None
            if not waits or int(waits.group(1)) != server.pid:
                self.complain(at, "server %d has the GPU beside server %d" % (
                    server.pid, earlier[0].pid))

    def on_end(self, at, found):
        server = self.living(at, int(found.group(1) or found.group(2)), "ends")
        if server:
            server.ended = at

    def on_stopping(self, at, found):
        server = self.living(at, int(found.group(1)), "is told to end")
        if server:
            server.stopping, server.is_active = at, False

    def on_state(self, at, found):
        server = self.living(at, int(found.group(1)), "tells its state")
        if server:
            server.is_active = False

    def on_refused_client(self, _at, found):
        self.refused.add((int(found.group(1)), int(found.group(2))))

    def on_client(self, at, found):
        pid, uid, words = int(found.group(1)), int(found.group(2)), found.group(3)
        self.clients.append((at, pid, uid))
        if words not in CLIENT_WORDS:
            self.complain(at, "unknown text")
        if words == CLIENT_WORDS[0] and not any(
                one.is_active and one.ended is None and (one.uid == uid or self.is_multiuser)
                for one in self.servers):
            self.complain(at, "client %d has no server that is ready" % pid)

    def on_apart(self, _, found):
        self.apart.add(int(found.group(1)))

    def on_restart(self, _, found):
        self.restarted.add(int(found.group(1)))

    # ---- named servers

    def is_named(self, name, at):
        """Whether a server has that name at that line."""
        return any(first <= at and (last is None or at <= last) for first, last in self.named.get(name, ()))

    def follows_an_end(self):
        """Whether the daemon before has ended by itself."""
        return self.run_began > 0 and self.lines[self.run_began - 1][1] == END

    def is_unrecorded(self, at):
        """Whether an event of that line may be lost with a daemon that was killed."""
        return 0 <= self.run_began - at <= UNRECORDED_LINES

    def on_added(self, at, found):
        lives = self.named.setdefault(found.group(1), [])
        if lives and lives[-1][1] is None:
            if not self.is_unrecorded(lives[-1][0]) and found.group(1) not in self.unsure:
                self.complain(at, "server %s is added twice" % found.group(1))
            lives[-1] = (lives[-1][0], self.run_began)
        self.unsure.discard(found.group(1))
        lives.append((at, None))

    def on_deleted(self, at, found):
        lives = self.named.get(found.group(1))
        if not lives or (lives[-1][1] is not None and not self.is_unrecorded(lives[-1][1])):
            self.complain(at, "server %s is deleted, but does not exist" % found.group(1))
        else:
            lives[-1] = (lives[-1][0], at)

    def on_exit(self, at):
        for lives in self.named.values():
            if lives[-1][1] is None:
                lives[-1] = (lives[-1][0], at)
        for server in self.servers:
            if server.ended is None:
                self.complain(at, "server %d has no end" % server.pid)
        if at + 1 < len(self.lines) and self.lines[at + 1][0] == self.lines[at][0]:
            self.complain(at, "the daemon has ended, and says more")

    # ---- comparison with the test's record

    def check(self, commands=(), clients=(), was_quit=True):
        """All contradictions, as text; was_quit: the last daemon was told to end, and has ended."""
        if was_quit and (not self.lines or self.lines[-1][1] != END):
            self.complaints.append("the last line is not %r" % END)
        began = [at for at, (_, line) in enumerate(self.lines) if line.startswith(BEGIN)]
        pids = [self.lines[at][0] for at in began]
        if len(set(pids)) != len(pids) or not pids:
            self.complaints.append("daemons that have begun: %s" % pids)
        self.check_commands(commands)
        for client in clients:
            self.check_client(client)
        self.check_slots(clients)
        if self.is_exclusive:
            self.check_turns(clients)
        return self.complaints

    def has_reply(self, at, command):
        """Whether the reply follows line `at'. For JSON, metrics and lists of protocol 3, the log has
        only the size."""
        text = "\n".join(command.reply)
        if re.search(" (list|describe)", command.line) and text:
            sized = "%d bytes" % len(text.encode())
            if any(line == sized for _, line in self.lines[at + 1:]):
                return True
        reply = ["%d bytes" % len(line.encode()) if is_json(line) else line
                 for line in command.reply]
        if reply and reply[0].startswith("# HELP "):
            reply = ["%d bytes" % len("\n".join(reply).encode())]
        if command.is_prompt:
            got = [line for _, line in self.lines[at + 1:at + 1 + len(reply)]]
            return got == reply
        rest = iter(line for _, line in self.lines[at + 1:])
        return all(line in rest for line in reply)

    def check_commands(self, commands):
        at = 0
        for command in commands:
            if command.reply is None:
                continue  # it is unknown whether the daemon has read it
            places = [i for i in range(at, len(self.lines))
                      if self.lines[i][1] == "Cmd:" + command.line]
            answered = next((i for i in places if self.has_reply(i, command)), None)
            if answered is None:
                self.complaints.append("command %r with reply %r is %s after line %d" % (
                    command.line, command.reply,
                    "without that reply" if places else "missing", at))
            elif not command.is_left:
                at = answered + 1

    def check_client(self, client):
        came = [at for at, pid, uid in self.clients if (pid, uid) == (client.pid, client.uid)]
        # A daemon that is quitting refuses clients before it looks for a server.
        if not came and (client.server or (client.pid, client.uid) not in self.refused):
            self.complaints.append("client %d of user %d is missing" % (client.pid, client.uid))
        if not client.server or not came:
            return
        server = self.server(client.server)
        if not server or server.ready is None:
            self.complaints.append("client %d was handed to server %d, which has not started" % (
                client.pid, client.server))
        elif server.ended is not None and server.ended < came[0]:
            self.complaints.append("client %d was handed to server %d, which had ended" % (
                client.pid, client.server))
        elif server.stopping is not None and server.stopping < came[0]:
            self.complaints.append("client %d was handed to server %d, which was to end" % (
                client.pid, client.server))
        elif not self.is_multiuser and server.uid != client.uid:
            self.complaints.append("client %d of user %d was handed to server %d of user %d" % (
                client.pid, client.uid, client.server, server.uid))
        if client.name and not self.is_named(client.name, came[0]):
            self.complaints.append("client %d was served by %s, which did not exist" % (
                client.pid, client.name))

    def check_slots(self, clients):
        """A user has one shared server at a time; with -M, all users together have one. So has a
        name. A server that moves its clients has a successor meanwhile."""
        names = {}
        for client in clients:
            if client.server and client.pid not in self.apart:
                names.setdefault(client.server, set()).add(client.name)
        last = {}
        for server in self.servers:
            if server.pid not in names:
                continue
            if len(names[server.pid]) > 1:
                self.complaints.append("server %d is %s" % (server.pid, names[server.pid]))
            name, = list(names[server.pid])[:1]
            key = name or (None if self.is_multiuser else server.uid)
            before = last.get(key)
            if before and before.is_at(server.started) and before.pid not in self.restarted:
                self.complaints.append("servers %d and %d are shared at once" % (
                    before.pid, server.pid))
            last[key] = server

    def check_turns(self, clients):
        served = sorted((c for c in clients if c.server), key=lambda c: c.began)
        for i, one in enumerate(served):
            for other in served[i + 1:]:
                if (other.began < one.ended and other.server != one.server
                        and one.server not in self.restarted):
                    self.complaints.append("servers %d and %d had clients at once" % (
                        one.server, other.server))
                    break
