#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""The operator's bound and a user's wish: the lower one counts, wherever each comes from."""

import pwd
import subprocess

import harness
import mps
from harness import contains, equal, need_root, wait_for
from test_config_file import ALICE, BOB, Service, user

LIMITS = "active_thread_percentage = 25\ndevice_pinned_mem_limit = 0=1G\nclient_priority = 2\n"
# What `ps -l' shows with LIMITS: SMs of the 132 of the software GPU, memory, priority, group.
BOUND = "32 1G 2 -"
OPERATOR = "The operator's %s, %s, counts as long as it is lower\n"
RAISES = (("set_active_thread_percentage %d 100", "25.0\n" + OPERATOR % ("limit", "25.0")),
          ("set_device_pinned_mem_limit %d 0 none", OPERATOR % ("limit", "1G")),
          ("set_device_pinned_mem_limit %d 0 3G", OPERATOR % ("limit", "1G")),
          ("set_client_priority %d 0", OPERATOR % ("priority", "2 (background)")))
OWN = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=3G",
       "CUDA_MPS_CLIENT_PRIORITY": "0"}


def said_by(service, uid, line):
    """The reply to a user's command, whose exit status is 0."""
    done = subprocess.run([service.control, "--strict", *line.split()], env=service.env,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                          timeout=30 * mps.SLOW, **user(uid))
    equal((done.returncode, done.stderr), (0, ""), line)
    return done.stdout


def limits(service, uid=ALICE, **env):
    """What a new client of the user gets."""
    process = service.client(env, **user(uid))
    found = service.limits(process)
    process.kill()
    process.wait()
    return found


def got(service, server):
    """The replies of the three get commands."""
    return [service.said(line % server).strip() for line in (
        "get_active_thread_percentage %d", "get_device_pinned_mem_limit %d 0",
        "get_client_priority %d")]


def check_raises(service, server, uid=ALICE):
    """No command of the user raises a limit of the operator; each says so."""
    for line, reply in RAISES:
        equal(said_by(service, uid, line % server), reply)
        equal(limits(service, uid), BOUND, line)
    equal(got(service, server), ["25.0", "1G", "2"])
    equal(limits(service, uid, **OWN), BOUND)


def test_defaults():
    need_root()
    with Service("[default]\n" + LIMITS) as service:
        equal(limits(service), BOUND)
        check_raises(service, service.server())
        equal(limits(service, BOB), BOUND)


