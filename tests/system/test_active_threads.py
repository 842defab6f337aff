#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Active-thread percentages: on which SMs kernels of clients run, and what clients see."""

import os

import harness
import mps
from harness import contains, equal, settled, wait_for

VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
PER_CONTEXT = "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"
WAYS = ("plain", "stream", "burst", "graph", "captured", "cooperative")
# 132 SMs: 16 groups of 8, and 4 SMs in none.
SMS, GROUP = 132, 8


def share(percentage):
    return {VARIABLE: str(percentage)}


def sms_of(line):
    """The SMs in a line of smids: "plain: 0-7,16-23"."""
    sms = set()
    for part in line.split(": ")[1].split(","):
        first, _, last = part.partition("-")
        sms.update(range(int(first), int(last or first) + 1))
    return sms


class Together:
    """Clients that run smids at the same time, each with a separate environment."""

    def __init__(self, service, environments):
        self.service = service
        self.go = os.path.join(service.folder, "go")
        self.clients = []
        for env in environments:
            self.add(env)

    def add(self, env=None, *options, **more):
        client = self.service.popen("smids", *options, "--wait", self.go, env=env, **more)
        self.clients.append(client)
        equal(client.stdout.readline(), "ready\n")
        return client

    def ways(self):
        """For each client, the SMs on which its kernels ran in each way of launching."""
        with open(self.go, "w", encoding="ascii"):
            pass
        found = []
        for client in self.clients:
            lines = [client.stdout.readline() for _ in range(len(WAYS) + 1)]
            equal([line.split(":")[0] for line in lines], list(WAYS) + ["done\n"])
            found.append([sms_of(line) for line in lines[:-1]])
        os.unlink(self.go)
        for client in self.clients:
            equal(self.service.finish(client), (0, "smids: ok\n", ""))
        return found

    def run(self):
        """The SMs of each client; all its kernels ran on these, in every way of launching."""
        found = self.ways()
        for ways in found:
            assert all(one == ways[0] for one in ways), ways
        return [ways[0] for ways in found]


def test_four_quarters():
    """Four clients of 25 % have disjoint SMs, in every way of launching."""
    with mps.Service() as service:
        found = Together(service, [share(25)] * 4).run()
        equal([len(sms) for sms in found], [32] * 4)
        equal(len(set.union(*found)), 128)
        log = service.server_log()
        equal(log.count("Active Threads Percentage set to 25.0 on device 0: 32 of 132 SMs"), 4)


def test_spread_evenly():
    """A fifth client shares with one of the others; eight clients share in pairs."""
    with mps.Service() as service:
        found = Together(service, [share(25)] * 5).run()
        equal(sorted(sum(sm in sms for sms in found) for sm in range(128)), [1] * 96 + [2] * 32)
        found = Together(service, [share(25)] * 8).run()
        equal([sum(sm in sms for sms in found) for sm in range(SMS)], [2] * 128 + [0] * 4)


def test_different_shares():
    with mps.Service() as service:
        found = Together(service, [share(50), share(12.5), {}, share(33.3)]).run()
        equal([len(sms) for sms in found], [64, 16, SMS, 40])
        assert not found[0] & found[1] and not found[0] & found[3] and not found[1] & found[3], found


def test_shares_are_freed():
    """A client gets SMs of earlier clients, and the driver creates no more green contexts."""
    with mps.Service() as service:
        found = Together(service, [share(50), share(25)]).run()
        server = service.server()
        wait_for("their end", lambda: not service.clients(server))
        # A client that comes while the previous one is ending gets the other half.
        Together(service, [share(50)] * 2).run()
        wait_for("their end", lambda: not service.clients(server))
        kept = settled(lambda: service.stats(server)["greens"])
        assert kept >= 3, kept
        for _ in range(100):
            service.run_ok("sm_share", "--sms", "64", env=share(50))
        # The last one of these may still have the half that the next client is to get.
        wait_for("their end", lambda: not service.clients(server))
        equal(service.stats(server)["greens"], kept)
        equal(Together(service, [share(50), share(25)]).run(), found)
        equal(service.stats(server)["greens"], kept)


def test_one_group_at_least():
    with mps.Service() as service:
        for percentage in ("1", "0.001", "6.1"):
            equal(service.run("smids", env=share(percentage))[0], 0)
            service.run_ok("sm_share", "--sms", str(GROUP), env=share(percentage))
        service.run_ok("sm_share", "--sms", "128", env=share("99.9"))
    # On a GPU with one group only, some SMs are in no group.
    with mps.Service({"SOFTGPU_SMS": "15"}) as service:
        service.run_ok("sm_share", "--sms", "8", env=share("99"))
        service.run_ok("sm_share", "--sms", "15", env=share("100"))


