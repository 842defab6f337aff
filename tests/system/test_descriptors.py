#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""Descriptors that block when they are used or closed: only their sender waits for them."""

import array
import contextlib
import fcntl
import multiprocessing
import os
import signal
import socket
import struct
import sys
import termios
import time

import harness
import mps
import session
import slow_files
import wire
from harness import Skip, equal, need_root, wait_for

OLD_KERNEL = (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "old_kernel.py"))
LINGER_S = 120
STRANGER = 1001
# Since Python 3.14, processes are not forked by default, and would need functions that can be pickled.
FORK = multiprocessing.get_context("fork")
GRACE_MS = 1000 * mps.SLOW


def send_descriptors(sock, words, descriptors):
    sock.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                            array.array("i", [d if isinstance(d, int) else d.fileno()
                                              for d in descriptors]))])


def connect(service):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20 * mps.SLOW)
    sock.connect(service.pipe + "/control")
    return sock


def kernel_refuses_descriptors():
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, 83, 0)
        except OSError:
            return False
    return True


def is_prompt(service):
    """Commands and programs are served as usual; else the daemon's thread is blocked."""
    began = time.monotonic()
    service.command("get_server_list", timeout=20)
    # Less than any of the daemon's deadlines.
    assert time.monotonic() - began < 4 * mps.SLOW, "commands wait"
    service.run_ok("process1", timeout=30)


@contextlib.contextmanager
def process(what, *arguments, uid=0):
    """Runs what(*arguments) in a process of its own, which then stays until the end of this.

    It is not waited for: its own descriptors may keep it longer.
    """
    def run():
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        what(*arguments)
        is_ready.value = 1
        time.sleep(3600)

    is_ready = FORK.Value("i", 0)
    child = FORK.Process(target=run, daemon=True)
    child.start()
    try:
        wait_for("what a process does", lambda: is_ready.value or not child.is_alive(), 30 * mps.SLOW)
        assert is_ready.value, "the process has failed"
        yield child
    finally:
        child.kill()


def unread(sock):
    """The number of bytes that the other side has not read."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def leave_replies_unread(service):
    """A connection from which the daemon stops reading, because its replies are not read."""
    sock = connect(service)
    while True:
        sock.sendall(b"an unknown command\n" * 100)
        until = time.monotonic() + 0.2
        while unread(sock) and time.monotonic() < until:
            time.sleep(0.005)
        if unread(sock):
            return sock


def queue_lingering_socket(service):
    """Its last reference is in the queue of the daemon's connection."""
    sock = leave_replies_unread(service)
    lingering = slow_files.LingeringSocket(LINGER_S)
    send_descriptors(sock, b"get_server_list\n", [lingering])
    lingering.sock.close()
    return sock


def have_it_read(service):
    sock = queue_lingering_socket(service)
    sock.settimeout(1)
    with contextlib.suppress(TimeoutError, ConnectionError):
        while sock.recv(1 << 16):
            pass


def hang_up(service):
    queue_lingering_socket(service).close()


def introduce_with_descriptors(service):
    """The daemon may be quicker: then the wait is on this side."""
    for words in [b"\n", wire.frame("hello"), b"\0", b"x" * 100] * 5:
        lingering = slow_files.LingeringSocket(LINGER_S)
        sock = connect(service)
        send_descriptors(sock, words, [lingering])
        lingering.give_away()


def test_strangers_of_the_daemon():
    """Before Linux 6.16, the kernel accepts them."""
    need_root()
    with mps.Service(launcher=OLD_KERNEL) as service:
        for what in have_it_read, hang_up, introduce_with_descriptors:
            with process(what, service, uid=STRANGER):
                is_prompt(service)
        is_prompt(service)


def test_kernel_refuses():
    """From Linux 6.16 on, no process can send one to the daemon; images still arrive."""
    if not kernel_refuses_descriptors():
        raise Skip("the kernel has no SO_PASSRIGHTS")
    with mps.Service() as service:
        for words in b"\n", b"\0":
            with connect(service) as sock:
                try:
                    send_descriptors(sock, words, [0])
                except PermissionError:
                    continue
                raise AssertionError("a descriptor was sent to the daemon")
        service.run_ok("process1")


class Neighbours:
    """A service whose server must survive everything that one of its clients sends."""

    def __init__(self, launcher=()):
        self.service = mps.Service({"MPS_GRACE_MS": str(GRACE_MS)}, launcher=launcher)

    def __enter__(self):
        self.service.__enter__()
        self.service.run_ok("process1")
        self.server = self.service.server()
        self.neighbour = self.service.popen("process1", "--seconds", "4")
        wait_for("the neighbour", lambda: self.service.clients(self.server))
        return self.service

    def __exit__(self, kind, error, trace):
        try:
            if not kind:
                code, out, err = self.service.finish(self.neighbour)
                equal(code, 0, out + err)
                equal(self.service.servers(), [self.server], "the server was replaced")
                is_prompt(self.service)
        except BaseException as failure:
            self.service.__exit__(type(failure), failure, None)
            raise
        self.service.__exit__(kind, error, trace)


