# SPDX-License-Identifier: Apache-2.0
"""Clients of one server that start, run a program of a framework, and end or are killed at random.

First each program runs once. What the server holds then, it must hold again whenever it has no
clients, and at the end; and the logs must have the start and the end of each client.
"""

import collections
import random
import re
import signal
import threading
import time

import mps
from copies import Copies, compute_apps, gpu_gib
from harness import settled, wait_for
from judge import failed, missing, tail
from table import row, save

AT_ONCE = 6
QUIET_EVERY_S = 240
# How long a program that serves may run, so that others get their turn.
SERVE_SECONDS = 10
# Freed memory that the server's allocator keeps: eight of these programs at a time need more than
# one after the other in the warm-up.
GROWTH_KIB = 128 << 10
# The driver keeps code, and local memory for the largest kernels, once they have run.
GPU_GROWTH_MIB = 256


class Wanderer:
    """A client: a program, and maybe the time when it is killed."""

    def __init__(self, program, env, dies_after=None, how=signal.SIGKILL):
        self.program, self.how, self.was_killed = program, how, False
        self.dies_at = time.monotonic() + dies_after if dies_after is not None else None
        self.late_at = time.monotonic() + program.limit + SERVE_SECONDS
        self.copies = Copies(program, env, 1, SERVE_SECONDS)

    def has_ended(self):
        """Whether it has ended; kills it if its time has come."""
        now = time.monotonic()
        if self.copies.running() and now < self.late_at:
            if self.dies_at is None or now < self.dies_at:
                return False
            self.was_killed = True
            self.copies.end(self.how)
        return True

    def how_it_ended(self):
        return self.copies.wait(threading.Event(), 0)[0]

    def complaint(self, ended):
        """What is wrong with its end: nothing, if it was killed."""
        why = failed(ended, self.program)
        if self.was_killed or not why:
            return None
        return "\n".join(["%s: %s" % (self.program.name, why)] + tail(ended.out, "stdout")
                         + tail(ended.err, "stderr"))


class Soak:
    """The service, its clients, and what its server held at first."""

    def __init__(self, service, programs, dice):
        self.service, self.programs, self.dice = service, programs, dice
        self.running = []
        self.n_ended = self.n_killed = 0
        self.served = set()  # PIDs of clients that ended by themselves
        self.wrong = []
        self.gib = gpu_gib()

    def holds(self):
        return {"files": len(mps.open_files(self.server)), "threads": mps.thread_count(self.server),
                "daemon's files": len(mps.open_files(self.service.daemon.pid))}

    def memory(self):
        return {"KiB": mps.memory_kib(self.server),
                "GPU MiB": compute_apps().get(self.server, 0)}

    def quiet(self):
        wait_for("the server to have no clients", lambda: not self.service.clients(self.server), 60)
        return settled(self.holds, still_s=2, timeout_s=20), self.memory()

    def start(self, program, dies_after=None, how=signal.SIGKILL):
        self.running.append(Wanderer(program, self.service.client_env(), dies_after, how))

    def sweep(self):
        """Handles the clients that have ended."""
        for wanderer in [w for w in self.running if w.has_ended()]:
            self.running.remove(wanderer)
            try:
                ended = wanderer.how_it_ended()
                complaint = wanderer.complaint(ended)
                if missing(ended):  # its framework is not installed: it was no client
                    self.programs = [p for p in self.programs if p != wanderer.program]
                    continue
                if complaint:
                    self.wrong.append(complaint)
                    print("    ! " + complaint, flush=True)
                elif not wanderer.was_killed:
                    self.served.add(wanderer.copies.processes[0].pid)
                self.n_ended += 1
                self.n_killed += wanderer.was_killed
            finally:
                wanderer.copies.remove()

    def fits(self, program):
        return (len(self.running) < AT_ONCE and
                program.gib + sum(w.program.gib for w in self.running) <= self.gib)

    def finish_all(self):
        while self.running:
            self.sweep()
            time.sleep(0.1)

    def warm_up(self):
        for program in self.programs:
            while not self.fits(program):
                self.sweep()
                time.sleep(0.1)
            self.start(program)
        self.finish_all()
        self.server = self.service.server()
        self.before, self.memory_before = self.quiet()
        print("    after each once: %s %s" % (self.before, self.memory_before), flush=True)

    def check(self):
        """All clients are gone: the server must hold what it held before."""
        self.finish_all()
        if self.service.servers() != [self.server]:
            self.wrong.append("the server was replaced")
            self.server = self.service.server()
        now, memory = self.quiet()
        print("    quiet: %s %s" % (now, memory), flush=True)
        if now != self.before:
            self.wrong.append("left: %s, before %s" % (now, self.before))
        if (memory["KiB"] - self.memory_before["KiB"] > GROWTH_KIB or
                memory["GPU MiB"] - self.memory_before["GPU MiB"] > GPU_GROWTH_MIB):
            self.wrong.append("memory: %s, before %s" % (memory, self.memory_before))

    def one_more(self):
        program = self.dice.choice(self.programs) if self.programs else None
        if not program or not self.fits(program):
            return
        if self.dice.random() < 0.5:
            self.start(program)
        else:
            self.start(program, self.dice.uniform(0, 30),
                       self.dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))

    def stories(self):
        """Clients whose start or end is missing in the logs."""
        came = collections.Counter(re.findall(r"NEW CLIENT (\d+) from", self.service.control_log()))
        log = self.service.server_log()
        served = collections.Counter(re.findall(r"Received new client request for \{PID: (\d+),", log))
        gone = collections.Counter(re.findall(r"Client process (\d+) disconnected", log))
        row("clients that control.log has told of", str(sum(came.values())))
        return ["%s: came %d times, was received %d times, left %d times" % (
            pid, came[pid], served[pid], gone[pid])
            for pid in came.keys() | served.keys() | gone.keys() | {str(pid) for pid in self.served}
            if not came[pid] == served[pid] == gone[pid] > 0]


def go_on(soak, seconds):
    began = told = quiet = time.monotonic()
    while time.monotonic() - began < seconds and len(soak.wrong) < 20:
        soak.sweep()
        soak.one_more()
        time.sleep(soak.dice.uniform(0.1, 2))
        now = time.monotonic()
        if now - told > 60:
            told = now
            print("    %4d s: %d clients have ended, %d of them killed, %d run; server %s"
                  % (now - began, soak.n_ended, soak.n_killed, len(soak.running), soak.memory()),
                  flush=True)
        if now - quiet > QUIET_EVERY_S:
            soak.check()
            quiet = time.monotonic()
    soak.check()


def wander(programs, seconds, seed):
    """Adds the results to the table."""
    print("seed %d" % seed, flush=True)
    with mps.Service(library=None) as service:
        soak = Soak(service, programs, random.Random(seed))
        try:
            soak.warm_up()
            go_on(soak, seconds)
            soak.wrong += soak.stories()
        finally:
            for wanderer in soak.running:
                wanderer.copies.remove()
            save(service, "soak")
    for line in soak.wrong:
        print("      ! " + line)
    row("soak of %d s: clients, of them killed" % seconds, "%d, %d" % (soak.n_ended, soak.n_killed),
        "nothing wrong", not soak.wrong)
