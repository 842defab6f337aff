#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""mps-control top: printed samples, the live screen in a terminal, keys, hostile names."""

import json
import os
import re
import shutil
import signal
import subprocess

import harness
import mps
from harness import contains, equal, wait_for
from terminal import BOLD, REVERSE, Terminal

MIB = 1 << 20
TOP = [mps.CONTROL, "top"]
COOKED = (True, True)
TITLES = "    PID USER     SM%   MEM LAUNCH/s BUSY%   ERR 60 SEC   KERNEL         COMMAND"


def worked(service, **more):
    """A client that has done its work and waits."""
    process = service.popen("counted", stdin=subprocess.PIPE, **more)
    equal(process.stdout.readline(), "counted: worked\n")
    return process


def busy(service, **more):
    """A client that works for as long as the test."""
    process = service.popen("process1", "--seconds", "100", **more)
    wait_for("the client", lambda: service.servers() and process.pid in service.clients())
    return process


def named(service, name):
    """A waiting client with that argv[0]."""
    process = subprocess.Popen([name], executable=mps.program("counted"), env=service.client_env(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    service.started.append(process)
    equal(process.stdout.readline(), "counted: worked\n")
    return process


def once(service, *words, env=None, **more):
    """A sample as text, from a program without a terminal."""
    return subprocess.run([*TOP, *words], env=dict(service.env, **(env or {})), text=True,
                          encoding="utf-8", capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=60 * mps.SLOW, check=False, **more)


def live(service, *words, env=None, **more):
    own = {"TERM": "xterm", **(env or {})}
    return Terminal([*TOP, "-d", "0.2", *words], dict(service.env, **own), **more)


def row_of(process, end=""):
    """A pattern for the row of the process, which ends with a text."""
    return r"^ *%d .*%s$" % (process.pid, re.escape(end))


# ---- printed samples

def test_once():
    """Text in columns: who, how much, how fast. --once is the default without a terminal."""
    with mps.Service() as service:
        service.command("group", "create", "team")
        idle = worked(service, env={"MPS_GROUP": "team"})
        active = busy(service)
        done = once(service, "--once", "-d", "0.5")
        equal((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        equal(lines[0].split(), ["PID", "USER", "GROUP", "SM%", "MEM", "LAUNCH/s", "COPY/s", "IN/s",
                                 "OUT/s", "BUSY%", "SLOW%", "YIELD%", "ERR", "KERNEL", "COMMAND"])
        rows = {line.split()[0]: line.split() for line in lines[1:]}
        equal(set(rows), {str(idle.pid), str(active.pid)})
        row = rows[str(idle.pid)]
        equal([row[i] for i in (2, 3, 5, 6, 7, 8, 9)], ["team", "100", "0", "0", "0", "0", "0"])
        contains(row[-1], "/counted")
        equal(rows[str(active.pid)][2], "-")
        # On a busy machine, a program may do nothing for a while.
        wait_for("work", lambda: re.search(r"^ *%d \S+ +- +100 +\S+ +[1-9].* [1-9]\d* +- +- +0 \S.* /" % active.pid,
                                           once(service, "-d", "0.5").stdout, re.M))
        # Narrower, and without options.
        narrow = once(service, env={"COLUMNS": "40"}).stdout.splitlines()
        equal(narrow[0], "    PID   MEM LAUNCH/s BUSY% COMMAND")
        assert all(len(line) <= 40 for line in narrow), narrow


def test_json():
    """The same with exact numbers and names as they are; -n prints several samples."""
    with mps.Service() as service:
        idle, active = worked(service), busy(service)
        done = once(service, "--json", "-n", "2", "-d", "0.5")
        samples = [json.loads(line) for line in done.stdout.splitlines()]
        equal((len(samples), done.stderr), (2, ""))
        assert samples[0]["time_ns"] < samples[1]["time_ns"]
        clients = {client["pid"]: client for client in samples[1]["clients"]}
        client = clients[idle.pid]
        equal({name: client[name] for name in ("uid", "server", "group", "launches_per_s", "copies_per_s",
                                               "bytes_in_per_s", "busy_share", "errors", "sm_share")},
              {"uid": os.getuid(), "server": service.server(), "group": None, "launches_per_s": 0,
               "copies_per_s": 0, "bytes_in_per_s": 0, "busy_share": 0, "errors": 0, "sm_share": 1})
        assert client["memory"] >= 2 * MIB, client
        contains(client["command"], "/counted")
        assert active.pid in clients, clients


def test_rates():
    """The rates are what the counters say."""
    with mps.Service() as service:
        active = busy(service)

        def has_work():
            client, = json.loads(once(service, "--json", "-d", "0.5").stdout)["clients"]
            assert 0 <= client["busy_share"] <= 1, client
            return client["launches_per_s"] > 0 and client["busy_share"] > 0
        wait_for("work", has_work)
        first = json.loads(service.command("stats", "--json").stdout)
        client, = json.loads(once(service, "--json").stdout)["clients"]
        equal(client["pid"], active.pid)
        after = json.loads(service.command("stats", "--json").stdout)
        launches = [sample["clients"][0]["launches"] for sample in (first, after)]
        assert client["launches_per_s"] <= launches[1] - launches[0], (client, launches)


def test_kernels():
    """What a client launched last: in top, with its demangled name if there is space, in ps and stats."""
    scale, demangled = "_ZN1n5scaleIiEEvv", "void n::scale<int>()"
    with mps.Service() as service:
        process = service.popen("last_launch", stdin=subprocess.PIPE)
        for step, kernel, shown in (("nothing", None, "-"), ("kernel", scale, demangled),
                                    ("graph", "(graph)", "(graph)"), ("unloaded", scale, demangled)):
            equal(process.stdout.readline(), "last_launch: %s\n" % step)
            contains(once(service, "-d", "0.1").stdout, " 0 %s " % shown)
            narrow = once(service, "-d", "0.1", env={"COLUMNS": "80"}).stdout
            contains(narrow, " 0 %s " % ("scale" if shown == demangled else shown))
            client, = json.loads(once(service, "--json", "-d", "0.1").stdout)["clients"]
            equal(client["kernel"], kernel)
            for words in ("stats", "--json"), ("ps", "-l", "--json"), ("ps", "-l", "--json", "-p", str(service.server())):
                client, = json.loads(service.command(*words).stdout)["clients"]
                equal(client["kernel"], kernel, words)
            client, = json.loads(service.command("ps", "--json").stdout)["clients"]
            assert "kernel" not in client, client
            process.stdin.write("\n")
            process.stdin.flush()
        equal(service.finish(process)[0], 0)


def test_failures():
    """No daemon, a command line that is wrong: the reason on standard error, and status 1."""
    with mps.Service() as service:
        for words in (["-d", "x"], ["-d", "0"], ["-n", "0"], ["--what"], ["more"], ["-d"]):
            done = once(service, *words)
            equal((done.returncode, done.stdout), (1, ""), words)
            contains(done.stderr, "mps-control: top: ")
        done = once(service, env={"CUDA_MPS_PIPE_DIRECTORY": service.folder + "/none"})
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "mps-control: top: no daemon at %s/none/control: No such file" % service.folder)


def test_help():
    """By the program and by the command; no daemon is needed."""
    for words in [mps.BUILD + "/bin/mps-top"], [mps.CONTROL, "top"]:
        for option in "-h", "--help":
            done = subprocess.run([*words, option], text=True, capture_output=True, check=False)
            equal((done.returncode, done.stderr), (0, ""))
            contains(done.stdout, "top [--once] [--json] [-d SECONDS] [-n COUNT]\n")


def test_without_the_program():
    """mps-top is beside mps-control; where it is missing, the message says so."""
    with mps.Service() as service:
        alone = service.folder + "/mps-control"
        shutil.copy(mps.CONTROL, alone)
        done = subprocess.run([alone, "top"], env=service.env, text=True, capture_output=True, check=False)
        equal((done.returncode, done.stdout, done.stderr),
              (1, "", "mps-control: top: cannot execute %s/mps-top: No such file or directory: "
                      "install it beside mps-control\n" % service.folder))


def test_no_terminal():
    """A terminal that cannot move its cursor gets one sample; so does an input that is none."""
    with mps.Service() as service:
        active = busy(service)
        with live(service, env={"TERM": "dumb"}) as screen:
            equal(screen.wait_for_end(), 0)
            contains(screen.text(), " %d " % active.pid)
            assert b"\x1b" not in screen.raw, screen.raw
        with live(service, env={"TERM": "unknown to all"}) as screen:
            equal(screen.wait_for_end(), 0)


# ---- the live screen

def test_live():
    """Rows come and go, rates follow the work, the graph grows, q restores the terminal."""
    with mps.Service() as service, live(service) as screen:
        screen.wait_for_text("0 clients")
        screen.wait_for_text("^" + re.escape(TITLES) + "$")
        active = busy(service)
        screen.wait_for_text(row_of(active, "process1"))
        screen.wait_for_text(r"^ *%d +\S+ +100 +[\d.]+M +[1-9].*[▂▃▄▅▆▇█]" % active.pid)
        screen.wait_for_text(r"^all: [1-9][\d.]*K? launches/s  .* [\d.]+M memory")
        equal(screen.modes(), (False, False))
        active.kill()
        active.wait()
        screen.wait_for_text("0 clients")
        screen.send("q")
        equal(screen.wait_for_end(), 0)
        equal(screen.modes(), COOKED)
        # The cursor is visible again, and the shell's screen is back.
        assert screen.raw.rindex(b"\x1b[?1049l") > screen.raw.rindex(b"\x1b[?1049h")
        assert screen.raw.rindex(b"\x1b[?25h") > screen.raw.rindex(b"\x1b[?25l")


def test_keys():
    """Sorting, the reverse order, a filter, the help."""
    with mps.Service() as service, live(service) as screen:
        first, second = busy(service), worked(service)

        def pids(text):
            return [int(pid) for pid in re.findall(r"^ *(\d+) \w+ ", text, re.M)]

        screen.wait_for("both", lambda text: pids(text) == [first.pid, second.pid])
        screen.wait_for_text("^" + re.escape(TITLES) + "$")
        column = TITLES.index("BUSY%")
        equal(screen.screen.cells[3][column][1] & {BOLD, REVERSE}, {BOLD, REVERSE})
        screen.send("r")
        screen.wait_for_text("by BUSY% reversed")
        screen.wait_for("the reverse order", lambda text: pids(text) == [second.pid, first.pid])
        screen.send("n")
        screen.wait_for_text("by COMMAND ")
        screen.wait_for("the order", lambda text: pids(text) == [second.pid, first.pid])
        screen.send("\x1bOC")  # the right arrow, with the keypad in application mode
        screen.wait_for_text("by PID ")
        screen.send("/PROCESS")
        screen.wait_for_text("^filter: PROCESS_$")
        screen.wait_for("the filter", lambda text: pids(text) == [first.pid])
        screen.send("\r")
        screen.wait_for_text(r"^filter: PROCESS \(1 of 2 clients\)$")
        screen.send("\x1b")
        screen.wait_for("no filter", lambda text: len(pids(text)) == 2)
        screen.send("?")
        screen.wait_for_text("^q Ctrl-C  quit$")
        screen.wait_for_text(r"^p PID +u USER +g GROUP +s SM% +m MEM +l LAUNCH/s$")
        screen.send("h")
        screen.wait_for("the rows", lambda text: len(pids(text)) == 2)


def test_resize():
    """Narrow, low, wide: the columns and rows that fit are shown."""
    with mps.Service() as service, live(service, columns=300, rows=50) as screen:
        active = busy(service)
        screen.wait_for_text(r"IN/s OUT/s BUSY% SLOW% YIELD%   ERR 60 SEC {24} KERNEL +COMMAND$")
        screen.wait_for_text(row_of(active, "/examples/process1"))
        for columns, rows in (80, 24), (40, 10), (10, 6), (1, 1), (500, 5), (80, 24):
            screen.resize(columns, rows)
            if columns >= 40 and rows > 5:
                screen.wait_for_text(row_of(active, "process1"))
            else:
                screen.pump(0.3)
            assert all(len(line) <= columns for line in screen.screen.lines())
        screen.wait_for_text("^" + re.escape(TITLES) + "$")
        assert screen.process.poll() is None


def test_many_clients():
    """More clients than rows: the list scrolls."""
    with mps.Service() as service, live(service, rows=8) as screen:
        processes = sorted([worked(service) for _ in range(6)], key=lambda process: process.pid)
        screen.send("p")
        screen.wait_for_text(row_of(processes[0]))
        screen.wait_for_text("6 clients")
        assert not re.search(row_of(processes[5]), screen.text(), re.M)
        screen.send("\x1b[6~")
        screen.wait_for_text(row_of(processes[5]))
        assert not re.search(row_of(processes[0]), screen.text(), re.M)
        screen.send("\x1bOA\x1bOA\x1bOA")
        screen.wait_for_text(row_of(processes[0]))


def test_other_encodings():
    """Without UTF-8 the graph and all names are ASCII."""
    with mps.Service() as service, live(service, env={"LC_ALL": "C"}) as screen:
        named(service, "né日本")
        active = busy(service)
        screen.wait_for_text(r"^ *%d .* [_.:=+*#-] \S.* process1$" % active.pid)
        screen.wait_for_text(r" n\?\?\?$")
        assert screen.raw.isascii(), screen.raw


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1bc\r\n\t\x7f\x9b31m\u202e日本e\u0301" + "日" * 60


def test_hostile_names():
    """Control sequences, wide and combining characters in a name draw nothing but its row."""
    with mps.Service() as service, live(service, columns=190) as screen:
        hostile, invalid = named(service, HOSTILE), named(service, b"\xff\xfe\x9b\xc2x")
        active = busy(service)
        row = screen.wait_for_text(row_of(hostile, "+")).group()
        contains(row, "?[2J?]0;owned??c????")
        screen.wait_for_text(row_of(active))
        screen.wait_for_text(row_of(invalid, "x"))
        for columns in 80, 79, 78, 77, 100, 120:
            screen.resize(columns, 24)
            screen.wait_for_text(row_of(active))
            screen.wait_for_text(row_of(hostile))
        # Terminal itself fails on sequences that ncurses does not send.
        assert b"\x07" not in screen.raw and b"\x1b]" not in screen.raw and b"\x1bc" not in screen.raw
        screen.send("q")
        equal(screen.wait_for_end(), 0)
        done = once(service, env={"LC_ALL": "C.UTF-8"})
        equal(len(done.stdout.splitlines()), 4)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout), done.stdout
        clients = json.loads(once(service, "--json").stdout)["clients"]
        contains([client["command"] for client in clients if client["pid"] == hostile.pid][0],
                 "\x1b[2J\x1b]0;owned\x07\x1bc\r\n\t\x7f")


# ---- the daemon, signals

def test_daemon_goes_and_comes():
    """The reason is shown, the rows stay; a new daemon, with the same server, continues them."""
    with mps.Service() as service, live(service) as screen:
        active = busy(service)
        screen.wait_for_text(row_of(active))
        service.daemon.kill()
        service.daemon.wait()
        screen.wait_for_text("^no samples: no daemon at ")
        screen.wait_for_text(row_of(active))
        service.start()
        screen.wait_for("new samples", lambda text: "no samples" not in text)
        screen.wait_for_text(r"^ *%d +\S+ +100 +[\d.]+M +[1-9]" % active.pid)
        equal(service.control_log().count("Cmd:stats --json"), 2)


def test_daemon_before():
    """top waits for a daemon that has not started."""
    with mps.Service() as service:
        env = {"CUDA_MPS_PIPE_DIRECTORY": service.folder + "/none"}
        with live(service, env=env) as screen:
            screen.wait_for_text("^no samples: no daemon at ")
            os.symlink(service.pipe, service.folder + "/none")
            screen.wait_for("samples", lambda text: "no samples" not in text)


def test_daemon_hangs():
    """A daemon that is stopped: keys work, and the reason is shown."""
    with mps.Service() as service, live(service) as screen:
        screen.wait_for_text("0 clients")
        os.kill(service.daemon.pid, signal.SIGSTOP)
        try:
            screen.send("?")
            screen.wait_for_text("^q Ctrl-C  quit$")
            screen.send("?")
            screen.wait_for_text("^no samples: the daemon does not answer$")
        finally:
            os.kill(service.daemon.pid, signal.SIGCONT)
        screen.wait_for("samples", lambda text: "no samples" not in text)


def test_ends():
    """Ctrl-C and signals restore the terminal; -n ends by itself."""
    with mps.Service() as service:
        for end in ("\x03", signal.SIGTERM, signal.SIGHUP, None):
            with live(service, *([] if end else ["-n", "2"])) as screen:
                screen.wait_for_text("0 clients")
                if isinstance(end, str):
                    screen.send(end)
                elif end:
                    screen.process.send_signal(end)
                equal(screen.wait_for_end(), 0)
                equal(screen.modes(), COOKED)
                contains(screen.raw[-200:].decode("utf-8", "replace"), "\x1b[?1049l")


def ignores(pid, number):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        mask = re.search(r"^SigIgn:\s*(\w+)$", file.read(), re.M).group(1)
    return bool(int(mask, 16) >> (number - 1) & 1)


def is_writing(pid):
    """Whether the process is in write(), which is number 1 on x86-64."""
    with open("/proc/%d/syscall" % pid, encoding="ascii") as file:
        return file.read().startswith("1 ")


def test_stop_while_it_draws():
    """If top ignored SIGTSTP while it draws, the kernel would drop a Ctrl-Z that it has not read."""
    def press_and_look():
        screen.send("?")
        return is_writing(screen.process.pid)

    with mps.Service() as service:
        with live(service, "-d", "60") as screen:
            screen.wait_for_text("0 clients")
            # The test does not read the terminal, so top waits in the middle of a picture at last.
            wait_for("top to wait", press_and_look)
            assert not ignores(screen.process.pid, signal.SIGTSTP)
            screen.process.kill()


# A shell with jobs: what follows top runs when top has stopped.
SHELL = """set -m
"$@"
echo "stopped: $?"
read -r line
fg >/dev/null
echo "ended: $?"
"""


def test_stop():
    """Ctrl-Z gives the terminal back to the shell; fg draws everything again."""
    with mps.Service() as service:
        words = ["sh", "-c", SHELL, "sh", *TOP, "-d", "0.2"]
        with Terminal(words, dict(service.env, TERM="xterm")) as screen:
            screen.wait_for_text("0 clients")
            screen.send("\x1a")
            screen.wait_for_text(r"stopped: 1\d\d")
            equal(screen.modes(), COOKED)
            screen.send("go on\n")
            screen.wait_for_text("0 clients")
            equal(screen.modes(), (False, False))
            screen.wait_for_text("^" + re.escape(TITLES) + "$")
            screen.send("q")
            screen.wait_for_text("ended: 0")
            equal(screen.modes(), COOKED)


def test_stop_without_shell():
    """Without a shell that could continue it, top does not stop."""
    with mps.Service() as service, live(service) as screen:
        screen.wait_for_text("0 clients")
        screen.send("\x1a")
        screen.send("?")
        screen.wait_for_text("^q Ctrl-C  quit$")


if __name__ == "__main__":
    harness.main(globals())
