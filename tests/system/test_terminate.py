#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""terminate_client: the client's work ends; its process and the work of others continue."""

import os
import signal
import struct
import subprocess
import time

import harness
import mps
import session
import terminations
import wire
from harness import contains, equal, need_root, wait_for
from terminations import TERMINATED, running, terminate

GRACE_S = 1
# A server's time limit for ending a client's work, and the extra time of a command.
BOUND_S = GRACE_S + 5 + 1
SHORT = {"MPS_GRACE_MS": str(GRACE_S * 1000)}


def test_replies():
    with mps.Service() as service:
        client = running(service, "victim")
        server = service.server()
        service.run_ok("process1")
        equal(terminate(service, server, 1), "201\n")
        equal(terminate(service, server, "abc"), "201\n")
        equal(terminate(service, server, 0), "201\n")
        equal(terminate(service, server, client.pid, strict=True), "0\n")
        # The program has ended by the error.
        service.finish(client)
        wait_for("the client's end", lambda: not service.clients(server))
        equal(terminate(service, server, client.pid), "201\n")
        for number in 1, client.pid:
            equal(terminate(service, number, client.pid),
                  "Server %d not found\nServer %d not found!\n1\n" % (number, number))
        contains(service.command("terminate_client", str(server)).stdout,
                 "Usage: terminate_client SERVER_PID CLIENT_PID")
        done = service.command("--strict", "terminate_client", str(server), "1", check=False)
        equal((done.returncode, done.stdout), (1, "201\n"))


def test_process_lives():
    """Each call of every thread returns 810; the memory is free, and the process is listed."""
    with mps.Service() as service:
        neighbour = service.popen("process1", "--seconds", "60")
        service.wait_for_active(neighbour)
        server = service.server()
        empty = service.stats(server)["device_bytes"]
        client = running(service, "terminated", stdin=subprocess.PIPE)
        assert service.stats(server)["device_bytes"] >= empty + (64 << 20)
        equal(terminate(service, server, client.pid), "0\n")
        service.wait_for_log("Status of client {PID: %d, Context ID: 2} is INACTIVE" % client.pid)
        equal(client.stdout.readline(), "terminated: ok\n")
        wait_for("its memory", lambda: service.stats(server)["device_bytes"] < empty + (64 << 20))
        equal(sorted(service.clients(server)), sorted([neighbour.pid, client.pid]))
        # A second command gives the same reply.
        equal(terminate(service, server, client.pid), "0\n")
        service.run_ok("process2")
        equal(service.server(), server)
        equal(neighbour.poll(), None)
        client.stdin.close()
        equal(client.wait(20), 0, client.stderr.read())
        wait_for("the end of the client", lambda: service.clients(server) == [neighbour.pid])


def test_process_that_has_used_nothing():
    """Its calls do not go to the next server either."""
    with mps.Service() as service:
        client = running(service, "terminated", "unused", stdin=subprocess.PIPE)
        server = service.server()
        equal(terminate(service, server, client.pid), "0\n")
        os.kill(server, signal.SIGKILL)
        wait_for("the server's end", lambda: server not in service.servers())
        client.stdin.close()
        equal(client.stdout.readline(), "terminated: ok\n")
        equal(client.wait(20), 0)
        contains(client.stderr.read(), "the operator has terminated this client")


def fault_of(client):
    return struct.unpack_from("<I", client.page, wire.FAULT)[0]


def test_all_sessions_of_a_process():
    with mps.Service() as service:
        neighbour = service.popen("process1", "--seconds", "60")
        with session.Client(service) as one, session.Client(service) as two:
            service.wait_for_active(neighbour)
            equal(terminate(service, service.server(), os.getpid()), "0\n")
            equal([fault_of(one), fault_of(two)], [TERMINATED] * 2)
            # Its control words have no effect any more.
            one.place(wire.message("device_open", 1))
            equal(service.clients().count(os.getpid()), 2)
            equal(neighbour.poll(), None)
        wait_for("their end", lambda: os.getpid() not in service.clients())


def test_blocked_clients():
    """In a host function, waiting, stopped: each ends at once, without other effects."""
    with mps.Service() as service:
        neighbour = service.popen("process1", "--seconds", "60")
        service.wait_for_active(neighbour)
        server = service.server()
        for how in "call", "word", "flood", "idle":
            for is_stopped in False, True:
                client = running(service, "stuck", how)
                if is_stopped:
                    client.send_signal(signal.SIGSTOP)
                began = time.monotonic()
                equal(terminate(service, server, client.pid), "0\n", how)
                assert time.monotonic() - began < 2 * mps.SLOW, how
                client.send_signal(signal.SIGCONT)
                if how == "idle":
                    client.kill()
                    client.wait()
                    continue
                code, out, err = service.finish(client)
                equal(code, 1, out + err)
                contains(out, "(%d)" % TERMINATED, how)
        equal((service.server(), neighbour.poll()), (server, None))


def test_client_that_loads_code():
    """Its load waits for kernels of others; the call returns what all later calls return."""
    with mps.Service({"SOFTGPU_LAUNCH_US": "300000"}) as service:
        neighbour = service.popen("process1", "--seconds", "60")
        service.wait_for_active(neighbour)
        wait_for("its kernel", lambda: service.stats(service.server())["launches"] > 0)
        client = service.popen("process1")
        wait_for("the client", lambda: client.pid in service.clients())
        time.sleep(0.1)
        equal(terminate(service, service.server(), client.pid), "0\n")
        contains(service.finish(client)[1], "(%d)" % TERMINATED)


