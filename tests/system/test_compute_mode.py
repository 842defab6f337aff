#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Compute modes of a GPU: EXCLUSIVE_PROCESS and PROHIBITED, with real servers and programs."""

import os
import re
import sys

import harness
import mps
from harness import contains, equal, need_root, wait_for

ALICE, BOB = 12345, 12346


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def most_servers_at_once(log):
    """The lines of control.log about starts and ends."""
    n = most = 0
    for line in log.splitlines():
        n += bool(re.search(r"Starting new server", line)) - bool(re.search(r"Server \d+ exited", line))
        most = max(most, n)
    return most


def test_users_take_turns():
    need_root()
    with mps.Service({"SOFTGPU_COMPUTE_MODE": "exclusive"}) as service:
        service.run_ok("process1", **user(ALICE))
        programs = [service.popen(name, **user(uid))
                    for _ in range(4) for name, uid in (("process2", BOB), ("process1", ALICE))]
        for program in programs:
            code, out, err = service.finish(program, 100)
            equal((code, err), (0, ""), out)
        log = service.control_log()
        equal(most_servers_at_once(log), 1)
        assert log.count("Starting new server") >= 3, log
        contains(log, "from user %d: Server is not ready, push client to pending list" % BOB)
        assert "Refused" not in log, log


def test_client_knows_why_it_waits():
    need_root()
    with mps.Service({"SOFTGPU_COMPUTE_MODE": "exclusive"}) as service:
        first = service.popen("patient", **user(ALICE))
        wait_for("the first", lambda: service.was_active(first, service.server()))
        with open(service.folder + "/second.log", "w", encoding="utf-8") as file:
            os.chmod(file.fileno(), 0o666)
        second = service.popen("process1", env={"MPS_CLIENT_LOG": "info,%s/second.log" % service.folder},
                               **user(BOB))
        wait_for("its line", lambda: "waiting for a server" in service.read("second.log"))
        contains(service.read("second.log"), "of UID %d has exclusive use of the GPU" % ALICE)
        first.kill()
        equal(service.finish(second)[0], 0)


def test_prohibited():
    with mps.Service({"SOFTGPU_COMPUTE_MODE": "prohibited"}) as service:
        code, out, err = service.run("driver")
        assert code, out
        contains(out + err, "is in compute mode PROHIBITED, which allows no program to use it")
        service.wait_for_log("Compute mode: prohibited")


def test_gpu_that_a_stranger_has():
    with mps.Service({"SOFTGPU_COMPUTE_MODE": "exclusive"}) as service:
        stranger = service.popen("smids", "--wait", service.folder + "/never", preload=False,
                                 env={"LD_LIBRARY_PATH": mps.SOFTGPU.rpartition("/")[0],
                                      "LD_PRELOAD": ":".join(mps.sanitizer_preload()),
                                      "SOFTGPU_COMPUTE_MODE": "exclusive",
                                      "SOFTGPU_DIR": service.folder})
        equal(stranger.stdout.readline(), "ready\n")
        code, out, err = service.run("driver")
        assert code, out
        contains(out + err, "a process that is not a client of the server has exclusive use of it")
        stranger.kill()
        stranger.wait()
        service.run_ok("driver")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
