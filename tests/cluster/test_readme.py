#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 28800 s
"""README.md, walked by a newcomer from a bare root of each release of Debian that it names.

The commands come from README's code and from its table `you are'. Here is only what each of them
has to do. The walk ends at the first that does something else. It prints the seconds of each, and the
seconds of processors, which do not depend on the machine's other programs.
"""

import os
import re
import resource
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
from debian_root import PATH, USER, BareRoot  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position

LIMIT_S = 7000
DEMO_MB_MAX = 150
# Seconds of processors after the packages: two minutes of two.
DEMO_CPU_S_MAX = 2 * 120
PIPE = "/tmp/nvidia-mps"
HOME = "/home/user"
PROGRAMS = "/src/build/bin:" + PATH
# What the newcomer has in place of README's words: Debian has no `python', and the walk's programs run
# long enough to be seen.
REPLACED = {"python train.py": "python3 train.py", "./my-program": "./my-program --seconds 30"}
# A program of Python that uses CUDA by the driver's name alone.
TRAIN = """import ctypes
import time

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20))):
    assert result == 0, result
time.sleep(30)
print("trained")
"""


def readme():
    with open(harness.ROOT + "/README.md", encoding="utf-8") as file:
        return file.read()


def section(title):
    return readme().split("\n## %s\n" % title)[1].split("\n## ")[0]


def code(title):
    """The section's lines of code: [(command, what its comment says)]."""
    lines = [line.partition("#") for line in re.findall(r"^    (\S.+)$", section(title), re.M)]
    return [(command.strip(), comment.strip()) for command, _, comment in lines]


def commands_of(reader):
    """What the table tells a reader to begin with."""
    row, = re.findall(r"^\| %s \| (.+) \|$" % reader, readme(), re.M)
    return re.findall(r"`([^`]+)`", row)


def megabytes(text):
    number, = re.findall(r"(\d+) MB", text)
    return int(number)


def drawn(text):
    """The milliseconds of work that each line of a drawing of `make demo' shows."""
    return [line.count("#") for line in re.findall(r"(?:first|second) +([#.]{60})$", text, re.M)]


def failures(said):
    """Of the output of `make check': which tests failed with what output, and what is skipped."""
    return "".join("    %s\n" % line for line in said.splitlines() if re.match("FAIL|  |setup:", line))


def cpu_of_ended():
    """Seconds of processors of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(pid):
    """Seconds of processors of a process and of its children, so far."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            ticks = sum(int(field) for field in file.read().rpartition(")")[2].split()[11:15])
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="utf-8") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return 0
    return ticks / os.sysconf("SC_CLK_TCK") + sum(cpu_of(child) for child in children)


class Steps:
    """Prints a row for each step of a command: its seconds, and those of processors."""

    def __init__(self):
        self.began, self.cpu = time.monotonic(), 0

    def end(self, step, cpu):
        """`cpu' is the command's until now; returns the step's."""
        now, step_cpu = time.monotonic(), cpu - self.cpu
        print("    %-72s %7.1f s, CPU %6.1f s" % (step, now - self.began, step_cpu), flush=True)
        self.began, self.cpu = now, cpu
        return step_cpu


class Walk:
    """Commands in a root, one after the other."""

    def __init__(self, root):
        self.root = root
        self.cpu = 0  # seconds of processors of the last step

    def __enter__(self):
        self.root.__enter__()
        return self

    def __exit__(self, *what):
        self.root.__exit__(*what)

    def start(self, command, folder, uid=None, path=PATH):
        return self.root.popen("sh", "-c", "cd %s && %s" % (folder, command), uid=uid, PATH=path,
                               HOME=HOME if uid else "/root")

    def run(self, command, folder, uid=None, path=PATH, mark=None):
        """Runs a command to its end, and returns what it says. A line that begins with `mark' ends a step."""
        before, steps = cpu_of_ended(), Steps()
        process = self.start(command, folder, uid, path)
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.start()
        said, name = "", command
        try:
            for line in process.stdout:
                said += line
                if mark and re.match(mark, line):
                    steps.end(name + ": the packages", cpu_of(process.pid))
                    name += ": after the packages"
            equal(process.wait(), 0, "%s: %s%s" % (command, failures(said), said[-2000:]))
        finally:
            watch.cancel()
            process.kill()
            process.wait()
            self.cpu = steps.end(name, cpu_of_ended() - before)
        return said


# ---- what each line has to do

