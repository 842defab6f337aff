#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1500 s
"""The packages under a real systemd: units, reload, crashes, watchdog, socket, journal, upgrade.

systemd is the first process of a root of Debian (systemd_root.py). All tests share that root, so
each begins by beginning().
"""

import contextlib
import functools
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import test_deb  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from systemd_root import SystemdRoot  # pylint: disable=wrong-import-position

SERVICE, SOCKET = "mps-control.service", "mps-control.socket"
CONTROL = "/tmp/nvidia-mps/control"
SOFTGPU = "[Service]\nEnvironment=MPS_CUDA_LIBRARY=/opt/libcuda.so.1 MPS_GRACE_MS=1000\n"
cleanup = contextlib.ExitStack()


@functools.cache
def booted():
    """A booted root in which the packages were just installed, as an operator installs them."""
    debs = test_deb.packages()
    root = cleanup.enter_context(SystemdRoot())
    root.put_programs("process1")
    root.write("/etc/systemd/system/%s.d/softgpu.conf" % SERVICE, SOFTGPU)
    test_deb.install(root, debs, *test_deb.PACKAGES)
    return root


def beginning():
    """The root with the units as installed, stopped, and without daemons, settings and failures."""
    root = booted()
    root.systemctl("stop", SOCKET, SERVICE)
    root.run("mps-control", "quit", "-t", "0", status=None)
    for unit in (SERVICE, SOCKET):
        root.drop_in(unit, "test", "")
    root.run("rm", "-f", "/etc/mps.conf")
    root.systemctl("reset-failed", SERVICE, SOCKET, status=None)
    return root


def started(root):
    root.systemctl("start", SERVICE)
    return root


def main_pid(root):
    return int(root.show(SERVICE, "MainPID"))


def status(root):
    return root.show(SERVICE, "StatusText")


def ask(root, *words):
    return root.run("mps-control", *words, status=None)


def client(root, seconds=600):
    """A program that uses the GPU as a client, and its PID in the root."""
    before = set(clients(root))
    process = root.popen("mps-run", "/opt/process1", "--seconds", str(seconds))
    cleanup.callback(process.kill)
    return process, wait_for("a client", lambda: set(clients(root)) - before).pop()


def clients(root):
    """PIDs of the clients that use a GPU."""
    return [line.split()[0] for line in ask(root, "ps").splitlines()[1:] if "process1" in line]


def end(root, process, pid):
    root.run("kill", "-KILL", pid)
    process.communicate(timeout=60)


def run_ok(root):
    contains(root.run("mps-run", "/opt/process1"), "process1: ok")


def test_installed():
    """The service runs and is enabled, the socket is not; the user and the directory exist."""
    root = booted()
    equal(root.systemctl("is-enabled", SERVICE).strip(), "enabled")
    equal(root.systemctl("is-active", SERVICE).strip(), "active")
    equal(root.systemctl("is-enabled", SOCKET, status=1).strip(), "disabled")
    equal(root.systemctl("is-active", SOCKET, status=3).strip(), "inactive")
    equal(root.run("stat", "-c", "%U %G %a", "/tmp/nvidia-mps").strip(), "root root 755")
    equal(root.run("stat", "-c", "%U %a %F", CONTROL).strip(), "root 666 socket")
    name, _, uid, _, _, _, shell = root.run("getent", "passwd", "mps").strip().split(":")
    assert 0 < int(uid) < 1000 and shell.endswith("nologin"), (name, uid, shell)
    said = root.run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/" + SERVICE,
                    "/lib/systemd/system/" + SOCKET, status=None)
    assert "mps-control" not in said, said
    equal(root.show(SERVICE, "WatchdogUSec"), "30s")
    # It would hide the kernel's log, and so the cause of faults, from the daemon.
    equal(root.show(SERVICE, "ProtectKernelLogs"), "no")
    run_ok(root)


def test_directory_at_boot():
    """tmpfiles makes the directory, and takes it from a user who made it first."""
    root = beginning()
    for before in ("rm -rf /tmp/nvidia-mps", "rm -rf /tmp/nvidia-mps; mkdir -m 777 /tmp/nvidia-mps; "
                   "chown 12345:12345 /tmp/nvidia-mps"):
        root.run("sh", "-c", before)
        root.run("systemd-tmpfiles", "--create", "mps-control.conf")
        equal(root.run("stat", "-c", "%U %G %a", "/tmp/nvidia-mps").strip(), "root root 755")
    run_ok(started(root))