def test_environment():
    need_root()
    service = Service("")
    service.daemon_env.update(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25", CUDA_MPS_CLIENT_PRIORITY="2",
                              CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=1G")
    with service:
        equal(limits(service), BOUND)
        check_raises(service, service.server())


def test_section_of_the_user():
    need_root()
    with Service("[user %d]\n%s" % (ALICE, LIMITS)) as service:
        equal(limits(service), BOUND)
        check_raises(service, service.server())


def test_commands_of_the_operator():
    need_root()
    with Service("") as service:
        service.said("set_default_active_thread_percentage 25")
        service.said("set_default_client_priority 2")
        limits(service)
        server = service.server()
        service.said("set_device_pinned_mem_limit %d 0 1G" % server)
        check_raises(service, server)


def test_wish_below_the_bound():
    """It counts until the server ends, whatever the operator then allows."""
    need_root()
    with Service("[default]\nactive_thread_percentage = 50\n") as service:
        limits(service)
        server = service.server()
        equal(said_by(service, ALICE, "set_active_thread_percentage %d 25" % server), "25.0\n")
        equal(said_by(service, ALICE, "set_device_pinned_mem_limit %d 0 1G" % server), "")
        equal(said_by(service, ALICE, "set_client_priority %d 2" % server), "")
        equal(limits(service), BOUND)
        equal(got(service, server), ["25.0", "1G", "2"])
        service.reload("[default]\nactive_thread_percentage = 75\nclient_priority = 1\n")
        equal(limits(service), BOUND)
        # The operator reads whose value counts.
        theirs = "The %s of the server's user, %s, counts as long as it is lower\n"
        equal(service.said("set_active_thread_percentage %d 100" % server),
              "25.0\n" + theirs % ("limit", "25.0"))
        equal(service.said("set_device_pinned_mem_limit %d 0 2G" % server), theirs % ("limit", "1G"))
        equal(service.said("set_client_priority %d 0" % server),
              theirs % ("priority", "2 (background)"))
        # The user takes them back: what the operator has allowed meanwhile counts.
        equal(said_by(service, ALICE, "set_active_thread_percentage %d 100" % server), "100.0\n")
        contains(said_by(service, ALICE, "set_device_pinned_mem_limit %d 0 none" % server), "2G")
        equal(said_by(service, ALICE, "set_client_priority %d 0" % server), "")
        equal(limits(service), "132 2G 0 -")


def test_groups():
    """A group raises no limit, and nobody but the operator changes one, not even its own user."""
    need_root()
    with Service("[default]\n%s[group g]\nuid = %d\nactive_thread_percentage = 100\n"
                 "device_pinned_mem_limit = 0=3G\nclient_priority = 0\n[group low]\nuid = %d\n"
                 "active_thread_percentage = 12.5\n" % (LIMITS, ALICE, ALICE)) as service:
        equal(limits(service, MPS_GROUP="g"), BOUND[:-1] + "g")
        for line in ("set_active_thread_percentage -group low 100", "group set low -priority 0",
                     "group delete low"):
            done = subprocess.run([service.control, *line.split()], env=service.env, text=True,
                                  capture_output=True, check=False, timeout=30 * mps.SLOW,
                                  **user(ALICE))
            contains(done.stdout, "Operation not permitted")
        for line, _ in RAISES:
            said_by(service, ALICE, line % service.server())
        equal(limits(service, MPS_GROUP="low"), "16 1G 2 low")
        equal(limits(service, MPS_GROUP="g", **OWN), BOUND[:-1] + "g")


def test_next_server():
    """The bound holds for each server of the user; a wish ends with its server."""
    need_root()
    with Service("[default]\n" + LIMITS) as service:
        limits(service)
        first = service.server()
        said_by(service, ALICE, "set_active_thread_percentage %d 12.5" % first)
        equal(limits(service), "16 1G 2 -")
        equal(limits(service, MPS_ISOLATE="1", **OWN), BOUND)
        for server in service.servers():
            said_by(service, ALICE, "shutdown_server %d -f" % server)
        wait_for("the end of the servers", lambda: not service.servers())
        said_by(service, ALICE, "start_server -uid %d" % ALICE)
        equal(limits(service), BOUND)
        check_raises(service, service.server())


def test_next_daemon():
    """A daemon that adopts the server has the bound from the file, and forgets the wish."""
    need_root()
    with Service("[default]\n" + LIMITS) as service:
        process = service.client(**user(ALICE))
        server = service.server()
        for line, _ in RAISES:
            said_by(service, ALICE, line % server)
        service.daemon.kill()
        service.daemon.wait()
        service.start()
        equal(service.servers(), [server])
        wait_for("the client, told anew", lambda: service.clients(server) == [process.pid])
        equal(limits(service), BOUND)
        check_raises(service, server)


def test_server_of_all_users():
    """The user of that server lowers the limits of its own clients only, and raises none."""
    need_root()
    owner = pwd.getpwnam("nobody").pw_uid
    with Service("[daemon]\nserver_user = nobody\n[default]\n" + LIMITS,
                 options=["-M"]) as service:
        equal(limits(service), BOUND)
        server = service.server()
        check_raises(service, server, owner)
        equal(limits(service, **OWN), BOUND)
        said_by(service, owner, "set_active_thread_percentage %d 12.5" % server)
        equal(limits(service, owner), "16 1G 2 -")
        equal(limits(service), BOUND)
        equal(said_by(service, owner, "get_active_thread_percentage %d" % server), "12.5\n")
        equal(said_by(service, ALICE, "get_active_thread_percentage %d" % server), "25.0\n")


def test_daemon_of_a_user():
    """The user of the daemon is the operator."""
    need_root()
    service = Service("[default]\n" + LIMITS, uid=ALICE)
    service.env["MPS_TRUST_UID"] = str(ALICE)
    with service:
        equal(limits(service), BOUND)
        server = service.server()
        equal(said_by(service, ALICE, "set_active_thread_percentage %d 100" % server), "100.0\n")
        equal(said_by(service, ALICE, "set_device_pinned_mem_limit %d 0 none" % server), "")
        equal(said_by(service, ALICE, "set_client_priority %d 0" % server), "")
        equal(limits(service), "132 - 0 -")


if __name__ == "__main__":
    harness.main(globals())
