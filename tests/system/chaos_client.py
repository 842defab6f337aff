# SPDX-License-Identifier: Apache-2.0
"""A small client in a separate process, which its parent controls.

The process uses the protocol directly. It reports once to its parent how its handshake
ended, then obeys orders: `work', `fault' or `end'.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import struct
import sys
import time

import session
import wire
from harness import SLOW

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz"))
from hostile import descriptors, images  # noqa: E402

# How a handshake ends. CUT: the connection ended without a reply. ABSENT: nobody listens there.
SERVED, REFUSED, CUT, ABSENT = "served", "refused", "cut", "absent"
NOWHERE = 0x100000000000
# The longest wait for a reply, which a terminated client does not get; and for a client's end.
ANSWER_S, END_S = 5, 20


class Child(session.Asker):
    """In the child: the session itself."""

    # The daemon itself replies within a minute (WELCOME_MS).
    PATIENCE_S = 70 * SLOW
    n_kernels = 0

    def ask(self, name, /, **values):
        """Like Asker's, but notices at once that the server has ended."""
        self.seq += 1
        self.place(wire.message(name, 1, self.seq, **values))
        deadline = time.monotonic() + ANSWER_S * SLOW
        nap_s = 0.0002
        while self.result()[0] != self.seq:
            if self.is_dropped():
                raise ConnectionError("the server has ended")
            if time.monotonic() > deadline:
                raise TimeoutError("no answer")
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, 0.02)
        at = wire.REPLIES + 16
        size = struct.unpack_from("<I", self.page, wire.REPLIES + 8)[0]
        return self.result()[1], wire.answer(name, self.page[at:at + size])

    def work(self, dice):
        """Opens a GPU, allocates memory, and does some work."""
        self.ask("device_open", device=0)
        result, answer = self.ask("memory_alloc", device=0, size=dice.choice((4096, 1 << 20)))
        if result != 0:
            return
        address = answer["address"]
        for _ in range(dice.randint(1, 5)):
            self.place(wire.message("fill", dst=address, value=dice.randrange(256), width=4,
                                    count=64, rows=1))
        if dice.random() < 0.5:
            self.launch(images.QUIET, b"h_count", bytes(8))
        if dice.random() < 0.7:
            self.place(wire.message("memory_free", address=address))
        self.ask("memory_info", device=0)

    def fault(self):
        self.ask("device_open", device=0)
        self.launch(images.LOUD, b"h_store", NOWHERE.to_bytes(8, "little") + bytes(4))
        self.ask("memory_info", device=0)

    def launch(self, image, name, params):
        self.n_kernels += 1
        number = self.n_kernels
        fd = descriptors.image(image)
        with contextlib.closing(os.fdopen(fd, "rb")):
            socket.send_fds(self.sock, [wire.frame("image", 1, size=len(image))], [fd])
        if self.ask("library_load", library=number, size=len(image))[0] == 0:
            self.ask("library_kernel", library=number, kernel=number, name=name)
            one = (1, 1, 1)
            self.place(wire.message("launch", kernel=number, grid=one, block=one, params=params))


def begin(service, fields):
    """The session, or None; and the result for the parent."""
    try:
        child = Child(service, **fields)
    except session.Refused as why:
        is_refused = not str(why).startswith("no welcome")
        return None, {"how": REFUSED if is_refused else CUT, "server": 0, "text": str(why)}
    except (FileNotFoundError, ConnectionRefusedError) as why:
        return None, {"how": ABSENT, "server": 0, "text": str(why)}
    except OSError as why:
        return None, {"how": CUT, "server": 0, "text": str(why)}
    return child, {"how": SERVED, "server": child.server_pid, "text": ""}


def live(service, dice, fields, parent):
    """The child's life."""
    child, told = begin(service, fields)
    parent.sendall(json.dumps(told).encode() + b"\n")
    is_lost = False
    for order in parent.makefile("r"):
        if order == "end\n":
            return
        if child and not is_lost:
            try:
                child.work(dice) if order == "work\n" else child.fault()
            except (OSError, AssertionError):
                is_lost = True  # its server has ended, or its work has


class Client:
    """In the parent: the process and its known state."""

    def __init__(self, service, dice, uid, **fields):
        self.uid, self.is_stopped, self.is_over = uid, False, False
        self.how = None  # not known yet
        self.server, self.text = 0, ""
        self.began = self.ended = 0.0
        self.said = b""
        self.sock, other = socket.socketpair()
        seed = dice.getrandbits(32)
        self.pid = os.fork()
        if self.pid == 0:
            self.be_child(service, type(dice)(seed), fields, other)
        other.close()
        self.sock.setblocking(False)

    def be_child(self, service, dice, fields, parent):
        """Does not return."""
        try:
            # The parent's descriptors, such as other connections, are not for this process. Nor may
            # an object of the parent be collected here, and close a descriptor with its number.
            gc.disable()
            kept = parent.fileno()
            os.closerange(3, kept)
            os.closerange(kept + 1, 4096)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
            live(service, dice, fields, parent)
        finally:
            os._exit(0)

    def look(self):
        """Reads the child's report; returns whether its handshake has ended."""
        if self.how is None and not self.is_over:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self.said += self.sock.recv(4096)
            if self.said.endswith(b"\n"):
                told = json.loads(self.said)
                self.how, self.server, self.text = told["how"], told["server"], told["text"]
                self.began = time.monotonic()
        return self.how is not None

    def order(self, what):
        with contextlib.suppress(OSError):
            self.sock.send(what.encode() + b"\n")

    def signal(self, number):
        if not self.is_over:
            os.kill(self.pid, number)
            if number in (signal.SIGSTOP, signal.SIGCONT):
                self.is_stopped = number == signal.SIGSTOP

    def end(self, is_killed=False):
        """Ends the process: by order, or by SIGKILL at a random moment."""
        if self.is_over:
            return
        self.look()
        self.ended = time.monotonic()
        self.is_over = True
        if is_killed:
            os.kill(self.pid, signal.SIGKILL)
        else:
            self.order("end")
        self.reap()
        self.sock.close()

    def reap(self):
        deadline = time.monotonic() + END_S * SLOW
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError("client %d of user %d does not end" % (self.pid, self.uid))
            time.sleep(0.002)
