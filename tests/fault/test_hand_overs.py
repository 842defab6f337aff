#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""A system call or an allocation of a server fails, or the server is killed there, while its client
moves to the next one.

The client goes on in one of the two servers, or gets the error that the end of a server brings.
Nothing is left of the attempt, and the next one moves the client. Of all calls, some are chosen at
random; with MPS_TEST_LONG=1, up to 20 of each function.
"""

import os
import signal

import breaking
import harness
from breaking import ERRORS
from harness import contains, settled, wait_for

import test_moves
import test_restart

LONG = bool(os.environ.get("MPS_TEST_LONG"))
CALLS_MAX = 10000 if LONG else 20
# Always chosen: without a thread for the client, the next server gives back what came with it.
ALWAYS = ("pthread_create",)
# The system sends such short frames whole, and the client does not expect a part of one.
NEVER = ("sendmsg", 0)
# A server does without memory for its lines, and then has another pipe.
OF_LOG = ("/memfd:mps-text (deleted)", "pipe")
# A call that does less than it was asked to is made again.
HARMLESS = (breaking.EINTR, 0)
# Without an entry of its record, a client stays for good.
NO_SPACE = "cannot move: the record of its objects has no space"


class Moving:
    """A client that is idle, and moves."""

    def __init__(self, service):
        self.service = service
        self.broken = service.broken["server"]
        self.client = test_restart.Resident(service)
        self.move()
        self.files = settled(self.idle_files)

    def idle_files(self):
        files = test_moves.idle_files(self.service, test_restart.servers_of(self.service)[0])
        for kind in OF_LOG:
            del files["server"][kind]
        return files

    def restart(self):
        wait_for("the old server to end", lambda: len(self.service.servers()) == 1)
        reply = self.service.command("restart_server", str(self.service.server()), check=False,
                                     timeout=100)
        return reply.stdout + reply.stderr

    def move(self):
        contains(self.restart(), "has moved its 1 clients")
        self.client.ask()

    def count(self, name):
        self.broken.set(name)
        self.move()
        seen = self.broken.seen()
        self.broken.set("")
        return seen

    def fail(self, name, n, error):
        """Whether the client goes on."""
        self.broken.set(name, n, error)
        about = "%s %d, %d: %s" % (name, n, error, self.restart())
        try:
            is_well = test_restart.goes_on(self.client)
            self.broken.set("")
            # The call may have been the first one after the answer.
            is_well = is_well and test_restart.goes_on(self.client)
        except AssertionError as failure:
            raise AssertionError("%s%s" % (about, failure)) from None
        assert is_well or error not in HARMLESS, about
        wait_for("one server at most: " + about,
                 lambda: len(test_restart.servers_of(self.service)) <= 1)
        if not is_well:
            self.client = test_restart.Resident(self.service)
            self.move()
        self.compare(about)
        if NO_SPACE in self.restart():
            assert name == "malloc", about
            self.client.end()
            self.client = test_restart.Resident(self.service)
        self.move()
        return is_well

    def compare(self, about):
        found = {}

        def is_same():
            found.update(self.idle_files())
            return found == self.files

        try:
            wait_for("nothing to be left", is_same)
        except AssertionError as error:
            raise AssertionError("%s%s: %s" % (
                about, error, test_moves.differences(found, self.files))) from None


def choose(moving, errors_of, dice):
    """Calls to fail: (name, number of the call, error)."""
    calls = []
    for name in ERRORS:
        seen = moving.count(name)
        calls += [(name, n, error) for error in errors_of(name)
                  for n in range(1, seen + 1, max(1, seen // 20))]
    dice.shuffle(calls)
    calls.sort(key=lambda call: call[0] not in ALWAYS)
    return [call for call in calls if (call[0], call[2]) != NEVER][:CALLS_MAX]


def sweep(errors_of):
    dice = harness.dice()
    calls, total, told = None, 0, 0
    while calls is None or calls:
        # Few servers of a user may fail in a short time: each that does is the last of its daemon.
        with breaking.Service() as service:
            moving = Moving(service)
            calls = choose(moving, errors_of, dice) if calls is None else calls
            is_well = True
            while calls and is_well:
                is_well = moving.fail(*calls.pop(0))
                total += 1
                told += not is_well
            moving.client.end()
    print("    %d calls, %d told to the client" % (total, told))


def test_killed():
    sweep(lambda name: (-signal.SIGKILL,))


def test_failed():
    sweep(ERRORS.get)


if __name__ == "__main__":
    harness.main(globals())