def test_start_status_stop():
    """The status has the numbers of servers and clients; stop ends all, restart begins again."""
    root = started(beginning())
    equal(status(root), "0 servers, 0 clients")
    process, pid = client(root)
    wait_for("the status", lambda: status(root) == "1 server, 1 client")
    contains(root.systemctl("status", SERVICE), 'Status: "1 server, 1 client"')
    other, other_pid = client(root)
    wait_for("the status", lambda: status(root) == "1 server, 2 clients")
    end(root, other, other_pid)
    wait_for("the status", lambda: status(root) == "1 server, 1 client")
    root.systemctl("stop", SERVICE)
    equal(root.show(SERVICE, "Result"), "success")
    out, _ = process.communicate(timeout=60)
    assert "process1: ok" not in out, (pid, out)
    assert "mps-" not in root.run("ps", "-e", "-o", "comm="), "processes are left"
    assert root.run("test", "-e", CONTROL, status=1) == ""
    root.systemctl("start", SERVICE)
    before = main_pid(root)
    root.systemctl("restart", SERVICE)
    assert main_pid(root) not in (0, before)
    run_ok(root)


def test_quit():
    """quit may wait for clients for longer than systemd lets a unit take to stop."""
    root = beginning()
    root.drop_in(SERVICE, "test", "[Service]\nTimeoutStopSec=2\n")
    process, pid = client(started(root))
    quitting = root.popen("mps-control", "quit")
    wait_for("the status", lambda: status(root).startswith("Quits when the clients have left: 1 server"))
    time.sleep(5)
    equal((root.show(SERVICE, "ActiveState"), quitting.poll()), ("active", None))
    end(root, process, pid)
    equal(quitting.wait(60), 0)
    root.wait_for_state(SERVICE, "inactive")
    equal((root.show(SERVICE, "Result"), root.show(SERVICE, "NRestarts")), ("success", "0"))


def test_reload():
    """systemctl reload applies a changed file; a file with an error fails it and changes nothing."""
    root = started(beginning())
    before = main_pid(root)
    root.write("/etc/mps.conf", "[default]\nactive_thread_percentage = 40\n")
    root.systemctl("reload", SERVICE)
    equal(ask(root, "get_default_active_thread_percentage").strip(), "40.0")
    root.write("/etc/mps.conf", "[default]\nactive_thread_percentage = 30\nclient_priority = 9\n")
    contains(root.systemctl("reload", SERVICE, status=1), "failed")
    equal(ask(root, "get_default_active_thread_percentage").strip(), "40.0")
    equal((root.show(SERVICE, "ActiveState"), root.show(SERVICE, "SubState")), ("active", "running"))
    # The reason is in the journal, from the front end and from the daemon.
    contains(root.journal("-u", SERVICE), "client_priority")
    root.write("/etc/mps.conf", "[default]\nactive_thread_percentage = 30\n")
    root.systemctl("kill", "--signal=HUP", "--kill-who=main", SERVICE)
    wait_for("the file", lambda: ask(root, "get_default_active_thread_percentage").strip() == "30.0")
    wait_for("the end of the reload", lambda: root.show(SERVICE, "SubState") == "running")
    equal(main_pid(root), before)


def beside_an_end(root, what, cause):
    """The daemon ends in that way beside a client, which goes on; the next one adopts the server."""
    process, pid = client(root)
    before, servers = main_pid(root), ask(root, "get_server_list").split()
    cause(before)
    wait_for("the next daemon", lambda: main_pid(root) not in (0, before), 60)
    root.wait_for_state(SERVICE, "active")
    equal(root.show(SERVICE, "NRestarts"), "1", what)
    equal(process.poll(), None, "the client")
    wait_for("the adoption", lambda: ask(root, "get_server_list").split() == servers)
    wait_for("the client's return", lambda: clients(root) == [pid])
    run_ok(root)
    equal(ask(root, "get_server_list").split(), servers, "another server")
    wait_for("the status", lambda: status(root) == "1 server, 1 client")
    end(root, process, pid)


def test_crash():
    root = started(beginning())
    beside_an_end(root, "a crash", lambda pid: root.run("kill", "-KILL", str(pid)))


