#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""Completion of mps-control, mps-top and mps-run in bash and zsh: all that the help names is offered."""

import glob
import os
import re
import subprocess

import harness
import mps
from harness import contains, equal

FOLDER = harness.ROOT + "/daemon/dist/completion/"
RUN = mps.BUILD + "/bin/mps-run"
TOP = mps.BUILD + "/bin/mps-top"

BASH = """
source "$1"; function=$2; shift 2
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$function
printf '%s\\n' "${COMPREPLY[@]}"
"""

# What zsh's completion system would define.
ZSH = """
compadd() {
	if [[ $1 == -a ]]; then print -rl -- ${(P)2}; else shift; print -rl -- "$@"; fi
}
_describe() { print -rl -- ${${(P)2}%%:*}; }
_command_names() { print -r -- COMMANDS; }
_files() { print -r -- FILES; }
_normal() { print -r -- NORMAL $words; }
file=$1; shift
words=("$@"); CURRENT=$#
source $file
"""


def file_of(program):
    """The completion of mps-top is in the file of mps-control."""
    return os.path.basename(program).replace("mps-top", "mps-control")


def bash(program, *words, env=None):
    """What bash offers for the last word."""
    name = os.path.basename(program)
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", FOLDER + file_of(program) + ".bash",
                           "_" + name.replace("-", "_"), program, *words], capture_output=True,
                          text=True, env=env, timeout=60, check=False)
    equal(done.stderr, "")
    return set(done.stdout.split())


def zsh(program, *words, env=None):
    """What zsh offers, whatever the last word begins with: zsh itself filters."""
    shell = mps.need_program("zsh")
    done = subprocess.run([shell, "-f", "-c", ZSH, "zsh", FOLDER + "_" + file_of(program),
                           program, *words], capture_output=True, text=True, env=env, timeout=60,
                          check=False)
    equal(done.stderr, "")
    return set(done.stdout.split())


def help_text():
    return subprocess.run([mps.CONTROL, "-h"], capture_output=True, text=True, check=True).stdout


def usages():
    """command -> usage, from the table of commands in the daemon's source."""
    with open(harness.ROOT + "/daemon/command/command.c", encoding="utf-8") as file:
        found = re.findall(r'^\t\{"(\w+)",\s*"([^"]*)"', file.read(), re.M)
    assert len(found) > 20, found
    return dict(found)


def check_commands(offer):
    """Options, commands and the literal words of their usages."""
    first = offer(mps.CONTROL, "")
    for name in usages():
        assert name in first, "%s is not offered" % name
    assert {"--output", "--library"} <= offer(mps.CONTROL, "cdi", "")
    options = set(re.findall(r"(?<= )--?[a-zA-Z][-\w]*(?=[ ,])",
                             "\n".join(line for line in help_text().splitlines()
                                       if re.match(r" +-", line))))
    assert {"-d", "--strict", "--protocol"} <= options, options
    equal(options - first, set(), "options that are not offered")
    for name, usage in usages().items():
        words = offer(mps.CONTROL, name, "")
        for word in re.findall(r"(?<![\w-])(-{1,2}[a-z][\w-]*|[a-z]\w+)(?!\w)", usage):
            assert word in words, "%s: %s is not offered: %s" % (name, word, words)
        equal(offer(mps.CONTROL, "--strict", name, ""), words)
    equal(offer(mps.CONTROL, "-p", ""), {"2", "3"})
    assert {"list", "get", "terminate", "--server=", "--format="} <= offer(mps.CONTROL, "client", "")
    assert {"check-config", "check-directory", "cdi", "top"} <= first, first
    equal(offer(mps.CONTROL, "-c", "mps.conf", "group", ""), offer(mps.CONTROL, "group", ""))
    equal(offer(mps.CONTROL, "top", ""), {"--once", "--json", "-d", "-n"})
    equal(offer(mps.CONTROL, "-m", ""), {"off"})
    equal(offer(mps.CONTROL, "-d", "-m", "9400", ""), first)
    contains(" ".join(offer(mps.CONTROL, "group", "create", "x", "")), "-device_pinned_mem_limit")


def check_answers(offer):
    """What a running daemon knows: its servers, clients and groups."""
    with mps.Service() as service:
        service.run_ok("process1")
        service.command("group", "create", "team")
        assert str(service.server()) in offer(mps.CONTROL, "shutdown_server", "", env=service.env)
        assert "team" in offer(mps.CONTROL, "group", "delete", "", env=service.env)
        process = service.popen("process1", "--seconds", "20")
        # `ps' has it when it has opened a GPU.
        harness.wait_for("the client", lambda: str(process.pid) in service.command("ps").stdout)
        assert str(process.pid) in offer(mps.CONTROL, "terminate_client", "1", "", env=service.env)
    # Without a daemon, its front end's message is not offered.
    equal(offer(mps.CONTROL, "get_server_status", "", env=service.env), set())


def test_bash():
    check_commands(bash)
    equal({w for w in bash(mps.CONTROL, "set_d")}, {w for w in usages() if w.startswith("set_d")})
    check_answers(bash)
    for words in (["-c"], ["--config"], ["check-config"], ["-c", "x", "check-config"]):
        equal(bash(mps.CONTROL, *words, FOLDER + "_mps-c"), {FOLDER + "_mps-control"})


def test_zsh():
    check_commands(zsh)
    check_answers(zsh)
    for words in (["-c"], ["--config"], ["check-config"], ["-c", "x", "check-config"]):
        equal(zsh(mps.CONTROL, *words, ""), {"FILES"})


def top_options():
    """Those of the usage that a wrong option prints."""
    said = subprocess.run([TOP, "-x"], capture_output=True, text=True, check=False).stderr
    found = set(re.findall(r"(?<=\[)--?\w+", said))
    assert len(found) >= 4, said
    return found


def check_top(offer):
    equal(offer(TOP, ""), top_options())
    equal(offer(TOP, "--once", ""), top_options())


def test_top_bash():
    check_top(bash)


def test_top_zsh():
    check_top(zsh)


def test_every_program_is_completed():
    """But for those that the daemon starts."""
    found = {os.path.basename(path) for path in glob.glob(mps.BUILD + "/bin/mps-*")}
    for files, pattern in (FOLDER + "*.bash", r"^complete -F \w+ (.*)$"), (FOLDER + "_*", r"^#compdef (.*)$"):
        completed = set()
        for path in glob.glob(files):
            with open(path, encoding="utf-8") as file:
                completed |= set(" ".join(re.findall(pattern, file.read(), re.M)).split())
        equal(found - completed, {"mps-server", "mps-exporter"}, files)


def run_options():
    text = subprocess.run([RUN, "--help"], capture_output=True, text=True, check=True).stdout
    found = set(re.findall(r"^  (?:(-\w), )?(--\w+) ", text, re.M))
    assert len(found) >= 3, text
    return {option for pair in found for option in pair if option}


def test_run_bash():
    equal(bash(RUN, "-"), run_options())
    assert "sh" in bash(RUN, "sh") and "sh" in bash(RUN, "--check", "--software", "sh")


def test_run_zsh():
    equal(zsh(RUN, "-"), run_options())
    for words in ([""], ["--check", ""], ["--check", "--software", ""]):
        equal(zsh(RUN, *words), {"COMMANDS"})
    equal(zsh(RUN, "--check", "ls", "-"), {"NORMAL", "ls", "-"})


if __name__ == "__main__":
    harness.main(globals())
