#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""Soft limits of memory: what a client borrows leaves for one inside its own soft limit."""

import os

import card
import harness
import mps
from harness import contains, equal, wait_for
from test_eviction import Holder, evictions

CARD_MIB = 64


class Pool:
    """A service with the server `pool', and a card of 64 MiB for it."""

    def __init__(self, *namespaces, **settings):
        self.card = card.Card(CARD_MIB)
        self.service = mps.Service({**self.card.settings, **settings})
        self.namespaces = namespaces

    def __enter__(self):
        self.service.__enter__()
        self.command("server", "create", "pool")
        for name, *limits in self.namespaces:
            self.command("namespace", "create", name, "--server=pool")
            if limits:
                self.command("namespace", "set", name, "--server=pool", *limits)
        return self

    def __exit__(self, *error):
        self.service.__exit__(*error)
        self.card.__exit__(*error)

    def command(self, *words, **more):
        return self.service.command(*words, **more)

    def env(self, namespace):
        return {"CUDA_MPS_PIPE_DIRECTORY": "%s/pool/%s" % (self.service.pipe, namespace)}

    def hold(self, namespace, mib, way="plain"):
        return Holder(self.service, way, mib, **self.env(namespace))

    def is_refused(self, namespace, mib):
        code, out, _ = self.service.run("oversize", "plain", str(mib), "4096", env=self.env(namespace))
        equal(code, 1)
        contains(out, "CUDA_ERROR_OUT_OF_MEMORY")


def test_borrowed_memory_leaves():
    """... of the idle client for the one inside its limit, and comes back when there is space."""
    with Pool(("small", "--soft-limit=32M"), ("large", "--soft-limit=16M")) as pool:
        borrower = pool.hold("large", 52)
        equal(borrower.ask("work"), "worked")
        entitled = pool.hold("small", 28)
        equal(entitled.ask("work"), "worked")
        assert evictions(pool.service) > 0, pool.service.server_log()
        # Beyond the soft limit nothing leaves: the card is full.
        pool.is_refused("small", 28)
        entitled.end()
        equal(borrower.ask("work"), "worked")
        borrower.end()


def test_full_namespace():
    """The hard limit of a namespace is like a full card for its clients: borrowed memory leaves, and waits for room."""
    with Pool(("small", "--pinned-memory-limit=48M"), MPS_SOFT_LIMIT="20M") as pool:
        # Each client has 2 MiB beside its pieces.
        borrower = pool.hold("small", 40)
        entitled = pool.hold("small", 12)
        assert evictions(pool.service) > 0, pool.service.server_log()
        equal([entitled.ask("more"), entitled.ask("more")], ["took", "CUDA_ERROR_OUT_OF_MEMORY"])
        borrower.send("work")
        wait_for("its wait", lambda: "waits for space" in pool.service.server_log())
        equal(entitled.ask("work"), "worked")
        entitled.end()
        equal([borrower.answer(), borrower.ask("work"), borrower.ask("more")], ["worked", "worked", "took"])
        borrower.end()


def test_nothing_guaranteed():
    """A client beyond its soft limit, or without one, makes nobody leave; nor does one inside it lose anything."""
    with Pool(("small", "--soft-limit=4M"), ("large", "--soft-limit=64M"), ("free",)) as pool:
        large = pool.hold("large", 44)
        pool.is_refused("small", 28)
        pool.is_refused("free", 28)
        equal(evictions(pool.service), 0)
        # New soft limits count at once: now all of it is borrowed.
        pool.command("namespace", "set", "large", "--server=pool", "--soft-limit=0")
        pool.command("namespace", "set", "small", "--server=pool", "--soft-limit=32M")
        small = pool.hold("small", 28)
        assert evictions(pool.service) > 0
        small.end()
        equal(large.ask("work"), "worked")
        large.end()


def test_work_of_the_borrower():
    """A borrower that never rests has to stop, without a stay."""
    with Pool(("small", "--soft-limit=32M"), ("large", "--soft-limit=16M"), MPS_OVERSUBSCRIBE_STAY="600") as pool:
        busy = pool.service.popen("working_set", "52", "--every", "1024", "--launches", "3000", "--ahead", "16",
                                  env=pool.env("large"))
        wait_for("its memory", lambda: pool.card.used() > 50 << 20)
        small = pool.hold("small", 28)
        equal(small.ask("work"), "worked")
        small.end()
        code, out, err = pool.service.finish(busy)
        equal(code, 0, out + err)