def test_watchdog():
    """A daemon that is stopped gives no sign of life: systemd ends it and starts the next one."""
    root = beginning()
    root.drop_in(SERVICE, "test", "[Service]\nWatchdogSec=3\nLimitCORE=0\n")
    started(root)
    # Longer than the watchdog allows: the daemon's signs of life arrive.
    before = main_pid(root)
    time.sleep(6)
    equal((main_pid(root), root.show(SERVICE, "NRestarts")), (before, "0"))
    beside_an_end(root, "a hang", lambda pid: root.run("kill", "-STOP", str(pid)))
    contains(root.journal("-u", SERVICE), "Watchdog timeout")


def test_first_client_starts_the_daemon():
    """By the socket; again after quit and after stop; not after the socket is stopped."""
    root = beginning()
    root.systemctl("start", SOCKET)
    equal(root.systemctl("is-active", SERVICE, status=3).strip(), "inactive")
    equal(root.run("stat", "-c", "%U %a %F", CONTROL).strip(), "root 666 socket")
    run_ok(root)
    equal(root.systemctl("is-active", SERVICE).strip(), "active")
    equal(len(ask(root, "get_server_list").split()), 1, "it was no client")
    contains(root.run("mps-run", "--check", "/opt/process1", uid=12345), "would be a client")
    for words in (("mps-control", "quit"), ("systemctl", "stop", SERVICE)):
        root.run(*words)
        root.wait_for_state(SERVICE, "inactive")
        equal(root.systemctl("is-active", SOCKET).strip(), "active")
        run_ok(root)
        root.wait_for_state(SERVICE, "active")
    process, pid = client(root)
    root.run("kill", "-KILL", str(main_pid(root)))
    run_ok(root)
    equal(process.poll(), None)
    end(root, process, pid)
    root.systemctl("stop", SOCKET, SERVICE)
    assert root.run("test", "-e", CONTROL, status=1) == ""
    contains(root.run("mps-run", "--check", "/opt/process1", status=1), "no daemon listens at")
    root.systemctl("start", SERVICE)
    run_ok(root)


def test_daemon_that_cannot_start():
    """Programs that wait for it get an error soon; later ones use the GPU without the service."""
    root = beginning()
    root.write("/etc/mps.conf", "[daemon]\nidle_s = x\n")
    root.systemctl("start", SOCKET)
    contains(root.run("mps-run", "/opt/process1", status=1), "805")
    root.wait_for_state(SOCKET, "failed")
    assert root.run("test", "-e", CONTROL, status=1) == ""
    run_ok(root)
    contains(root.journal("-u", SERVICE), "check it with mps-control check-config")
    root.run("rm", "/etc/mps.conf")
    root.systemctl("reset-failed", SERVICE, SOCKET)
    root.systemctl("start", SOCKET)
    run_ok(root)
    equal(len(ask(root, "get_server_list").split()), 1)


def test_socket_beside_a_daemon():
    """Whoever comes second does not start and says why; the first one is not disturbed."""
    root = beginning()
    # A daemon that was started by hand.
    root.run("mps-control", "-d")
    root.systemctl("start", SOCKET, status=1)
    contains(root.journal("-u", SOCKET), "Another daemon has the directory /tmp/nvidia-mps")
    root.systemctl("start", SERVICE, status=1)
    contains(root.journal("-u", SERVICE), "Another daemon has the directory /tmp/nvidia-mps")
    run_ok(root)
    root.systemctl("stop", SERVICE)
    equal(len(ask(root, "get_server_list").split()), 1, "the first daemon's server")
    ask(root, "quit")
    # The service with a socket of its own.
    root.systemctl("reset-failed", SERVICE, SOCKET, status=None)
    root.systemctl("start", SERVICE)
    root.systemctl("start", SOCKET, status=1)
    contains(root.journal("-u", SOCKET), "already active")
    run_ok(root)
    root.systemctl("stop", SERVICE)
    # The socket unit.
    root.systemctl("reset-failed", SOCKET, status=None)
    root.systemctl("start", SOCKET)
    contains(root.run("mps-control", "-d", status=1), "systemctl start mps-control")
    run_ok(root)


