#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 7200 s
"""Servers and daemons are killed at random moments while eight programs start, run and end.

A program ends normally, or with 806 after the kill of a server that had opened a GPU for
it. MPS_TEST_KILLS is the number of kills.
"""

import collections
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import mps
from harness import need_root

KILLS = int(os.environ.get("MPS_TEST_KILLS", 2000))
PROGRAMS = (("process1",), ("process2",), ("process1", "--seconds", "0.5"), ("matmul",),
            ("process2",), ("events",), ("process1",), ("symbols",))
# This many crashes of a user's server within ten seconds count as a server that cannot start.
SERVER_KILLS_MAX = 4
USERS = 97


class Round:
    """Eight programs of one user; daemon and servers are killed meanwhile."""

    def __init__(self, service, dice, number):
        self.service, self.dice = service, dice
        self.who = {"user": 4000 + number % USERS, "group": 4000 + number % USERS, "extra_groups": []}
        self.killed = []
        self.kills_daemon = number % 6 == 5

    def newest_server(self):
        found = re.findall(r"Starting new server (\d+) for user %d\n" % self.who["user"],
                           self.service.control_log())
        return int(found[-1]) if found else 0

    def kill_server(self):
        pid = self.newest_server()
        if not pid or pid in self.killed or not mps.is_alive(pid):
            return 0
        if self.dice.random() < 0.3:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.dice.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)
        return 1

    def kill_daemon(self):
        self.service.daemon.kill()
        self.service.daemon.wait()
        time.sleep(self.dice.uniform(0, 0.02))
        self.service.start()
        return 1

    def run(self):
        """The number of kills, and how the programs ended."""
        begun, kills = [], 0
        for program in self.dice.sample(PROGRAMS, len(PROGRAMS)):
            begun.append(self.service.popen(*program, **self.who))
            if self.dice.random() < 0.5:
                time.sleep(self.dice.uniform(0, 0.06))
                if not self.kills_daemon and len(self.killed) < SERVER_KILLS_MAX:
                    kills += self.kill_server()
        if self.kills_daemon:
            kills += self.kill_daemon()
        return kills, [self.judge(process) for process in begun]

    def judge(self, process):
        name = os.path.basename(process.args[0])
        code, out, err = self.service.finish(process, 75)
        assert "uses the GPU without MPS" not in err, "%s ran natively: %s" % (name, err)
        if code == 0:
            assert out.endswith("%s: ok\n" % name), "%s is wrong: %s%s" % (name, out, err)
            return "right"
        assert "(806)" in out + err, "%s: %d, %s%s" % (name, code, out, err)
        assert any(self.service.was_active(process, pid) for pid in self.killed), (
            "%s: 806 before it had a GPU: %s%s" % (name, out, err))
        return "806"


def test_kills():
    need_root()
    dice = harness.dice()
    kills = number = 0
    ends = collections.Counter()
    with mps.Service() as service:
        os.chmod(service.folder, 0o777)
        while kills < KILLS:
            more, results = Round(service, dice, number).run()
            kills += more
            number += 1
            ends.update(results)
            if number % 50 == 0:
                print("    %d kills, %d programs: %s" % (kills, 8 * number, dict(ends)), flush=True)
    print("    %d kills, %d programs: %s" % (kills, 8 * number, dict(ends)))
    assert ends["806"] > 0 and ends["right"] > KILLS / 10, "too many, or nothing, was killed"


if __name__ == "__main__":
    harness.main(globals())
