#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""The whole path: programs share a GPU; an operator queries and ends the service."""

import fcntl
import os
import re
import signal
import subprocess
import threading
import time

import harness
import mps
from harness import Skip, contains, equal, wait_for


def test_two_programs_at_once():
    with mps.Service() as service:
        one = service.popen("process1", "--seconds", "4")
        two = service.popen("process2", "--seconds", "4")
        server = service.server()
        wait_for("both clients", lambda: {one.pid, two.pid} == set(service.clients(server)))
        for process, name in ((one, "process1"), (two, "process2")):
            code, out, err = service.finish(process)
            equal((code, out, err), (0, name + ": ok\n", ""))
        equal(service.servers(), [server])
        wait_for("no client", lambda: not service.clients(server))


def test_programs():
    with mps.Service() as service:
        for name in mps.PROGRAMS_ONCE:
            out, err = service.run_ok(name)
            equal((out, err), (name + ": ok\n", ""))
        equal(len(service.servers()), 1)


def test_eight_at_once():
    with mps.Service() as service:
        running = [service.popen("matmul", "--rounds", "3") for _ in range(8)]
        for process in running:
            code, out, err = service.finish(process, 120)
            equal((code, out), (0, "matmul: ok\n"), err)


def test_addresses_after_larger_stacks():
    """The driver then has free addresses of its own, and returns those for every request."""
    with mps.Service() as service:
        service.run_ok("limits")
        several = [service.popen(name) for name in ("virtual_memory", "virtual_memory", "process1")]
        for process in several:
            code, out, err = service.finish(process)
            equal(code, 0, out + err)


def test_kernel_output_is_kept_apart():
    with mps.Service() as service:
        # On a busy machine, a turn to print may take longer than another program waits for it.
        for _ in range(5):
            running = [service.popen("print", "--rounds", "15") for _ in range(4)]
            ended = [service.finish(process) for process in running]
            if ended == 4 * [(0, "print: ok\n", "")]:
                break
            contains(service.server_log(), "Printed by a kernel of one of several clients")
        equal(ended, 4 * [(0, "print: ok\n", "")])
        # The output of a program that is killed in its work is dropped.
        for _ in range(3):
            victim = service.popen("print", "--rounds", "1000000")
            server = service.server()
            wait_for("it prints", lambda pid=victim.pid: pid in service.clients(server))
            time.sleep(0.05)
            victim.kill()
            service.run_ok("print")
            service.finish(victim)
        equal(service.run("print", "--leave"), (-signal.SIGKILL, "", ""))
        service.run_ok("print")


def ask(service, how):
    """get_server_list in each common way."""
    socket = os.path.join(service.pipe, "control")
    ways = {
        "argv": "'%s' get_server_list" % mps.CONTROL,
        "printf": "printf get_server_list | '%s'" % mps.CONTROL,
        "echo": "echo get_server_list | '%s'" % mps.CONTROL,
        "socat": "echo get_server_list | socat - UNIX-CONNECT:'%s'" % socket,
    }
    return subprocess.run(["sh", "-c", ways[how]], env=service.env, capture_output=True,
                          text=True, timeout=30, check=False)


def test_ways_to_ask():
    mps.need_program("socat")
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        for how in ("argv", "printf", "echo", "socat"):
            done = ask(service, how)
            equal(done.returncode, 0, how + done.stderr)
            equal(done.stdout.split(), [str(server)], how)
        equal(service.command("get_server_status", str(server)).stdout, "ACTIVE\n")
        equal(service.command("get_server_status", "1").stdout, "Server 1 not found\n")
        equal(service.command("no_such_command").stdout, 'Unknown command "no_such_command"\n')
        service.run_ok("process2")


def test_logs():
    with mps.Service() as service:
        process = service.popen("process1", "--seconds", "1")
        service.finish(process)
        server = service.server()
        who = "{PID: %d, Context ID: 1}" % process.pid
        service.wait_for_log("Client %s exiting. Number of active client contexts is 0." % who)
        stamp = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} "
        log = service.server_log()
        for line in ("Startup", "Server has started", "Status of client %s is ACTIVE" % who):
            assert re.search(stamp + r"\w+ +%d\] %s" % (server, re.escape(line)), log, re.M), \
                "no line %r in\n%s" % (line, log)
        log = service.control_log()
        contains(log, "NEW CLIENT %d from user %d" % (process.pid, os.getuid()))
        assert re.search(stamp + r"Control +\d+\] Starting new server %d for user %d$"
                         % (server, os.getuid()), log, re.M), log
        contains(log, "NEW SERVER %d: Ready" % server)


def test_logs_without_a_daemon():
    """The next daemon's log has what happened while there was no daemon."""
    with mps.Service() as service:
        process = service.popen("process1", "--seconds", "300")
        server = service.server()
        wait_for("a launch", lambda: service.stats(server)["launches"] > 0)
        wait_for("its worker", lambda: mps.workers(server) == 1)
        service.daemon.kill()
        service.daemon.wait()
        process.kill()
        service.finish(process)
        wait_for("its worker's end", lambda: mps.workers(server) == 0)
        service.start()
        wait_for("the server's adoption", lambda: service.servers() == [server])
        service.wait_for_log("Connected to the control daemon again")
        line = (r"Client {PID: %d, Context ID: 1} exiting\. Number of active client contexts is 0\. "
                r"\(\d+\.\d{3} s ago\)$" % process.pid)
        wait_for("the client's end in the log",
                 lambda: re.search(line, service.server_log(), re.M))


