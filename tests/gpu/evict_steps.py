#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: clients whose memory together is larger than the card.

    tests/gpu/evict_steps.py

runs them on the software GPU, whose figures mean nothing.
"""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", name) for name in ("bench", "gpu", "system")]
sys.dont_write_bytecode = True

import card  # pylint: disable=wrong-import-position
import copies  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
from examples import NATIVELY, numbers, values  # pylint: disable=wrong-import-position
from harness import contains, equal  # pylint: disable=wrong-import-position
from oversubscribed import PROGRAM, SPARSELY, Worker  # pylint: disable=wrong-import-position
from table import finish, need, row, save  # pylint: disable=wrong-import-position

# Of the requirements: see docs/reliability.md.
STRETCHES_RATIO, NEVER_IDLE_RATIO = 1.3, 1.5
BYTES_PER_MS, MORE_MS = 40e6, 50
BANDWIDTH_RATIO, NEIGHBOUR_MS = 0.85, 2
REQUESTS = 4
MIB = 1 << 20


@dataclasses.dataclass
class Bed:
    """The card that the clients have, and how long their work takes."""

    mib: int
    words: tuple  # of working_set
    stretch_s: float
    stay_s: float  # the service's default: 5
    pause_s: float  # between the start of programs and their first requests
    is_real: bool = True

    @contextlib.contextmanager
    def service(self, **settings):
        settings = {"MPS_OVERSUBSCRIBE": "1", **settings}
        if self.is_real:
            with self.ballast(), mps.Service(settings, library=None) as service:
                yield service
        else:
            settings["MPS_OVERSUBSCRIBE_STAY"] = str(self.stay_s)
            with card.Card(self.mib) as small, mps.Service(
                    {**small.settings, **settings}) as service:
                yield service

    @contextlib.contextmanager
    def ballast(self):
        """A native program has what is not the card: the store of the whole card would take most of
        the machine's memory."""
        left = copies.nvidia_smi("gpu=memory.free")[0]
        kib = max(1, int(left) - self.mib - 1024) * 1024
        held = subprocess.Popen([mps.program("limited_memory"), "hold", str(kib)],
                                env={**mps.clean_environment(True), **NATIVELY},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            for line in held.stdout:
                if line.startswith("hold: "):
                    equal(line, "hold: 0\n")
                    break
            yield
        finally:
            held.kill()
            held.communicate()


REAL = Bed(32 << 10, (), 5, 5, 5)
SOFT = Bed(64, SPARSELY, 0.3, 0.3, 0.1, False)
bed = REAL  # pylint: disable=invalid-name


def finished(service, process):
    code, out, err = service.finish(process, 300)
    equal(code, 0, out + err)
    contains(out, ": ok")
    return values(out)


def work(service, mib, *words):
    return service.popen(PROGRAM, str(mib), *bed.words, *words)


def in_one_stretch(service, mib):
    """How many launches take so long as a stretch."""
    took = finished(service, work(service, mib, "--launches", "100"))["total_ms"]
    return max(8, int(100 * bed.stretch_s * 1000 / took))


def ratio(service, mib, *words):
    """The time of two programs at once, to that of one after the other."""
    began = time.monotonic()
    for _ in range(2):
        finished(service, work(service, mib, *words))
    alone = time.monotonic() - began
    began = time.monotonic()
    for process in [work(service, mib, *words) for _ in range(2)]:
        finished(service, process)
    return (time.monotonic() - began) / alone


def step_evict_pairs():
    """Two programs of four fifths of the card each."""
    mib = bed.mib * 4 // 5
    with bed.service() as service:
        launches = in_one_stretch(service, mib)
        found = ratio(service, mib, "--stretches", "3", "--launches", str(launches), "--pause",
                      str(int(bed.stretch_s * 200)))
        row("two in stretches of %g s, to one after the other" % bed.stretch_s, "%.2f" % found,
            "< %g" % STRETCHES_RATIO, found < STRETCHES_RATIO if bed.is_real else None)
        found = ratio(service, mib, "--launches", str(4 * launches), "--ahead", "16")
        row("two that are never idle, to one after the other", "%.2f" % found,
            "< %g" % NEVER_IDLE_RATIO, found < NEVER_IDLE_RATIO if bed.is_real else None)
        save(service, "evict_pairs")


class TorchWorker(Worker):
    """The same with PyTorch."""

    name = "torch_requests"

    def __init__(self, made, mib):
        self.service = made
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "tests", "gpu", "torch_requests.py"), str(mib)],
            env=made.client_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        made.started.append(self.process)
        self.is_there = "no torch" not in self.process.stdout.readline()


def four_in_turn(service, kind, mib):
    """Milliseconds of the first requests after a pause, and of those that follow at once."""
    workers = [kind(service, mib) for _ in range(4)]
    first, second = [], []
    time.sleep(bed.pause_s)
    for _ in range(REQUESTS):
        for worker in workers:
            first.append(worker.ask())
            second.append(worker.ask())
    for worker in workers:
        worker.end()
    return first, second


