# SPDX-License-Identifier: Apache-2.0
"""Runs programs of frameworks natively and as clients, with concurrent copies, and compares.

The native copies are concurrent too: they show the differences from run to run, and those that a
busy GPU makes (algorithms are chosen by their time).
"""

import collections
import concurrent.futures
import re
import sys
import threading

import compare
import mps
from copies import Budget, Copies, Watch, gpu_gib
from table import keep, row

# The server's own memory while programs run: its logs and caches then have their full sizes.
GROWTH_KIB = 16 << 10
# Native time of a program that serves: its answers are needed, and a time to compare with.
NATIVE_SECONDS = 10
# The start of Python, framework and model, in addition to the requested seconds.
START_SECONDS = 60
LINES = 25
OURS = re.compile(r'^{"record"|Accepting connection|Cmd:get_server_list| \d+\] \d+$')
STAYS = re.compile("variables stay in the driver's memory: (.*)")
# Length of an error in a program's row; $OUT gets all of it.
SHOWN = 80


def native_environment():
    return dict(mps.clean_environment(True), CUDA_MPS_PIPE_DIRECTORY="/nonexistent")


def missing(ended):
    """What a program did not find here, or None."""
    last = (ended.err.strip().splitlines() or [""])[-1]
    return last if re.match(r"(ModuleNotFound|Import)Error: ", last) else None


def failed(ended, program):
    """What is wrong with how a copy ended, or None."""
    ok = "%s: ok" % program.name.partition(" ")[0]
    if ended.code != 0:
        return "exit code %s" % ended.code
    return None if ok in ended.out.splitlines() else "does not say `%s'" % ok


def tail(text, name):
    """The last lines, without those of this test's own checks."""
    lines = [line for line in text.strip().splitlines() if not OURS.search(line)][-LINES:]
    return ["--- %s" % name] + ["  " + line[:300] for line in lines]


def complaints(how, program, copies):
    """How many copies failed, and the output of the first of them."""
    bad = [copy for copy in copies if failed(copy, program)]
    if not bad:
        return []
    ours = sorted({line[:300] for copy in bad for line in copy.err.splitlines()
                   if line.startswith("mps-client")})
    return ["%s, %d of %d: %s" % (how, len(bad), len(copies), failed(bad[0], program))] + tail(
        bad[0].out, "stdout") + tail(bad[0].err, "stderr") + ours[:8]