def make_demo(walk, command, comment):
    """It builds what it says in the space that it says, and draws README's picture."""
    said = walk.run(command, "/src", mark="Building ")
    contains(said, "demo: ok, on the software GPU")
    assert walk.cpu < DEMO_CPU_S_MAX, walk.cpu
    # How much of it is work depends on the machine's other programs.
    assert len(drawn(said)) == len(drawn(readme())) == 4 and min(drawn(said)) > 0, said
    size = sum(int(walk.root.run("du", "-sm", *folder).split()[0]) * sign for sign, folder in (
        (1, ["/src/build"]), (-1, ["/src/build/cuda"])))
    print("    make demo: %d MB of build output" % size, flush=True)
    assert size < DEMO_MB_MAX and abs(size - megabytes(comment)) <= 0.2 * megabytes(comment), size


def make_check(walk, command, _):
    """Prints what is skipped."""
    said = walk.run(command + " -s", "/src", mark="Building ")
    print(failures(said), end="")
    contains(said.splitlines()[-1], " passed, 0 failed")


def start_daemon(walk, command, uid):
    walk.run(command, HOME, uid, PROGRAMS)
    return walk.root.run("cat", PIPE + "/nvidia-cuda-mps-control.pid").strip()


def clients(walk, uid):
    done = subprocess.run(walk.root.command("mps-control", "ps", uid=uid), capture_output=True, text=True,
                          env=walk.root.environment(PATH=PROGRAMS), timeout=60, check=False)
    return done.stdout


def five_lines(walk, first, uid):
    """Of a user: a daemon, two programs at once, the list of clients, and the end."""
    lines = [command for command, _ in code("Use it")]
    equal(len(lines), 5, lines)
    equal(lines[0], first.partition(" --")[0])
    daemon = start_daemon(walk, first, uid)
    programs = []
    for line, result in (lines[1], "trained\n"), (lines[2], "process1: ok\n"):
        words, = [word for word in REPLACED if word in line]
        programs.append((walk.start(line.replace(words, REPLACED[words]), HOME, uid, PROGRAMS), result))
    names = "python3", "my-program"
    wait_for("both clients", lambda: all(name in clients(walk, uid) for name in names), 60)
    listed = walk.run(lines[3], HOME, uid, PROGRAMS)
    for name in names:
        contains(listed, name)
    for process, result in programs:
        out, _ = process.communicate(timeout=120)
        equal((process.returncode, out), (0, result))
    walk.run(lines[4], HOME, uid, PROGRAMS)
    wait_for("the daemon's end", lambda: walk.root.run(
        "sh", "-c", "[ -e /proc/%s ] || echo gone" % daemon) == "gone\n")


def beside_root(walk, commands, uid):
    """A user beside root's daemon: both commands, without a daemon of the user's own."""
    daemon, = commands_of("a user without a GPU")
    # On another machine: here the directory belongs to the user whose daemon was there before.
    walk.root.run("rm", "-r", PIPE)
    start_daemon(walk, daemon, None)
    check, program = commands
    contains(walk.run(check, HOME, uid, PROGRAMS), "would be a client")
    process = walk.start(program.replace("./my-program", REPLACED["./my-program"]), HOME, uid, PROGRAMS)
    wait_for("the client", lambda: "my-program" in clients(walk, uid), 60)
    equal(process.communicate(timeout=120)[0], "process1: ok\n")
    walk.run("mps-control quit", HOME, None, PROGRAMS)


def operator(walk, commands):
    """Packages, the programs of which come first from now on."""
    make, install, config = commands
    # It says what is missing.
    said = walk.root.run("sh", "-c", "cd /src && " + make, status=2)
    missing, = re.findall(r"as root, (apt-get install .*)", said)
    walk.run(missing, "/src")
    contains(walk.run(make, "/src"), "/mps_")
    walk.run(install, "/src")
    equal(walk.root.run("sh", "-c", "command -v mps-control"), "/usr/bin/mps-control\n")
    equal(walk.root.run("mps-control", "check-config"), config + ": no errors\n")


def walk_release(release):
    with Walk(BareRoot(release)) as walk:
        install, = re.findall(r"`(apt-get update && apt-get install make)`", section("Try it"))
        walk.run(install, "/src")
        for (command, comment), act in zip(code("Try it"), (make_demo, make_check), strict=True):
            act(walk, command, comment)
        walk.root.run("sh", "-c", "cp /src/build/bin/examples/process1 %s/my-program" % HOME)
        with open(walk.root.path + HOME + "/train.py", "w", encoding="utf-8") as file:
            file.write(TRAIN)
        without_gpu, = commands_of("a user without a GPU")
        five_lines(walk, without_gpu, USER)
        beside_root(walk, commands_of("a user beside root's daemon"), USER)
        operator(walk, commands_of("an operator"))


def test_readme():
    """It names these releases."""
    contains(readme(), "Debian 12, 13 and testing")


def test_12():
    walk_release("bookworm")


def test_13():
    walk_release("trixie")


def test_testing():
    walk_release("testing")


if __name__ == "__main__":
    harness.main(globals())