def report_turns(what, mib, first, second):
    most = mib * MIB / BYTES_PER_MS + MORE_MS
    row("%s, first request after a pause: ms" % what, "%.0f" % max(first), "< %.0f" % most,
        max(first) < most if bed.is_real else None)
    row("... the next one: ms", "%.1f" % max(second))


def step_evict_requests():
    """Four programs with a third of the card each have requests in turn; every answer is right."""
    mib = bed.mib * 3 // 10
    with bed.service() as service:
        report_turns("four in turn", mib, *four_in_turn(service, Worker, mib))
        there = bed.is_real and TorchWorker(service, 128)
        if there and there.is_there:
            there.end()
            report_turns("four PyTorch processes in turn", mib,
                         *four_in_turn(service, TorchWorker, mib))
        else:
            row("four PyTorch processes in turn", "skipped", "there is no PyTorch")
        save(service, "evict_requests")


# What server.log tells of a move: MiB, and milliseconds on the way.
MOVED = {"out": re.compile(r": (\d+) MiB were evicted .* in (\d+) ms$", re.M),
         "in": re.compile(r": (\d+) MiB are back in (\d+) ms; ", re.M)}


def moved_gbs(log, way):
    """The bandwidth of the last large move: the neighbour may have moved, too."""
    found = [tuple(map(int, move)) for move in MOVED[way].findall(log)]
    assert found, "the log tells of no move " + way
    mib, ms = [move for move in found if move[0] * 2 > max(found)[0]][-1]
    return mib * MIB / 1e6 / max(1, ms)


def n_moves(log, process):
    return len(re.findall(r"PID: %d, .* MiB were evicted" % process.pid, log))


def pinned_gbs():
    """The bandwidth of copies of pinned memory, each way."""
    with mps.Service(**({"library": None} if bed.is_real else {})) as service:
        return {way: 64 * MIB / 1e3 / numbers(
            service, "bench", "pinned_%s_%d" % (way, 64 * MIB), "1")["us"] for way in ("out", "in")}


def step_evict_copies():
    """How fast memory moves, and what a neighbour notices."""
    mib = bed.mib * 4 // 5
    pinned = pinned_gbs()
    with bed.service() as service:
        alone = finished(service, work(service, 4, "--seconds", "2"))["worst_ms"]
        pair = [Worker(service, mib - 8 * i) for i in range(2)]
        neighbour = work(service, 4, "--seconds", "6")
        while neighbour.poll() is None:
            for worker in pair:
                worker.ask()
        noticed = finished(service, neighbour)
        worst = noticed["worst_ms"]
        # The way back includes the time in which others make space; now there is space.
        pair[1].ask()
        pair[1].end()
        service.wait_for_log("Client process %d disconnected" % pair[1].process.pid)
        # The driver gives tens of GB back after that.
        time.sleep(bed.pause_s)
        pair[0].ask()
        pair[0].end()
        log = service.server_log()
        for way in MOVED:
            found = moved_gbs(log, way)
            row("memory that leaves or comes back, %s: GB/s" % way, "%.1f" % found,
                ">= %.2f of %.1f" % (BANDWIDTH_RATIO, pinned[way]),
                found >= BANDWIDTH_RATIO * pinned[way] if bed.is_real else None)
        row("a neighbour's slowest launch + wait meanwhile: ms", "%.2f" % worst,
            "< %g (alone %.2f)" % (NEIGHBOUR_MS, alone),
            worst < NEIGHBOUR_MS if bed.is_real else None)
        row("... how often the neighbour's own memory has left", "%d" % n_moves(log, neighbour))
        row("... how many took longer than 2 ms; after how many ms the slowest", "%d; %d" % (
            noticed["slow"], noticed["worst_at_ms"]))
        save(service, "evict_copies")


def step_evict_programs():
    """Every program, evicted at every rest."""
    names = mps.PROGRAMS_ONCE
    library = {} if not bed.is_real else {"library": None}
    with mps.Service({"MPS_TEST": "evict", "MPS_OVERSUBSCRIBE": "1"}, **library) as service:
        wrong = [(name, got) for name in names for got in [service.run(name)]
                 if got[:2] != (0, name + ": ok\n")]
        save(service, "evict_programs")
    need("%d programs are right, evicted at every rest" % len(names), not wrong, wrong)


STEPS = [(step_evict_pairs, 300), (step_evict_requests, 240), (step_evict_copies, 120),
         (step_evict_programs, 400)]


def main():
    global bed  # pylint: disable=global-statement
    bed = SOFT
    for step, _ in STEPS:
        if not sys.argv[1:] or step.__name__.partition("_")[2] in sys.argv[1:]:
            step()
    return 1 if finish() else 0


if __name__ == "__main__":
    sys.exit(main())