class Judge:
    """State that all programs of a run share."""

    def __init__(self, seconds, jobs, settings=None):
        self.seconds = seconds
        self.settings = settings or {}
        self.stop = threading.Event()
        self.budget = Budget(gpu_gib())
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.telling = threading.Lock()

    def run(self, program, env, seconds=None, watch=None):
        """Concurrent copies of it; how each ended."""
        gib = program.gib * program.copies
        self.budget.take(gib)
        try:
            copies = Copies(program, env, program.copies, seconds)
            try:
                limit = program.limit if not program.takes_seconds else seconds + START_SECONDS
                return copies.wait(self.stop, limit, watch)
            finally:
                copies.remove()
        finally:
            self.budget.give(gib)

    def native(self, program):
        return self.run(program, native_environment(), min(NATIVE_SECONDS, self.seconds))

    def clients(self, program):
        """As clients of a separate service: how they ended, the watch, the service's logs."""
        with mps.Service(self.settings, library=None) as service:
            watch = Watch(service)
            ours = self.run(program, service.client_env(), self.seconds, watch)
            for reason, n in collections.Counter(STAYS.findall(service.server_log())).items():
                watch.notes.add("%d images: variables not placed: %s" % (n, reason))
            said = [line for log in ("server.log", "control.log")
                    for line in tail(service.read("log/" + log), log)]
            if len(service.servers()) != 1:
                watch.wrong.add("servers at the end: %s" % service.servers())
            if service.server_log().count("Server has started") > 1:
                watch.wrong.add("the server was replaced")
        return ours, watch, said

    def verdict(self, program, natives, ours):
        """Compares; before it reports an error, it repeats the native runs once."""
        told = [compare.told(copy.out, "record") for copy in natives]
        mine = [compare.told(copy.out, "record") for copy in ours]
        found = compare.judge(told, mine)
        if any(what == compare.WRONG for what, _ in found.values()):
            again = self.native(program)
            if not any(failed(copy, program) for copy in again):
                told += [compare.told(copy.out, "record") for copy in again]
                found = compare.judge(told, mine)
        return found

    def judge(self, program):
        """One program: (native seconds, client's seconds, results compared, notes, errors, logs);
        or the reason why it cannot run here."""
        natives = self.native(program)
        reason = missing(natives[0])
        if reason:
            return reason
        wrong = complaints("natively", program, natives)
        if wrong or self.stop.is_set():
            return max(copy.seconds for copy in natives), 0, {}, [], wrong, []
        ours, watch, said = self.clients(program)
        wrong = complaints("as clients", program, ours)
        found = {} if wrong else self.verdict(program, natives, ours)
        wrong += ["%s: %s" % (name, why) for name, (what, why) in found.items()
                  if what == compare.WRONG]
        wrong += sorted(watch.wrong)
        if program.takes_seconds and watch.growth_kib(self.seconds * 0.7) > GROWTH_KIB:
            wrong.append("the server grew by %d KiB" % watch.growth_kib(self.seconds * 0.7))
        notes = sorted(watch.notes)
        if not watch.n_listed:
            notes.append("nvidia-smi did not list the server, in %d looks" % watch.n_looks)
        for copies, who in ((natives, "natively"), (ours, "ours")):
            notes += ["%s: %s" % (who, line) for line in told_beside(copies)]
        notes += sorted({line[:200] for copy in ours for line in copy.err.splitlines()
                         if line.startswith("mps-client")})[:8]
        return (max(copy.seconds for copy in natives), max(copy.seconds for copy in ours), found, notes,
                wrong, said if wrong else [])

    def tell(self, program):
        """Judges it, and adds a row to the table."""
        try:
            result = self.judge(program)
        except Exception as error:  # the other programs are still useful
            result = 0, 0, {}, [], ["%s: %s" % (type(error).__name__, str(error)[:3000])], []
        with self.telling:
            if self.stop.is_set():
                row(program.name, "not done", "told to end", False)
                return False
            if isinstance(result, str):
                row(program.name, "skipped", result[:60])
                return True
            native, ours, found, notes, wrong, said = result
            count = [sum(what == kind for what, _ in found.values())
                     for kind in (compare.EQUAL, compare.WITHIN, compare.WRONG)]
            row("%s, %d at once: native, ours, s" % (program.name, program.copies),
                "%.1f, %.1f" % (native, ours), "%d equal, %d within, %d wrong" % tuple(count), not wrong)
            for line in notes:
                print("      " + line)
            # Logs explain no wrong number; the file has them all the same.
            shown = wrong if any(count) else wrong + said
            for line in shown[:SHOWN]:
                print("      ! " + line)
            sys.stdout.flush()
            if wrong:
                keep("frameworks.txt", "\n".join(["==== " + program.name] + wrong + said), "a")
            return not wrong


def told_beside(copies):
    """The notes of copies: the least and the most of each."""
    told = [compare.told(copy.out, "note") for copy in copies]
    for name in told[0] if told else ():
        values = [one[name]["value"] for one in told if name in one]
        yield "%s %s to %s" % (name, min(values), max(values))


def judge_all(wanted, seconds=60, jobs=3, settings=None):
    """Judges these programs, several at a time, with settings of the service; returns whether all
    were right."""
    judge = Judge(seconds, jobs, settings)
    try:
        return all(list(judge.pool.map(judge.tell, wanted)))
    finally:
        # An early end of this process also ends the processes that it has started.
        judge.stop.set()
        judge.pool.shutdown(cancel_futures=True)
