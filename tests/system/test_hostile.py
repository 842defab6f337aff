#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Clients that break the protocol: the server drops them, and nothing else happens.

Each does the handshake like the library, and then writes anything into the ring, the staging
memory and the connection.
"""

import multiprocessing
import os
import socket
import threading
import time

import harness
import mps
from harness import equal, settled, wait_for
import wire
from session import Client, valid_messages

# Since Python 3.14, processes are not forked by default, and would need functions that can be pickled.
FORK = multiprocessing.get_context("fork")


class Watched:
    """A service with a neighbour at work, which must be undisturbed at the end."""

    def __enter__(self):
        self.service = mps.Service()
        self.service.__enter__()
        self.service.run_ok("process1")
        self.server = self.service.server()
        self.before = settled(self.holds)
        self.neighbour = self.service.popen("process1", "--seconds", "3")
        wait_for("the neighbour", lambda: self.service.clients(self.server))
        return self.service

    def holds(self):
        wait_for("the server to have no clients", lambda: not self.service.clients(self.server))
        stats = self.service.stats(self.server)
        wait_for("everything to be back", lambda: self.service.stats(self.server)["libraries"]
                 == mps.OWN_LIBRARIES)
        for counter in ("launches", "faults"):
            stats.pop(counter)
        return len(mps.open_files(self.server)), mps.thread_count(self.server), stats

    def __exit__(self, kind, error, trace):
        try:
            if not kind:
                code, out, err = self.service.finish(self.neighbour)
                equal(code, 0, out + err)
                equal(self.service.servers(), [self.server], "the server was replaced")
                wait_for("everything to be as it was", lambda: self.holds() == self.before)
        except AssertionError:
            print("    before %s\n    after  %s" % (self.before, self.holds()))
            self.service.__exit__(AssertionError, None, None)
            raise
        self.service.__exit__(kind, error, trace)


def test_honest_messages():
    """Valid messages arrive and get replies: otherwise the following tests would show nothing."""
    with Watched() as service:
        with Client(service) as client:
            client.place(b"".join(valid_messages()))
            wait_for("the server to read them", lambda: client.head() == client.tail)
            wait_for("an answer", lambda: client.result()[0] == 1)
            assert client.result()[1] in (0, 1, 400), client.result()
            assert not client.is_dropped(), service.server_log()


def test_random_rings():
    dice = harness.dice(1)
    with Watched() as service:
        for _ in range(40):
            with Client(service) as client:
                client.ring[wire.RING_DATA:wire.RING_DATA + 4096] = dice.randbytes(4096)
                client.tell(dice.choice((4096, wire.RING_SIZE, wire.RING_SIZE + 8, 7,
                                         dice.getrandbits(32))))
                client.dropped()
        assert "sent a malformed message" in service.server_log()


def test_twisted_messages():
    """Messages with small errors are refused or get a reply, and nothing worse happens."""
    dice = harness.dice(2)
    with Watched() as service:
        for _ in range(40):
            with Client(service) as client:
                client.place(valid_messages()[0] + valid_messages()[1])
                for _ in range(20):
                    words = bytearray(dice.choice(valid_messages()))
                    if dice.random() < 0.5:
                        words[dice.randrange(4, len(words))] ^= 1 << dice.randrange(8)
                    client.place(words)
                time.sleep(0.01)


def test_writer_that_races():
    """Bytes that change while they are read: the server uses the bytes that it has checked."""
    dice = harness.dice(3)
    with Watched() as service:
        with Client(service) as client:
            client.place(b"".join(valid_messages()[:2]))
            stop = threading.Event()

            def scribble():
                while not stop.is_set():
                    at = wire.RING_DATA + dice.randrange(4096)
                    client.ring[at] = dice.randrange(256)

            thread = threading.Thread(target=scribble)
            thread.start()
            try:
                for _ in range(500):
                    if client.is_dropped():
                        break
                    client.place(dice.choice(valid_messages()[2:]))
            finally:
                stop.set()
                thread.join()


def test_writer_that_changes_everything():
    """Control words, done words, messages and staging keep changing; the page is read-only."""
    dice = harness.dice(4)
    with Watched() as service:
        for _ in range(6):
            with Client(service) as client:
                client.place(b"".join(valid_messages()))
                stop = threading.Event()

                def scribble(client=client, stop=stop):
                    while not stop.is_set():
                        memory = dice.choice((client.ring, client.ring, client.staging))
                        at = dice.choice((0, 64, wire.DONE, wire.RING_DATA)) + 8 * dice.randrange(64)
                        memory[at:at + 8] = dice.choice((bytes(8), b"\xff" * 8, dice.randbytes(8)))

                thread = threading.Thread(target=scribble)
                thread.start()
                until = time.monotonic() + 0.4
                while time.monotonic() < until and not client.is_dropped():
                    client.place(dice.choice(valid_messages()))
                stop.set()
                thread.join()


def test_garbage_on_the_connection():
    with Watched() as service:
        image = wire.frame("image", 1, size=64)
        for words, fds in ((b"\xff" * 64, 0), (wire.frame("hello"), 0), (image, 0), (image, 1),
                           (image, 4), (wire.frame("image", 1, size=63), 1), (b"", 0)):
            with Client(service) as client:
                if words:
                    ours = os.open("/dev/null", os.O_RDONLY)
                    socket.send_fds(client.sock, [words], [ours] * fds)
                    os.close(ours)
                client.place(wire.message("library_load", 1, library=1, size=64))
                # A well-formed frame with a descriptor that is no image gets a reply.
                if (words, fds) == (image, 1):
                    wait_for("an answer", lambda client=client: client.result()[0])
                else:
                    client.dropped()


def test_half_closed():
    with Watched() as service:
        with Client(service) as client:
            client.sock.shutdown(socket.SHUT_WR)
            client.dropped()


def come_and_go(service):
    clients = [Client(service) for _ in range(15)]
    for client in clients:
        client.place(valid_messages()[0])
    for client in clients:
        client.__exit__()


def test_many_short_sessions():
    with Watched() as service:
        for _ in range(3):
            processes = [FORK.Process(target=come_and_go, args=(service,)) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            equal([process.exitcode for process in processes], [0, 0])


if __name__ == "__main__":
    harness.main(globals())
