#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""A daemon with -M: one server, as an unprivileged user, works for every user."""

import os
import pwd
import subprocess
import sys

import harness
import mps
from harness import contains, equal, need_root, wait_for

ALICE, BOB = 12345, 12346
SERVER_USER = "nobody"


def service(**settings):
    need_root()
    made = mps.Service(settings, options=["-M"])
    made.daemon_env["MPS_SERVER_USER"] = SERVER_USER
    return made


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def status(pid, field):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return next(line.split()[1:] for line in file if line.startswith(field + ":"))


def test_one_server_for_all():
    with service() as shared:
        for uid in (ALICE, BOB, 0):
            shared.run_ok("process1", **user(uid))
        server, = map(int, shared.command("get_server_list").stdout.split())
        equal(status(server, "Uid"), [str(pwd.getpwnam(SERVER_USER).pw_uid)] * 4)
        for field in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            equal(int(status(server, field)[0], 16), 0, field)
        equal(status(server, "NoNewPrivs"), ["1"])
        contains(shared.control_log(), "from user %d: Server already exists" % BOB)


def test_users_at_once():
    with service() as shared:
        programs = [shared.popen("process2", **user(uid)) for uid in (ALICE, BOB, ALICE, BOB)]
        for program in programs:
            equal(shared.finish(program)[0], 0)
        equal(len(shared.command("get_server_list").stdout.split()), 1)


def trespass(shared, who, owner, *words):
    return shared.run_ok("trespass", who, *words, **user(owner))


def test_strangers_reach_nothing():
    """Neither by address nor by handle, though one server works for both."""
    with service() as shared:
        is_over = os.path.join(shared.folder, "over")
        owner = shared.popen("trespass", "owner", is_over, **user(ALICE))
        said = owner.stdout.readline().split()
        trespass(shared, "stranger", BOB, *said)
        trespass(shared, "friend", ALICE, *said)
        with open(is_over, "w", encoding="utf-8"):
            pass
        equal(shared.finish(owner)[0], 0)


def test_isolated_program_has_its_own():
    with service() as shared:
        shared.run_ok("process1", **user(ALICE))
        one = shared.popen("stuck", env={"MPS_ISOLATE": "1"}, **user(BOB))
        wait_for("its server", lambda: shared.control_log().count("Ready") == 2)
        equal(len(shared.command("get_server_list").stdout.split()), 2)
        for pid in map(int, shared.command("get_server_list").stdout.split()):
            equal(os.stat("/proc/%d/environ" % pid).st_uid, 0, "root alone may look into it")
            equal(status(pid, "Uid")[0], str(pwd.getpwnam(SERVER_USER).pw_uid))
        one.kill()


def start(**env):
    shared = service()
    shared.daemon_env.update(env)
    done = subprocess.run([shared.control, "-d", "-M"], env=shared.daemon_env, check=False,
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_user_of_the_server():
    code, text = start(MPS_SERVER_USER="no-such-user")
    equal(code, 1)
    contains(text, "the system has no user \"no-such-user\"")
    contains(text, "useradd --system")
    code, text = start(MPS_SERVER_USER="root")
    equal(code, 1)
    contains(text, "an unprivileged user")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
