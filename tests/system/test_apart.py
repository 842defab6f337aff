#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Two clients of one server are separate: memory, variables, streams, errors."""

import time

import harness
import mps
import session
import wire
from harness import equal, wait_for

PATTERN = bytes.fromhex("5ee7c25e")


def test_nothing_is_inherited():
    """New memory has no data of a client that ended or was killed, on a GPU that it had filled."""
    with mps.Service({"SOFTGPU_MEMORY_MIB": "400"}) as service:
        service.run_ok("spy", "look")
        server = service.server()
        for end in ("exit", "kill", "exit"):
            process = service.popen("spy", "plant")
            if end == "kill":
                time.sleep(0.15)
                process.kill()
            service.finish(process)
            service.run_ok("spy", "look")
        equal(service.servers(), [server])


def test_data_of_a_live_client():
    with mps.Service() as service:
        holder, _ = hold(service)
        service.run_ok("spy", "look")
        go(service, holder)


def test_raw_memories_are_new():
    """Ring, staging and page are new memory of the kernel, after other clients had used theirs."""
    with mps.Service() as service:
        for _ in range(2):
            service.run_ok("spy", "plant")
            service.run_ok("process1")
            with session.Client(service) as client:
                assert not any(client.ring[:]), "the ring has something in it"
                assert not any(client.staging[:]), "staging has something in it"
                assert PATTERN not in client.page[:], "the page has another's words"


def hold(service):
    """A client with a blocked NULL stream, and the address of its memory."""
    process = service.popen("spy", "hold", service.folder + "/go")
    line = process.stdout.readline()
    equal(line.split()[:2], ["spy:", "holding"], line)
    return process, line.split()[2]


def go(service, process):
    with open(service.folder + "/go", "w", encoding="utf-8"):
        pass
    equal(service.finish(process)[:2], (0, "spy: ok\n"))


def test_addresses():
    """Another client's address is invalid for copies, fills and frees; its data stay hidden."""
    with mps.Service() as service:
        process, address = hold(service)
        service.run_ok("spy", "touch", address)
        equal(process.poll(), None)
        go(service, process)


def test_null_streams():
    """A client's NULL stream waits only for that client's streams."""
    with mps.Service() as service:
        process, _ = hold(service)
        for name in ("process1", "process2", "symbols", "events"):
            service.run_ok(name, timeout=20)
        equal(process.poll(), None, "it waited no more: the test shows nothing")
        go(service, process)


def test_errors():
    """An error is returned only to the client that caused it."""
    with mps.Service() as service:
        process, _ = hold(service)
        neighbour = service.popen("process1", "--seconds", "1")
        for _ in range(5):
            service.run_ok("errors")
        service.run("boxes")
        equal(process.poll(), None)
        go(service, process)
        equal(service.finish(neighbour)[:2], (0, "process1: ok\n"))


def test_ids_are_per_session():
    """Streams, events and libraries with the same numbers in two sessions."""
    with mps.Service() as service:
        several = [service.popen(name) for name in ("events", "kernels", "events", "kernels")]
        for process in several:
            equal(service.finish(process)[0], 0)


def test_control_words_after_the_end():
    """A client reports its host functions as done, or withdraws that, while its session ends."""
    dice = harness.dice()
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        for value in (b"\xff" * 8, bytes(8), b"\x00" * 7 + b"\x80"):
            with session.Client(service) as client:
                client.place(session.valid_messages()[0])
                client.place(wire.message("host_call", ticket=3))
                wait_for("the server to have it", lambda client=client: client.head() == client.tail)
                client.sock.close()
                until = time.monotonic() + 0.1
                while time.monotonic() < until:
                    for stream in range(0, 64):
                        at = wire.DONE + 8 * stream
                        client.ring[at:at + 8] = value
                    client.ring[0:4] = dice.randbytes(4)
            wait_for("its end", lambda: not service.clients(server))
        service.run_ok("callbacks")
        equal(service.servers(), [server])


if __name__ == "__main__":
    harness.main(globals())