def test_kernel_that_runs_for_ever():
    """It has the grace of a dead client; then its server is replaced."""
    with mps.Service(SHORT) as service:
        neighbour = service.popen("process1", "--seconds", "60")
        service.wait_for_active(neighbour)
        client = running(service, "stuck", "kernel")
        server = service.server()
        began = time.monotonic()
        equal(terminate(service, server, client.pid), "0\n")
        assert GRACE_S <= time.monotonic() - began < BOUND_S * mps.SLOW
        contains(service.finish(client)[1], "(%d)" % TERMINATED)
        contains(service.finish(neighbour)[1], "(806)")
        service.run_ok("process2")
        assert service.server() != server
        service.wait_for_log("was terminated, and its work has occupied the GPU for 1000 ms")


def test_unresponsive_server():
    """The command ends within its limit and reports the result; other commands work meanwhile."""
    with mps.Service(SHORT) as service:
        client = running(service, "victim")
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        waiting = service.popen(mps.CONTROL, "terminate_client", str(server), str(client.pid),
                                preload=False)
        while waiting.poll() is None:
            equal(service.servers(), [server])
        said = waiting.communicate()[0].splitlines()
        assert time.monotonic() - began < (BOUND_S + 4) * mps.SLOW
        assert (said[-1], said[0].split(" ")[:2]) in (
            ("806", ["Server", str(server)]), ("909", ["Server", str(server)])), said
        service.finish(client)
        service.run_ok("process1")


def test_server_that_ends():
    with mps.Service() as service:
        client = running(service, "victim")
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        waiting = service.popen(mps.CONTROL, "terminate_client", str(server), str(client.pid),
                                preload=False)
        service.wait_for_log("Cmd:terminate_client", "control")
        os.kill(server, signal.SIGKILL)
        equal(service.finish(waiting)[:2], (
            0, "Server %d disconnected before it had ended the work of client %d\n806\n"
            % (server, client.pid)))
        service.finish(client)


def test_driver_that_stalls():
    """A driver call for the client does not return before the grace is over."""
    with mps.Service(SHORT) as service:
        client = running(service, "victim")
        server = service.server()
        service.switch.set(1, mps.Switch.STALL, 60000)
        wait_for("the call", lambda: service.switch.name())
        began = time.monotonic()
        equal(terminate(service, server, client.pid), "0\n")
        assert time.monotonic() - began < BOUND_S * mps.SLOW
        contains(service.finish(client)[1], "(%d)" % TERMINATED)
        service.switch.set(0)
        service.run_ok("process1")


def test_client_that_waits_for_its_welcome():
    with mps.Service({"SOFTGPU_LAUNCH_US": "5000000"}) as service:
        _, server = service.leave_a_kernel()
        newcomer = service.popen("mem_info")
        service.wait_for_log("Client process %d waits" % newcomer.pid)
        equal(terminate(service, server, newcomer.pid), "0\n")
        code, out, err = service.finish(newcomer)
        equal(code, 1, out + err)
        contains(out, "returned %d" % TERMINATED, err)
        contains(err, "the operator has terminated this client")


def test_shutdown_after_it():
    """A server does not wait for processes whose calls all fail."""
    with mps.Service() as service:
        client = running(service, "terminated", stdin=subprocess.PIPE)
        server = service.server()
        equal(terminate(service, server, client.pid), "0\n")
        equal(client.stdout.readline(), "terminated: ok\n")
        service.command("shutdown_server", str(server))
        wait_for("the server's end", lambda: not service.servers())
        client.stdin.close()
        equal(client.wait(20), 0)


def test_permissions():
    """A user terminates only clients of the own server; root terminates any."""
    need_root()
    with mps.Service() as service:
        users = [{"user": uid, "group": uid, "extra_groups": []} for uid in (7001, 7002)]
        mine, other = [running(service, "victim", **user) for user in users]
        of = {pid: server for server in service.servers() for pid in service.clients(server)}
        words = "terminate_client %d %d"
        said = terminations.said_by(service, users[0], words % (of[other.pid], other.pid))
        contains(said, "Operation not permitted")
        equal(other.poll(), None)
        equal(terminations.said_by(service, users[0], words % (of[mine.pid], mine.pid)), "0\n")
        equal(terminate(service, of[other.pid], other.pid), "0\n")
        for process in mine, other:
            contains(service.finish(process)[1], "(%d)" % TERMINATED)


def test_permissions_with_one_server():
    need_root()
    users = [{"user": uid, "group": uid, "extra_groups": []} for uid in (7001, 7002)]
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        mine, other = [running(service, "victim", **user) for user in users]
        words = "terminate_client %d %%d" % service.server()
        contains(terminations.said_by(service, users[0], words % other.pid),
                 "Operation not permitted: terminate_client needs UID 0 or UID 7002")
        contains(terminations.said_by(service, users[0], words % 1), "Operation not permitted")
        equal(terminations.said_by(service, users[0], words % mine.pid), "0\n")
        contains(service.finish(mine)[1], "(%d)" % TERMINATED)
        equal(other.poll(), None)


def test_many_in_turn():
    """The short form of hostile/test_terminate."""
    terminations.in_turn(clients=8, rounds=2)


if __name__ == "__main__":
    harness.main(globals())
