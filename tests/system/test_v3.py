#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# mostly waits
"""Protocol 3: how the daemon starts and ends, and what a script sees of its commands."""

import os
import re
import socket
import subprocess

import harness
import mps
from harness import contains, equal, need_root, wait_for
from test_daemon import Daemon

SAYS = "To connect CUDA applications to this daemon, set CUDA_MPS_PIPE_DIRECTORY=%s\n"
UID = os.getuid()


# ---- start and end

def test_start():
    """By the option or the variable: one line on standard output. -q ends the daemon."""
    for words, variable in ((["-d", "-p", "3"], ""), (["--daemon", "--protocol=3"], ""), (["-d"], "3"),
                            (["-p", "2", "-d"], "3")):
        with Daemon(start=False) as daemon:
            done = daemon.run(*words, environment={"CUDA_MPS_PROTOCOL_VERSION": variable})
            equal((done.returncode, done.stdout, done.stderr), (0, SAYS % daemon.pipe, ""), words)
            contains(daemon.read("control"), SAYS % daemon.pipe)
            # Later invocations follow the daemon, whatever they are told.
            for prefix in [], ["-p", "3"], ["-p", "2"]:
                equal(daemon.run(*prefix, "server", "list", "--format=csv,noheader").stdout, "")
                equal(daemon.run(*prefix, "get_server_list").returncode, 0)
            done = daemon.run("-p", "3", "--quit")
            equal((done.returncode, done.stdout), (0, ""))
            wait_for("its end", lambda daemon=daemon: daemon.pid() is None)


def test_quit_without_daemon():
    with Daemon(start=False) as daemon:
        equal(daemon.run("-q").returncode, 1)
        equal(daemon.run("server", "list").returncode, 1)


def test_one_server_for_all():
    """-m has no value with protocol 3, and metrics have an option of their own."""
    need_root()
    for words in (["-d", "-p", "3", "-m"], ["-m", "-d", "--protocol", "3"], ["-p3", "-dm"],
                  ["-d", "-p", "3", "--multiuser"], ["-d", "-p", "3", "-multiuser-server"]):
        with Daemon(start=False, environment={"MPS_SERVER_USER": "nobody"}) as daemon:
            equal(daemon.run(*words).returncode, 0, words)
            daemon.run("start_server", "-uid", "0")
            contains(daemon.run("server", "list").stdout, "65534")
            daemon.quit()
    with Daemon(start=False) as daemon:
        equal(daemon.run("-p", "3", "-d", "--metrics", "off").returncode, 0)
        daemon.quit()


def foreground(daemon, **more):
    process = subprocess.Popen([daemon.control, "-p", "3", "-f"], env=daemon.environment,
                               stdout=subprocess.DEVNULL, **more)
    wait_for("the daemon", lambda: os.path.exists(daemon.pipe + "/control"))
    return process


def test_standard_input():
    """A line `quit', or the end of a pipe, ends a daemon in the foreground; /dev/null does not."""
    with Daemon(start=False) as daemon:
        with foreground(daemon, stdin=subprocess.PIPE, text=True) as process:
            process.stdin.write("nope\nquit\n")
            process.stdin.flush()
            equal(process.wait(20), 0)
        contains(daemon.read("control"), "Standard input takes quit only")
        with foreground(daemon, stdin=subprocess.PIPE) as process:
            process.stdin.close()
            equal(process.wait(20), 0)
        one, other = socket.socketpair()
        with foreground(daemon, stdin=other) as process:
            other.close()
            one.send(b"quit")
            one.close()
            equal(process.wait(20), 0)
        with foreground(daemon, stdin=subprocess.DEVNULL) as process:
            equal(daemon.run("server", "list").returncode, 0)
            daemon.ask("quit")
            equal(process.wait(20), 0)


