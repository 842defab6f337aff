# SPDX-License-Identifier: Apache-2.0
"""Processes that measure the same thing at the same time, each when a line tells it to.

    with Group(way, 8) as group:
        answers = group.measure("sync", 0.5)    # of each process, {"us": 8.4, ...}

The program is bench.cu, or another with the same orders and answers (models.py).
"""

import contextlib
import os
import re
import sys
import threading
import time

import mps
from ways import end_all

# Time to read the order and to run the first rounds: of any number, and of each process.
LEAD_S, LEAD_EACH_S = 0.05, 0.01
# To start a process.
START_S = 120

# The command of a Group that runs models.
MODELS_PROGRAM = [sys.executable, os.path.join(os.path.dirname(__file__), "models.py")]


class Group:
    def __init__(self, way, count=1, command=None, env=None):
        self.way = way
        # A path of the build may have to be copied first, so it is found late.
        command = command or [mps.program("bench"), "serve"]
        self.processes = []
        try:
            for _ in range(count):
                self.processes.append(way.start(command, env))
            with self.limited(START_S):
                self.start_ms = [self.values(process, "start_ms=")["start_ms"]
                                 for process in self.processes]
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        end_all(self.processes)
        self.processes = []

    @contextlib.contextmanager
    def limited(self, seconds):
        """Kills the processes unless the block ends in that time; then, their answers fail."""
        def kill():
            for process in list(self.processes):
                process.kill()
        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def values(self, process, last):
        """The numbers of the lines key=value up to the line that begins with `last'."""
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith(last):
                return {key: float(value) for key, value in
                        re.findall(r"^(\w+)=([\d.]+)$", text, re.M)}
        self.processes.remove(process)
        raise AssertionError("%s, a process of %s ended: %s" % (
            self.way.name, process.args[0], text + end_all([process])[0][-2000:]))

    def ask(self, what, seconds, at, *times):
        """`times' are those that may follow in an order: to settle, to work, to pause."""
        order = " ".join([what, *("%f" % number for number in (seconds, at, *times))])
        for process in self.processes:
            process.stdin.write(order + "\n")

    def answers(self):
        return [self.values(process, "done") for process in self.processes]

    def measure(self, what, seconds):
        self.ask(what, seconds, soon(len(self.processes)))
        return self.answers()


def soon(count):
    """A second of the epoch at which so many processes can be ready."""
    return time.time() + LEAD_S + LEAD_EACH_S * count