def test_socket_in_another_directory():
    """The daemon refuses a socket that its clients would not find, and says what to change."""
    root = beginning()
    root.drop_in(SERVICE, "test", "[Service]\nEnvironment=CUDA_MPS_PIPE_DIRECTORY=/run/mps\n")
    root.systemctl("start", SOCKET)
    root.systemctl("start", SERVICE, status=1)
    contains(root.journal("-u", SERVICE), "set ListenStream=/run/mps/control in the unit")
    root.systemctl("stop", SOCKET, SERVICE)
    root.drop_in(SOCKET, "test", "[Socket]\nListenStream=\nListenStream=/run/mps/control\n")
    root.systemctl("reset-failed", SERVICE, SOCKET, status=None)
    root.systemctl("start", SOCKET)
    contains(root.run("mps-run", "/opt/process1", CUDA_MPS_PIPE_DIRECTORY="/run/mps"), "process1: ok")
    equal(root.systemctl("is-active", SERVICE).strip(), "active")
    equal(len(root.run("mps-control", "get_server_list", CUDA_MPS_PIPE_DIRECTORY="/run/mps").split()), 1)


def test_journal():
    """Each line is an entry of the unit, with the fields by which an operator looks for it."""
    root = started(beginning())
    process, pid = client(root)
    server, = ask(root, "get_server_list").split()
    end(root, process, pid)
    field = "MPS_CLIENT_PID=" + pid

    def entries(*words):
        return [json.loads(line) for line in root.journal("-o", "json", *words).splitlines()]

    def about(part):
        return [entry for entry in entries(field) if part in entry["MESSAGE"]]

    wait_for("the last line", lambda: about("disconnected"))
    for part, wanted in (("NEW CLIENT", {"MPS_ROLE": "control", "MPS_UID": "0"}),
                         ("is ACTIVE", {"MPS_ROLE": "server", "MPS_SERVER_PID": server})):
        found = about(part)
        equal(len(found), 1, part)
        wanted.update(PRIORITY="6", SYSLOG_IDENTIFIER="mps-control", MPS_CLIENT_PID=pid,
                      _SYSTEMD_UNIT=SERVICE, _PID=str(main_pid(root)))
        equal({name: found[0].get(name) for name in wanted}, wanted, part)
    assert entries("MPS_SERVER_PID=" + server, "MPS_DEVICE=0"), "lines about the GPU"
    assert all(entry["_SYSTEMD_UNIT"] == SERVICE for entry in entries("MPS_ROLE=server"))


def test_server_for_all_users():
    """With -M the server runs as the user that sysusers made."""
    root = beginning()
    root.drop_in(SERVICE, "test", "[Service]\nExecStart=\nExecStart=/usr/bin/mps-control -M -f\n")
    process, pid = client(started(root))
    server, = ask(root, "get_server_list").split()
    equal(root.run("ps", "-o", "user=", "-p", server).strip(), "mps")
    contains(root.run("mps-run", "/opt/process1", uid=12345), "process1: ok")
    equal(ask(root, "get_server_list").split(), [server])
    end(root, process, pid)


def test_upgrade_and_removal():
    """An upgrade replaces the daemon beside a client, by both units; removal ends all."""
    root = beginning()
    with tempfile.TemporaryDirectory() as folder:
        root.systemctl("start", SOCKET)
        process, pid = client(root)
        before, servers = main_pid(root), ask(root, "get_server_list").split()
        test_deb.install(root, test_deb.later_packages(folder), *test_deb.PACKAGES)
    wait_for("the next daemon", lambda: main_pid(root) not in (0, before))
    root.wait_for_state(SERVICE, "active")
    assert "(deleted)" not in root.run("readlink", "/proc/%d/exe" % main_pid(root))
    wait_for("the adoption", lambda: ask(root, "get_server_list").split() == servers)
    equal(root.systemctl("is-active", SOCKET).strip(), "active")
    equal(process.poll(), None, "the client")
    run_ok(root)
    root.run("apt-get", "purge", "-y", *test_deb.PACKAGES)
    process.communicate(timeout=60)
    assert "mps-" not in root.run("ps", "-e", "-o", "comm="), "processes are left"
    for path in (CONTROL, "/tmp/nvidia-mps", "/var/log/nvidia-mps"):
        assert root.run("test", "-e", path, status=1) == "", path
    equal(root.systemctl("list-unit-files", "mps-control*", status=None).count("mps-control"), 0)
    equal(root.systemctl("--failed", "--plain", "--no-legend").count("mps-control"), 0, pid)


if __name__ == "__main__":
    with cleanup:
        harness.main(globals())