def test_left_unread_for_the_server():
    """A client disconnects: unread descriptors on its connection are closed."""
    with Neighbours() as service:
        for _ in range(4):
            lingering = slow_files.LingeringSocket(LINGER_S)
            with session.Client(service) as client:
                send_descriptors(client.sock, wire.frame("image", 1, size=64),
                                 [lingering])
                lingering.give_away()
        wait_for("the client's end", lambda: len(service.clients()) <= 1)


def image_message(client, descriptors):
    send_descriptors(client.sock, wire.frame("image", 1, size=64), descriptors)
    client.place(wire.message("library_load", 1, library=1, size=64))


def alias_message(client, descriptors):
    send_descriptors(client.sock, wire.frame("memory", 1, size=4096), descriptors)
    client.place(wire.message("host_alias", 1, filesystem=1, inode=2, size=4096))


def import_message(client, descriptors):
    send_descriptors(client.sock, wire.frame("memory", 1, address=1), descriptors)
    client.place(wire.message("allocation_import", 1, allocation=1))


MESSAGES = (image_message, alias_message, import_message)


def open_device(client):
    client.place(session.valid_messages()[0])
    wait_for("the device", lambda: client.result() == (1, 0))


def test_lingering_sockets_for_a_worker():
    """Also more than a frame can have: the kernel closes those that are not accepted."""
    with Neighbours() as service:
        for send in MESSAGES:
            for n in 1, 40:
                lingering = [slow_files.LingeringSocket(LINGER_S) for _ in range(n)]
                with session.Client(service) as client:
                    open_device(client)
                    send(client, lingering)
                    for sock in lingering:
                        sock.give_away()
                    client.dropped()


def send_slow_file(service, send, folder):
    fd = slow_files.open_slow(folder)
    with session.Client(service) as client:
        open_device(client)
        send(client, [fd])
        client.dropped()


def test_fuse_files_for_a_worker():
    """Every request to such a file waits for its server, and so does its close."""
    for send in MESSAGES:
        with Neighbours() as service, slow_files.mounted() as folder:
            with process(send_slow_file, service, send, folder):
                wait_for("the client's end", lambda: len(service.clients()) <= 1)
                time.sleep(2 * GRACE_MS / 1000)
                is_prompt(service)


def test_server_ends_beside_fuse_files():
    """The server itself never has such a file, so the kernel lets it end."""
    with slow_files.mounted() as folder, \
            mps.Service({"MPS_GRACE_MS": str(GRACE_MS)}) as service:
        service.run_ok("process1")
        server = service.server()
        with process(send_slow_file, service, image_message, folder):
            began = time.monotonic()
            service.command("shutdown_server", str(server), "-f")
            wait_for("the server's end", lambda: not mps.is_alive(server), 15 * mps.SLOW)
            assert time.monotonic() - began < 10 * mps.SLOW
            service.run_ok("process1")


def send_until_refused(service, folder, n):
    """Sends a slow file in n sessions, from processes that have 8 sessions each."""
    fd = slow_files.open_slow(folder)
    for _ in range(0, n, 8):
        if os.fork() == 0:
            for _ in range(8):
                with session.Client(service) as client:
                    image_message(client, [fd])
                    client.dropped()
            os.kill(os.getpid(), signal.SIGSTOP)  # its end would wait for the file


def test_many_fuse_files():
    """One user's files keep only so many receivers; with `-M', other users have the rest."""
    need_root()
    with slow_files.mounted() as folder, \
            mps.Service({"MPS_SERVER_USER": "nobody"}, options=["-M"]) as service:
        service.run_ok("process1")
        server = service.server()
        with process(send_until_refused, service, folder, 80, uid=STRANGER):
            wait_for("a refusal", lambda: service.server_log().count(
                "clients of user %d sent earlier block" % STRANGER) >= 16, 60 * mps.SLOW)
            equal(service.server_log().count("sent a file that is not in memory"), 32)
            for _ in range(3):
                service.run_ok("process1")
            equal(service.servers(), [server])
        service.command("shutdown_server", str(server), "-f")
        wait_for("the server's end", lambda: not mps.is_alive(server), 15 * mps.SLOW)


if __name__ == "__main__":
    harness.main(globals())