def test_reported_sms():
    """In the runtime, even without a context, in occupancy, resources, cooperative launches."""
    with mps.Service() as service:
        service.run_ok("sm_share", "--sms", "132")
        service.run_ok("sm_share", "--sms", "132", env=share(100))
        service.run_ok("sm_share", "--sms", "64", env=share(50))
        # Clients with all SMs are not logged.
        equal(service.server_log().count("SMs"), 1)


def test_nonsense():
    """A wrong value is reported once, with the accepted values, and ignored."""
    with mps.Service() as service:
        for text in ("0", "101", "abc", "50%", "", "-5"):
            _, err = service.run_ok("sm_share", "--sms", "132", env=share(text))
            equal(err.count(VARIABLE), 1, text)
            contains(err, VARIABLE + "=" + text + " is ignored: the value must be a number of "
                     "percent above 0, at most 100, such as 25 or 12.5")


def shares_of_contexts(service, *args, **env):
    """{context: SMs} from context_shares; all kernels ran on these, in every way of launching."""
    out, err = service.run_ok("context_shares", *args, env={PER_CONTEXT: "1", **env})
    equal(err, "")
    lines = [line for line in out.splitlines() if ": " in line and not line.endswith(": ok")]
    equal(len(lines), 4 * 10)
    found = {}
    for line in lines:
        sms = sms_of(line)
        equal(found.setdefault(line.split()[0], sms), sms, line)
    return found


def test_shares_of_contexts():
    """Each context of a process has separate SMs, disjoint while they fit."""
    with mps.Service() as service:
        found = shares_of_contexts(service)
        equal([len(found[name]) for name in ("half", "counted", "eighth", "primary")],
              [64, 32, 16, SMS])
        equal(len(found["half"] | found["counted"] | found["eighth"]), 64 + 32 + 16)
        log = service.server_log()
        equal(log.count("a context has 64 of 132 SMs on device 0\n"), 1)
        # The contexts that exist one after the other are not all listed.
        equal(log.count("a context has"), 32)
        equal(log.count("its further contexts are not logged"), 1)


def test_shares_within_the_process():
    """The limits of the first environment and of the operator hold for all contexts."""
    with mps.Service() as service:
        found = shares_of_contexts(service, **share(50))
        equal([len(found[name]) for name in ("half", "counted", "eighth", "primary")],
              [64, 32, 16, 64])
        assert found["counted"] | found["eighth"] <= found["primary"] == found["half"], found
        assert not found["counted"] & found["eighth"], found
    with mps.Service(share(25)) as service:
        found = shares_of_contexts(service)
        equal([len(found[name]) for name in ("half", "counted", "eighth", "primary")],
              [32, 32, 16, 32])
        assert found["eighth"] < found["primary"] == found["half"] == found["counted"], found


def test_processes_with_shares_of_contexts():
    """Contexts of two processes have disjoint SMs while they fit."""
    with mps.Service() as service:
        other = Together(service, [share(12.5)])
        found = shares_of_contexts(service)
        sms = other.run()[0]
        for name in ("half", "counted", "eighth"):
            assert not found[name] & sms, found


def test_many_shares_of_contexts():
    """A process can have 16 contexts with shares; the next is refused."""
    with mps.Service() as service:
        service.run_ok("context_shares", "--many", "16", env={PER_CONTEXT: "1"})
        # Nothing of them is left, except what is kept for reuse.
        server = service.server()
        wait_for("their end", lambda: not service.clients(server))
        kept = settled(lambda: service.stats(server)["greens"])
        for _ in range(5):
            service.run_ok("context_shares", "--many", "16", env={PER_CONTEXT: "1"})
        wait_for("their end", lambda: not service.clients(server))
        equal(settled(lambda: service.stats(server)["greens"]), kept)


def test_no_shares_of_contexts():
    """Without the variable, a context that requests fewer SMs is refused, with the reason."""
    with mps.Service() as service:
        for value in (None, "0", "yes"):
            _, err = service.run_ok("context_shares", "--none", env={PER_CONTEXT: value})
            equal(err.count("a context cannot have fewer SMs than its process"), 1)
            contains(err, "unless " + PER_CONTEXT + "=1 is set when the process starts")
        _, err = service.run_ok("sm_share", "--sms", "64", env={PER_CONTEXT: "1", **share(50)})
        equal(err, "")


def test_green_contexts_of_a_client():
    """They divide the share, not the GPU."""
    with mps.Service() as service:
        for percentage in (50, 75):
            service.run_ok("green_contexts", env=share(percentage))


def test_blocked_streams_of_shares():
    """Clients with shares can create further streams while their streams are blocked."""
    with mps.Service() as service:
        for name in ("context_events", "callbacks", "green_ends"):
            service.run_ok(name, env=share(25))


if __name__ == "__main__":
    harness.main(globals())