def test_long_path():
    """The message has the length, and the limit."""
    with Daemon(start=False) as daemon:
        path = daemon.root + "/" + "x" * 117
        done = daemon.run("-p", "3", "-d", environment={"CUDA_MPS_PIPE_DIRECTORY": path})
        equal(done.returncode, 1)
        contains(done.stderr, "has %d bytes, more than the system's limit of 107" % len(path + "/control"))


# ---- commands

def test_exit_status():
    """A refusal or an absent name is status 1, with the reason on both streams."""
    with Daemon() as daemon:
        for words, said in (("server list nope", "Server 'nope' not found"),
                            ("server get nope pid", "Server 'nope' not found"),
                            ("server nope", 'Unknown verb "nope" of server'),
                            ("client terminate 1", "Client 1 not found"),
                            ("client list --server", "--server needs a value")):
            done = daemon.run("-p", "3", *words.split())
            equal(done.returncode, 1, words)
            contains(done.stdout, said)
            contains(done.stderr, said)
        for words in ("server list", "client list --all", "server help", "client get --help"):
            done = daemon.run("-p", "3", *words.split())
            equal((done.returncode, done.stderr), (0, ""), words)
        # A failed command of protocol 2 is status 0, as ever.
        equal(daemon.run("-p", "3", "get_client_list", "1").returncode, 0)
        contains(daemon.run("-p", "3", "-h").stdout, "\n  server list ")


def test_lists():
    """A client in all lists: of servers, clients and devices."""
    with mps.Service() as service:
        name = "uid_%d" % UID
        process = service.popen("process1", "--seconds", "20")
        wait_for("the client", lambda: str(process.pid) in service.command("ps").stdout)
        server = str(service.server())

        def csv(*words):
            return service.command(*words, "--format=csv,noheader").stdout

        uuid = re.search(r"GPU-[-0-9a-f]{36}", csv("device", "list"))[0]
        contains(csv("server", "list"), "%s,%d,%s,Ready," % (name, UID, server))
        contains(csv("device", "list", "--server=" + name), "0,%s," % name)
        # One GPU of the service's is in use.
        contains(csv("client", "list"), "%d,%s,%s,%s/default (0)," % (process.pid, name, uuid, name))
        lines = service.command("client", "list").stdout.splitlines()
        equal(lines[0].split(), ["PID", "SERVER", "DEVICE", "MAWS", "NS", "CMD"])
        equal(lines[1].split()[0], str(process.pid))
        for field, value in (("pid", str(process.pid)), ("server", name), ("device", uuid)):
            equal(service.command("client", "get", str(process.pid), field).stdout, value + "\n")
        equal(service.command("server", "get", name, "pid").stdout, server + "\n")
        service.command("client", "terminate", str(process.pid))
        contains(str(service.finish(process)), "810")


def test_help_names_all():
    """The table of commands, help, the manual page and docs/v3.md name the same commands."""
    def read(*path):
        with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
            return file.read()

    usages = {words + usage for words, usage in re.findall(
        r'^\t\{"([a-z-]+ [a-z]+)",\s*"([^"]*)"', read("daemon", "command", "command.c"), re.M)}
    assert len(usages) > 5, usages
    listed = subprocess.run([mps.CONTROL, "-h"], capture_output=True, text=True, check=True).stdout
    for usage in usages:
        contains(listed, "\n  %s  " % usage)
    page = read("docs", "v3.md").partition("\n## Commands\n")[2].partition("\n## ")[0]
    equal({cell.replace("\\|", "|") for cell in re.findall(r"^\| `([^`]+)` \|", page, re.M)}, usages)
    section = read("docs", "man", "mps-control.1").partition(".SH COMMANDS OF PROTOCOL 3")[2].partition(".SH ")[0]
    said = {re.sub(r"\\f.|\"|\\(?=-)", "", term).replace("  ", " ")
            for term in re.findall(r"^\.T[PQ]\n\.BI (.*)", section, re.M)}
    equal({term.replace(" ", "") for term in said}, {usage.replace(" ", "") for usage in usages})


if __name__ == "__main__":
    harness.main(globals())