def test_end_of_a_borrower():
    """If nothing can leave, the client that has borrowed most ends, and nobody else."""
    with Pool(("small", "--soft-limit=24M"), ("most", "--soft-limit=2M"), ("large", "--soft-limit=20M"), ("free",),
              MPS_OVERSUBSCRIBE_HOST="0") as pool:
        others = [pool.hold("large", 24), pool.hold("free", 4)]
        most = pool.hold("most", 20)
        # Nobody ends for a client without a soft limit.
        pool.is_refused("free", 28)
        equal(most.ask("work"), "worked")
        small = pool.hold("small", 20)
        # Nor for one beyond it.
        while small.ask("more") == "took":
            pass
        contains(most.ask("work"), "CUDA_ERROR_MPS_CLIENT_TERMINATED")
        for one in [small, *others]:
            equal(one.ask("work"), "worked")
            one.end()
        said = [line for line in pool.service.server_log().splitlines() if "is ended with error 810" in line]
        equal(len(said), 1)
        contains(said[0], "{PID: %d, " % most.process.pid)
        contains(said[0], "client {PID: %d, " % small.process.pid)
        contains(said[0], "raise MPS_OVERSUBSCRIBE_HOST (now 0 MiB")
        wait_for("no memory", lambda: pool.card.used() <= 4 << 20)


def test_end_of_a_borrower_at_work():
    with Pool(("small", "--soft-limit=32M"), ("large", "--soft-limit=16M"), MPS_OVERSUBSCRIBE_HOST="0") as pool:
        busy = pool.service.popen("working_set", "52", "--every", "1024", "--launches", "1000000", "--ahead", "16",
                                  env=pool.env("large"))
        wait_for("its memory", lambda: pool.card.used() > 50 << 20)
        small = pool.hold("small", 28)
        code, out, err = pool.service.finish(busy)
        equal(code, 1, out + err)
        contains(out + err, "CUDA_ERROR_MPS_CLIENT_TERMINATED")
        equal(small.ask("work"), "worked")
        small.end()


def test_free_memory():
    """The total is the hard limit; free is what the client gets, with what others have borrowed."""
    with Pool(("small", "--soft-limit=32M", "--pinned-memory-limit=48M"), ("large", "--soft-limit=16M")) as pool:
        small = pool.hold("small", 4)
        n_free, total = map(int, small.ask("free").split())
        equal((total, n_free > 40), (48, True))
        large = pool.hold("large", 48)
        n_free, total = map(int, small.ask("free").split())
        equal(total, 48)
        assert 24 <= n_free <= 28, n_free
        pool.is_refused("small", 46)
        large.end()
        small.end()


def test_describe():
    """What namespaces and clients have, may have, have borrowed, and have in host memory."""
    with Pool(("small", "--soft-limit=32M"), ("large", "--soft-limit=16M", "--pinned-memory-limit=60M")) as pool:
        pool.command("memacct", "set", "audit_log=true")
        large = pool.hold("large", 52)

        def rows():
            table = [line.split(",") for line in pool.command(
                "memacct", "describe", "--server=pool", "--format=csv,noheader").stdout.splitlines()]
            return {(row[1], row[2]): row[4:] for row in table}

        pid = str(large.process.pid)
        equal(set(rows()), {("large", "-"), ("large", pid), ("small", "-"), ("default", "-")})
        used, soft, hard, borrowed, away = rows()["large", "-"]
        equal((soft, hard, away), ("16M", "60M", "0"))
        equal(int(borrowed[:-1]), int(used[:-1]) - 16)
        equal(rows()["small", "-"], ["0", "32M", "unlimited", "0", "0"])
        small = pool.hold("small", 28)
        assert 16 <= int(rows()["large", pid][4][:-1]) < 40, rows()
        equal(rows()["large", "-"][4], rows()["large", pid][4])
        small.end()
        large.end()
        contains(pool.service.control_log(), "[memacct] register client pid %s, user %d, target=pool/large" % (pid, os.getuid()))
        wait_for("its peak in the log", lambda: "[memacct] client pid %s had at most 5" % pid
                 in pool.service.control_log())
        done = pool.command("memacct", "set", "audit_log=maybe", check=False)
        equal(done.returncode, 1)


def test_survives_the_daemon():
    with Pool(("small", "--soft-limit=32M")) as pool:
        equal(pool.command("namespace", "get", "small", "pool", "soft-limit").stdout, "32M\n")
        pool.service.restart_killed()
        equal(pool.command("namespace", "get", "small", "pool", "soft_limit").stdout, "32M\n")
        pool.command("namespace", "set", "small", "--server=pool", "--soft-limit=unlimited")
        equal(pool.command("namespace", "get", "small", "pool", "soft-limit").stdout, "unlimited\n")
        done = pool.command("namespace", "set", "small", "--server=pool", "--soft-limit=1T", check=False)
        contains(done.stdout, '"1T" is not a size: --soft-limit takes 0, or ')


if __name__ == "__main__":
    harness.main(globals())