def test_quit_in_background():
    service = mps.Service(background=True)
    with service:
        service.run_ok("process1")
        server, daemon = service.server(), service.daemon_pid()
        equal(set(service.processes()), {server, daemon})
        pid_file = os.path.join(service.pipe, "nvidia-cuda-mps-control.pid")
        with open(pid_file, encoding="utf-8") as file:
            equal(file.read(), "%d\n" % daemon)
        wait_for("the client's end", lambda: not service.clients())
        done = service.command("quit")
        equal((done.stdout, done.stderr), ("", ""))
        wait_for("the end of all", lambda: not service.processes())
        assert not os.path.exists(pid_file)
        assert not os.path.exists(os.path.join(service.pipe, "control"))
        contains(service.control_log(), "Exit with status 0")
        done = service.command("get_server_list", check=False)
        equal((done.returncode, done.stdout), (1, "Cannot find MPS control daemon process\n"))


def test_quit_waits_for_the_pid():
    """The daemon's parent waits for it late: until then its PID is in the table of processes."""
    for words in (["quit"], ["quit", "-t", "0"], []):
        service = mps.Service()
        with service:
            daemon = service.daemon

            def reap(daemon=daemon):
                os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOWAIT)
                time.sleep(0.5)
                daemon.wait()

            reaper = threading.Thread(target=reap)
            reaper.start()
            done = subprocess.run([mps.CONTROL, *words], env=service.env, input="get_server_list\nquit\n",
                                  capture_output=True, text=True, timeout=30 * mps.SLOW, check=True)
            is_in_table = os.path.exists("/proc/%d" % daemon.pid)
            reaper.join()
            equal((is_in_table, done.stdout, done.stderr), (False, "", ""), words)


def test_quit_does_not_wait_for_ever():
    """... nor for a parent that never waits for the daemon."""
    with mps.Service() as service:
        began = time.monotonic()
        service.command("quit")
        assert time.monotonic() - began < 10 * mps.SLOW
        service.daemon.wait()


def test_many_commands():
    """The front end reads replies while it sends commands."""
    with mps.Service() as service:
        done = subprocess.run([mps.CONTROL], env=service.env, text=True, capture_output=True, check=True,
                              input="get_default_active_thread_percentage\n" * 20000,
                              timeout=60 * mps.SLOW)
        equal((done.stdout.count("100.0\n"), done.stderr), (20000, ""))


def test_failures_are_printed_once():
    with mps.Service() as service:
        reason = "Unknown command \"nope\""
        for strict in [], ["--strict"]:
            done = subprocess.run([mps.CONTROL, *strict, "nope"], env=service.env, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            equal((done.returncode, done.stdout.count(reason)), (len(strict), 1), done.stdout)
            done = subprocess.run([mps.CONTROL, *strict, "nope"], env=service.env, text=True, check=False,
                                  capture_output=True)
            equal((done.stdout.count(reason), done.stderr.count(reason)), (1, 1), done)


def test_server_of_a_user_without_an_entry():
    """Numbers suffice."""
    harness.need_root()
    uid = 54321
    with mps.Service() as service:
        equal(service.command("start_server", "-uid", str(uid)).stdout, "")
        server, = service.servers()
        equal(mps.status_of(server, "Uid").split(), [str(uid)] * 4)
        equal(mps.status_of(server, "Gid").split(), ["65534"] * 4)
        service.run_ok("process1", user=uid, group=uid, extra_groups=[])


def test_user_that_no_process_can_become():
    """That is no crash: the reason is told at once, and the user is not locked out."""
    harness.need_root()
    namespace = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("this machine allows no user namespaces")
    with mps.Service(launcher=namespace) as service:
        for _ in range(8):
            began = time.monotonic()
            contains(service.command("start_server", "-uid", "54321", check=False).stdout,
                     "Cannot become user 54321")
            assert time.monotonic() - began < 4 * mps.SLOW


def test_quit_waits_for_clients():
    with mps.Service() as service:
        process = service.popen("process1", "--seconds", "3")
        wait_for("the client", lambda: service.clients())
        service.command("quit")
        equal(service.finish(process)[:2], (0, "process1: ok\n"))


def test_forced_quit_ends_clients():
    with mps.Service() as service:
        process = service.popen("victim")
        wait_for("the client", lambda: service.clients())
        service.command("quit", "-t", "1")
        code, out, _ = service.finish(process)
        equal(code, 1, out)


def test_shutdown_server():
    with mps.Service() as service:
        service.run_ok("process1")
        first = service.server()
        service.command("shutdown_server", str(first))
        wait_for("the server's end", lambda: first not in service.servers())
        service.run_ok("process2")
        assert service.server() != first


def test_start_server():
    with mps.Service() as service:
        service.command("start_server", "-uid", str(os.getuid()))
        server = service.server()
        equal(service.command("get_server_status", str(server)).stdout, "ACTIVE\n")
        service.run_ok("process1")
        equal(service.servers(), [server])


def test_lock_of_a_dead_daemons_child():
    """A server that a killed daemon has just forked holds the daemon's lock for a moment."""
    with mps.Service() as service:
        service.daemon.kill()
        service.daemon.wait()
        with open(os.path.join(service.pipe, "control_lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            release = threading.Timer(2, fcntl.flock, (lock, fcntl.LOCK_UN))
            release.start()
            service.start()
            release.join()


if __name__ == "__main__":
    harness.main(globals())
