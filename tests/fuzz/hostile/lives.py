# SPDX-License-Identifier: Apache-2.0
"""Hostile processes, one after the other: a process may die to end its session."""

import contextlib
import os
import random
import signal
import time
import traceback


class Lives:
    """run() forks a process for each life; the process calls live(dice)."""

    # The share of lives that are killed, and within how many seconds.
    KILLED, KILLED_S = 0.0, 1.0

    def __init__(self, service, seed, share, until):
        self.service, self.seed, self.share, self.until = service, seed, share, until

    def live(self, dice):
        raise NotImplementedError

    def run(self):
        dice = random.Random(self.seed)
        number = 0
        while time.monotonic() < self.until:
            number += 1
            child = os.fork()
            if not child:
                self.be_child("%s/%d" % (self.seed, number))
            if dice.random() < self.KILLED:
                time.sleep(self.KILLED_S * dice.random())
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def be_child(self, seed):
        """Does not return."""
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            self.live(random.Random(seed))
        except Exception:  # a broken promise, or a mistake in the fuzzer
            traceback.print_exc()
            self.share.counts.add("broken")
        finally:
            os._exit(0)
