# SPDX-License-Identifier: Apache-2.0
"""A stand-in for mps-server that uses its side of the control socket.

test_daemon.py installs it beside a copy of mps-control. The words in the file `mode' of
$FAKE_DIR select how it misbehaves; without them it behaves correctly.
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

HELLO, REFUSED, SERVER, STATE, CLIENT, HERE, GONE, SHUTDOWN, OUTPUT, DEVICE = 1, 2, 5, 6, 7, 8, 9, 10, 12, 13
COUNTERS = 21
WIRE = json.loads(os.environ["FAKE_WIRE"])
SIZES = {int(kind): size for kind, size in WIRE["sizes"].items()}
ACTIVE = 2


def say(text):
    try:
        os.write(2, (text + "\n").encode("latin-1"))
    except OSError:
        pass


def frame(kind, body):
    return struct.pack("<BBHI", 0, kind, 0, SIZES[kind]) + body.ljust(SIZES[kind] - 8, b"\0")


def mode_in(file, default):
    try:
        with open(os.environ["FAKE_DIR"] + "/" + file, encoding="utf-8") as opened:
            return int(opened.read())
    except FileNotFoundError:
        return default


def device():
    """One GPU, in the compute mode of the file."""
    return frame(DEVICE, struct.pack("<IIiIIIIIQ16s32s256s", 0, 1, mode_in("compute_mode", 0), 132,
                                     8, 16, 0, 90, 1 << 30, bytes(range(16)), b"0000:00:06.0",
                                     b"a GPU"))


class Server:
    def __init__(self, uid, modes):
        self.uid, self.modes = uid, modes
        self.clients = {}  # id -> (pid, socket)
        self.daemon = None
        self.ending = False

    def connect(self):
        path = os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control"
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            daemon.connect(path)
        except OSError:
            return False
        claimed = 4242 if "wrong_uid" in self.modes else self.uid
        spec = int(os.environ["FAKE_SPEC"], 16) + ("wrong_spec" in self.modes
                                                   or mode_in("other_spec_%d" % os.getpid(), 0))
        words = frame(SERVER, struct.pack("<IIQQ", WIRE["version"], claimed, spec, os.getpid()))
        for number, (pid, _) in self.clients.items():
            words += frame(HERE, struct.pack("<QQI", number, pid, self.uid))
        words += self.claims()
        # The code that reads notices a refusal.
        with contextlib.suppress(OSError):
            daemon.sendall(words)
        self.daemon = daemon
        return True

    def claims(self):
        """If the file says so, clients that it does not have: root's, and one with root's PID."""
        if not mode_in("claims_clients_%d" % self.uid, 0):
            return b""
        return b"".join(frame(HERE, struct.pack("<QQII", number, 1, uid, 7) + b"/root/program")
                        for number, uid in ((1 << 40, 0), (1 << 41, self.uid)))

    def tell(self, words):
        """The code that reads notices the death of a daemon."""
        try:
            if self.daemon:
                self.daemon.sendall(words)
        except OSError:
            pass

    def ready(self):
        self.tell(device())
        self.tell(frame(STATE, struct.pack("<I", ACTIVE)))

    def receive(self):
        """One frame and its descriptor, or (None, -1) at the end."""
        head, ancillary, _, _ = self.daemon.recvmsg(8, socket.CMSG_SPACE(4), socket.MSG_WAITALL)
        if len(head) < 8:
            return None, b"", -1
        kind = head[1]
        body = b""
        while len(body) < SIZES[kind] - 8:
            more = self.daemon.recv(SIZES[kind] - 8 - len(body))
            if not more:
                return None, b"", -1
            body += more
        fd = struct.unpack("<i", ancillary[0][2][:4])[0] if ancillary else -1
        return kind, body, fd

    def on_daemon(self):
        try:
            kind, body, fd = self.receive()
        except ConnectionResetError:
            kind = None
        if kind is None:
            self.daemon.close()
            self.daemon = None
            return
        if kind == CLIENT:
            number, pid, uid, gid = struct.unpack_from("<QQII", body)
            client = socket.socket(fileno=fd)
            self.clients[number] = (pid, client)
            client.sendall(b"served by %d id %d pid %d uid %d gid %d\n"
                           % (os.getpid(), number, pid, uid, gid))
        elif kind == OUTPUT:
            os.dup2(fd, 2)
            os.close(fd)
            if "becomes_root" in self.modes:
                self.daemon.set_inheritable(True)
                os.execv(os.environ["FAKE_DIR"] + "/root_job", ["root_job"])
        elif kind == COUNTERS:
            self.tell(frame(COUNTERS, b""))
        elif "hang" not in self.modes:
            force = struct.unpack_from("<I", body)[0]
            say("Server has been notified to shutdown%s" % (" now" if force else ""))
            self.ending = True
            if force:
                sys.exit(0)

    def on_client(self, number):
        pid, client = self.clients[number]
        try:
            said = client.recv(4096)
        except ConnectionResetError:
            said = b""
        if said:
            client.sendall(b"echo " + said)
            return
        client.close()
        del self.clients[number]
        self.tell(frame(GONE, struct.pack("<QQ", number, pid)))

    def mutate(self):
        """Frames with small errors, on connections that the daemon closes for them."""
        chance = random.Random(int(os.environ["FAKE_SEED"]))
        right = [struct.pack("<IIQ256s", state, 0, 1, b"text") for state in (1, 2, 3, 4)]
        right = [frame(STATE, body) for body in right]
        right += [frame(kind, struct.pack("<QQ", number, 5)) for kind in (HERE, GONE) for number in (1, 2)]
        for _ in range(300):
            self.daemon.close()
            self.connect()
            words = bytearray(b"".join(chance.choices(right, k=1 + chance.randrange(6))))
            for _ in range(chance.randrange(4)):
                words[chance.randrange(len(words))] = chance.choice((0, 1, 2, 127, 128, 255))
            self.tell(words[:1 + chance.randrange(len(words))])
            time.sleep(0.002)
        say("every frame was said")
        self.daemon.close()
        self.connect()

    def run(self):
        idle_since = time.monotonic()
        while not (self.ending and not self.clients):
            if not self.daemon and not self.ending and self.connect():
                self.ready()
            if not self.daemon and not self.clients and time.monotonic() - idle_since > 10:
                return
            sockets = {client.fileno(): number for number, (_, client) in self.clients.items()}
            readable = list(sockets) + ([self.daemon.fileno()] if self.daemon else [])
            for fd in select.select(readable, [], [], 0.2)[0]:
                if self.daemon and fd == self.daemon.fileno():
                    self.on_daemon()
                elif fd in sockets:
                    self.on_client(sockets[fd])


def become(uid, gid):
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    args = sys.argv[1:]
    if "--devices" in args:
        os.write(1, device())
        return
    uid = int(args[args.index("--uid") + 1])
    gid = int(args[args.index("--gid") + 1]) if "--gid" in args else uid
    become(uid, gid)
    folder = os.environ["FAKE_DIR"]
    with open("%s/start.%d" % (folder, os.getpid()), "w", encoding="utf-8") as file:
        json.dump({"args": args, "environment": dict(os.environ), "fds": os.listdir("/proc/self/fd"),
                   "ignored": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN}, file)
    try:
        with open(folder + "/mode", encoding="utf-8") as file:
            modes = file.read().split()
    except FileNotFoundError:
        modes = []
    say("Startup")
    if "exit" in modes:
        say("the device does not answer")
        sys.exit(3)
    if "crash" in modes:
        os.kill(os.getpid(), signal.SIGABRT)
    if "hang" in modes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "chatty" in modes:
        say("x" * 3000)
        say("a\x1b[31mred\x07\tline")
    if "silent" in modes:
        time.sleep(60)
    server = Server(uid, modes)
    server.connect()
    if "garbage" in modes:
        server.daemon.sendall(b"\x00\x06garbage that is no frame of any kind")
        time.sleep(60)
    if "strange_notes" in modes:
        server.daemon.sendall(frame(GONE, struct.pack("<QQ", 77, 78)))
    if "mutated" in modes:
        server.ready()
        server.mutate()
    if "slow" in modes:
        time.sleep(0.5)
    if "talks" in modes:
        for number in range(30000):
            say("word %d" % number)
    server.ready()
    server.run()
    say("Exiting")


main()
