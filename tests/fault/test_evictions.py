#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Each driver call and each allocation of the server fails once, while memory of clients leaves the
card and comes back.

No client gets a wrong result. A client whose own call failed gets an error; a failed call of an
eviction or of a return costs nobody anything. Of many calls some are chosen; MPS_TEST_LONG=1 tries
all.
"""

import os

import breaking
import harness
import mps
import oversubscribed
from harness import equal
from oversubscribed import LARGE_MIB, PROGRAM, SPARSELY, Worker, is_empty

IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
# Of each function; and allocations of a newcomer.
CALLS_MAX, ALLOCATIONS_MAX = (200, 400) if IS_LONG else (4, 12)
OUT_OF_MEMORY, INVALID_VALUE = 2, 1
# Functions that requests need only to bring memory back, and those that they also need themselves.
OF_RETURNS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync")
OF_REQUESTS = ("cuMemcpyDtoHAsync", "cuStreamQuery")
NEWCOMER = (str(LARGE_MIB), *SPARSELY, "--launches", "4")


class Pair:
    """Two clients that do not fit together: a request brings one back and evicts the other."""

    def __init__(self, service):
        self.service = service
        self.workers = [Worker(service, LARGE_MIB) for _ in range(2)]
        self.n_ended = 0

    def ask(self, about):
        """A request to each; False: a client was told of an error, and has ended."""
        ended = [worker for worker in self.workers if not self.ask_one(worker, about)]
        self.n_ended += len(ended)
        for worker in ended:
            self.workers.remove(worker)
        return not ended

    def ask_one(self, worker, about):
        worker.send()
        line = worker.process.stdout.readline()
        if "answer" in line:
            return True
        code, out, err = self.service.finish(worker.process)
        assert code == 1 and "CUDA_ERROR" in line, "%s: %d, %s" % (about, code, line + out + err)
        return False

    def complete(self):
        """New clients replace those that have ended."""
        while len(self.workers) < 2:
            self.workers.append(Worker(self.service, LARGE_MIB))

    def end(self):
        for worker in self.workers:
            worker.end()


def moments(n_calls, n_max):
    return range(1, n_calls + 1, -(-n_calls // n_max))


def sweep(pair, switch, name, result):
    """Calls of a function fail, one in each pair of requests."""
    switch.set(1 << 40, only=name)
    pair.ask("while calls are counted")
    n_calls = switch.seen()
    assert n_calls > 0, "no call of " + name
    for n in moments(n_calls, CALLS_MAX):
        about = "%s %d of %d returns %d" % (name, n, n_calls, result)
        switch.set(n, mps.Switch.RESULT, result, name)
        is_answered = pair.ask(about)
        switch.set(0)
        assert is_answered or name in OF_REQUESTS, about + ": a client was told"
        pair.complete()


def driver_calls(result):
    with oversubscribed.service() as (service, small):
        pair = Pair(service)
        server = service.server()
        pair.ask("at first")
        for name in OF_RETURNS + OF_REQUESTS:
            sweep(pair, service.switch, name, result)
        print("    with error %d, %d clients were told" % (result, pair.n_ended))
        pair.end()
        is_empty(service, small)
        equal(service.servers(), [server])


def test_driver_calls_are_out_of_memory():
    driver_calls(OUT_OF_MEMORY)


def test_driver_calls_are_invalid():
    driver_calls(INVALID_VALUE)


def test_allocations():
    """Of a server whose store is empty, while a newcomer evicts an idle client."""
    with oversubscribed.service(kind=breaking.Service) as (service, small):
        idle = Worker(service, LARGE_MIB)
        broken, server = service.broken["server"], service.server()
        broken.set("malloc")
        service.run_ok(PROGRAM, *NEWCOMER)
        n_calls, told = broken.seen(), 0
        for n in moments(n_calls, ALLOCATIONS_MAX):
            broken.set("malloc", n, breaking.ENOMEM)
            code, out, err = service.run(PROGRAM, *NEWCOMER)
            broken.set("")
            assert code in (0, 1) and (out + err).strip(), "allocation %d: %d" % (n, code)
            told += code
            idle.ask()
        print("    %d allocations, %d newcomers were told" % (n_calls, told))
        idle.end()
        is_empty(service, small)
        equal(service.servers(), [server])


if __name__ == "__main__":
    harness.main(globals())
