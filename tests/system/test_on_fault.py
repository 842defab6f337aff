#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""MPS_ON_FAULT=continue: a fault costs a client the work that it had, and nothing else."""

import json
import os
import re
import select
import subprocess
import time

import harness
import mps
import test_faults
import test_restart
import test_survivors
from harness import contains, equal, wait_for

CONTINUE = {"MPS_ON_FAULT": "continue"}
LOST = "Client {PID: %d, Context ID: %d} continues without its work (MPS_ON_FAULT)"


class Client:
    """tests/programs/runtime/continues.cu"""

    def __init__(self, service, env=CONTINUE, program="continues"):
        self.service = service
        self.process = service.popen(program, env=env, stdin=subprocess.PIPE)
        self.pid = self.process.pid
        equal(self.process.stdout.readline(), "ready\n")

    def send(self, *orders):
        for order in orders:
            self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def get(self):
        return self.process.stdout.readline().strip()

    def ask(self, order):
        self.send(order)
        return self.get()

    def end(self):
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal(code, 0, out + err)
        contains(out, "continues: ok")


def last_fault(service):
    return json.loads(service.command("get_last_fault", "--json").stdout)[0]


def survivors(seen):
    """{PID: whether it has lost its work}"""
    return {client["pid"]: client["has_lost_work"] for client in seen["survivors"]}


def test_own_fault():
    """The error is returned once, dropped work has not run, and all that the program has works."""
    with mps.Service(test_survivors.PLACED) as service:
        client, idle = Client(service), test_restart.Resident(service)
        old = service.server()
        equal(client.ask("compute"), "0")
        equal(client.ask("fault"), "700")
        equal([client.ask("compute") for _ in range(3)], ["0"] * 3)
        test_survivors.next_server(service, old)
        idle.ask()
        equal(client.ask("wait"), "0")
        seen = last_fault(service)
        equal((seen["certain"], [one["pid"] for one in seen["clients"]]), (True, [client.pid]))
        equal((survivors(seen), seen["n_lost"], seen["program"]),
              ({client.pid: True, idle.process.pid: False}, 0, "on probation"))
        assert seen["kernel"], seen
        contains(service.server_log(), LOST % (client.pid, 1))
        assert "torn down" not in service.server_log(), service.server_log()
        text = service.command("get_last_fault").stdout
        contains(text, ": continues without its work\n")
        # Its probation holds in the next server.
        contains(service.command("ps", "-l").stdout, "PROBATION")
        client.end()
        idle.end()


def test_beside():
    """Work in flight at the fault of another program is dropped, and a waiting thread is told."""
    with mps.Service(test_survivors.PLACED) as service:
        client, old = Client(service), service.server()
        plain, culprit = Client(service, {}), Client(service, {})
        equal((client.ask("spin"), plain.ask("spin")), ("0", "0"))
        client.send("wait")
        equal(culprit.ask("fault"), "700")
        equal(client.get(), "700")
        equal([client.ask("compute") for _ in range(2)], ["0"] * 2)
        test_survivors.next_server(service, old)
        # Without the variable nothing is new.
        equal([plain.ask("wait") for _ in range(2)], ["700"] * 2)
        equal(survivors(last_fault(service)), {client.pid: True})
        client.end()


def test_graph_with_host_function():
    """The server cannot tell which host functions of a graph the client still waits for."""
    with mps.Service(test_survivors.PLACED) as service:
        client = Client(service)
        equal(client.ask("graph"), "700")
        equal(client.ask("wait"), "700")
        service.wait_for_log("does not survive the fault: a graph with host functions was on the GPU")


def test_repeated():
    """The second fault within a minute ends it beside another program, and never alone."""
    with mps.Service(test_survivors.PLACED) as service:
        client = Client(service)
        for _ in range(3):
            equal(client.ask("fault"), "700")
            equal(client.ask("compute"), "0")
        survivor = test_survivors.Survivor(service)
        equal(client.ask("fault"), "700")
        equal((client.ask("wait"), client.ask("wait")), ("700", "700"))
        survivor.ask()
        seen = last_fault(service)
        equal(survivors(seen), {survivor.process.pid: False})
        service.wait_for_log("does not survive the fault: it may have caused two faults within a minute")
        survivor.end()


def test_address():
    """A client in whose memory the address lies is told, also if it had no work."""
    with test_faults.service_with_log() as service:
        idle = test_restart.Sharer(service, CONTINUE)
        idle.do("give")
        old = service.server()
        equal(service.run("fault", "at", hex(int(idle.do("where"), 16) + (1 << 30)))[0], 0)
        test_survivors.next_server(service, old)
        equal(survivors(test_faults.last_fault(service)), {idle.process.pid: True})
        equal([idle.do("fill", 7) for _ in range(2)], ["700", "0"])


def test_shared_memory():
    """Who uses memory of a client that has lost work, and does not continue, gets the error."""
    with mps.Service(test_survivors.PLACED) as service:
        giver = test_restart.Sharer(service, CONTINUE)
        taker = test_restart.Sharer(service)
        equal(taker.do("take", giver.do("give")), "0")
        equal(giver.do("fill", 7), "0")
        service.switch.set(1, arg=700, only="cuMemsetD8Async")
        equal(giver.do("fill", 8), "700")
        service.switch.set(0)
        equal(giver.do("fill", 8), "0")
        equal([taker.do("fill", 9) for _ in range(2)], ["700"] * 2)
        service.wait_for_log("it uses memory or an event of a client that has lost work")


def answer(client, order=None):
    """The next one, or "" from a program that has ended."""
    try:
        client.send(*[order] if order else [])
    except BrokenPipeError:
        return ""
    if not select.select([client.process.stdout], [], [], 30)[0]:
        raise AssertionError("a client hangs: %s" % client.service.server_log())
    return client.get()


def kill_meanwhile(victim, delay_s):
    with mps.Service(test_survivors.PLACED) as service:
        client, old = Client(service), service.server()
        client.send("fault")
        service.wait_for_log("encountered a fatal GPU error")
        time.sleep(delay_s)
        if victim == "client":
            client.process.kill()
            client.process.wait()
        else:
            test_restart.kill_one(service, victim, old)
        if victim == "daemon":
            service.start()
        answers = [] if victim == "client" else [answer(client)]
        if answers == ["700"]:
            answers.append(answer(client, "compute"))
        # It goes on, or is told.
        assert answers in ([], ["700", "0"]) or all(re.search("700|80[56]|^-1$|^$", one) for one in answers), answers
        wait_for("one server at most", lambda: len(test_restart.servers_of(service)) <= 1)
        fresh = Client(service)
        equal(fresh.ask("compute"), "0")
        fresh.end()
        return answers == ["700", "0"]


def test_killed():
    """A client, a server or the daemon ends meanwhile: the client goes on, or is told."""
    dice, went_on = harness.dice(), {}
    for victim in test_survivors.VICTIMS * (10 if os.environ.get("MPS_TEST_LONG") else 1):
        went_on[victim] = went_on.get(victim, 0) + kill_meanwhile(victim, dice.uniform(0, 0.7))
    print("    went on: %s" % went_on)


if __name__ == "__main__":
    harness.main(globals())
