# SPDX-License-Identifier: Apache-2.0
"""A service whose clients together need more memory than the card has.

    with oversubscribed.service() as (service, small):
        first, second = Worker(service, 48), Worker(service, 48)
        first.ask()
"""

import contextlib
import re
import subprocess

import card
import mps
from harness import contains, equal, wait_for

CARD_MIB = 64
# Four fifths of it, and a third.
LARGE_MIB, THIRD_MIB = 52, 20
# One word of each page: the software GPU is slow.
SPARSELY = ("--every", "1024")
PROGRAM = "working_set"


@contextlib.contextmanager
def service(settings=None, kind=mps.Service, **more):
    """The service and its card. `settings' replace the usual ones; None as a value removes one."""
    with card.Card(CARD_MIB) as small:
        wanted = {**small.settings, "MPS_OVERSUBSCRIBE": "1", **(settings or {})}
        with kind({k: v for k, v in wanted.items() if v is not None}, **more) as made:
            yield made, small


class Oversize:
    """A program `oversize', which does what it is told: its service, and its process with pipes."""

    service = process = None

    def answer(self):
        return self.process.stdout.readline().strip()

    def send(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def ask(self, word):
        self.send(word)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal((code, out), (0, "oversize: ok\n"), err)


class Worker:
    """A client that computes on its memory when it is asked to, and checks the result."""

    name = PROGRAM

    def __init__(self, made, mib, waits=True, **more):
        self.service = made
        self.process = made.popen(PROGRAM, str(mib), *SPARSELY, "--requests",
                                  stdin=subprocess.PIPE, **more)
        if waits:
            self.wait_until_ready()

    def wait_until_ready(self):
        self.expect("ready")

    def expect(self, text):
        line = self.process.stdout.readline()
        if text not in line:
            raise AssertionError("%r instead of %r: %s" % (
                line, text, self.service.finish(self.process)))
        return line

    def send(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        """Milliseconds."""
        return float(re.search(r"after ([\d.]+) ms", self.expect("answer"))[1])

    def ask(self):
        self.send()
        return self.answer()

    def end(self):
        """All its memory is right."""
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal(code, 0, out + err)
        contains(out, self.name + ": ok")

    def kill(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.service.started.remove(self.process)


def is_empty(made, small):
    """Waits until the server has no clients, and no memory on the card but its own."""
    server = made.server()
    wait_for("the server to have no clients", lambda: not made.clients(server))
    wait_for("the card to be empty", lambda: small.used() <= 4 << 20)
