#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes seeds for fuzz_serve and fuzz_ring from the spec, and for fuzz_daemon from the daemon's
table of commands: tests/fuzz/seeds.py FOLDER.

Each file of FOLDER/serve has every message once, in the spec's order, and then
random messages. Their ids and memory are those that fuzz_serve.c has made, or
that an earlier message makes. The files of FOLDER/ring hold the same messages,
behind the first byte that fuzz_ring.c reads and behind the messages that open
the GPU. Those of FOLDER/daemon are steps as fuzz_daemon.c reads them.
"""

import os
import random
import re
import struct
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(FOLDER), "system"), FOLDER]

import operator_lines  # noqa: E402
import wire  # noqa: E402
from hostile.known import Kernel, Known  # noqa: E402
from hostile.share import Tokens  # noqa: E402
from hostile.manners import Manners  # noqa: E402
from hostile.values import Values  # noqa: E402

FILES = 32
# The IDs that furnish() of fuzz_serve.c creates.
THERE = {"library": [1], "kernel": [1], "array": [1, 2], "stream": [64]}
SIZE = 4096
# Files of subordinate UIDs: no file, nested ranges, root's ranges, too large ones, nonsense.
RANGES = (b"", b"1001:100000:65536\n", b"1000:100000:10\n1001:100003:65536\n100003:165536:9\n",
          b"0:100000:65536\n1002:0:9\n", b"1001:4294967295:2\n1002:100000:4294967295\n",
          b"nobody:100000:1\nx\n:::\n" + b"1" * 90)
# Bytes of a file; `make fuzz' cuts longer files off (-max_len).
FILE_MAX = 8000


def known(dice):
    made = Known(dice, Tokens())
    for kind, numbers in THERE.items():
        made.ids[kind] = list(numbers)
    made.kernels[1] = Kernel(b"kernel", 16)
    made.memory = [(wire.DEVICE_SPACE, SIZE)]
    return made


def messages(seed):
    """Every message once, and then random messages up to FILE_MAX."""
    dice = random.Random(seed)
    there = known(dice)
    values = Values(dice, there, Manners(blocks=True))
    made, waiting = b"", list(wire.SPEC.messages)
    while len(made) < FILE_MAX:
        message = waiting.pop(0) if waiting else dice.choice(wire.SPEC.messages)
        filled = values.fill(message, {})
        words = wire.message(message.name, int(message.is_sync), 1, **filled)
        if len(words) < FILE_MAX / 8:
            made += words
            there.note(message, filled, 0, {})
    return made


def write(folder, name, words):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(words)


class Steps:
    """An input of fuzz_daemon.c."""

    NAMES = re.findall(r"^\tSTEP_(\w+),", wire.read("tests", "fuzz", "fuzz_daemon.c"), re.M)

    def __init__(self, modes=0, failures=0, deaf=0):
        self.words = struct.pack("<BII", modes, failures, deaf)

    def step(self, name, *numbers):
        self.words += bytes([self.NAMES.index(name), *numbers])
        return self

    def line(self, where, text):
        return self.step("LINE", where, len(text), *text.encode())

    def frame(self, where, name, words=b""):
        return self.step("FRAME", where, wire.FRAMES[name].number, len(words), *words)

    def serve(self, which, where, uid=0):
        """A client of that user connects; the server with that number starts and accepts it."""
        self.step("CONNECT", uid, where + 1).frame(where + 1, "hello", b"\7\0\0\0")
        self.step("BE", which, where).frame(where, "server")
        for ordinal in range(2):
            self.frame(where, "device", struct.pack("<IIiIIIQ", ordinal, 2, 0, 132, 8, 90, 1 << 36))
        self.step("STATE", where, 2, 0).step("TIME", 1)
        return self.step("READ", where).step("TIME", 1).step("CONTEXT", where, 0, 1)


def kin_seed(modes):
    """Users with subordinate UIDs and user namespaces connect, start servers and are clients."""
    steps = Steps(modes)
    for number, text in enumerate(RANGES):
        steps.step("RANGES", len(text), *text)
        for who in range(0, 64, 5):
            where = (who + number) % 16
            steps.step("KIN", who, where)
            if who % 2:
                steps.line(where, "start_server -uid 100003")
            else:
                steps.frame(where, "hello", bytes([who, 0, 0, 0, 1]))
        steps.step("BE", number, 15).frame(15, "server").step("STATE", 15, 2, 0).step("TIME", 30)
    return steps.step("LONG", 200).words


def group_seed(modes):
    """Groups are made, changed and removed beside their clients of several users."""
    steps = Steps(modes).step("CONNECT", 0, 15)
    lines = ("create %s -device_pinned_mem_limit 0 512M", "get %s", "list --json",
             "set %s -device_pinned_mem_limit 0 64M -uid 1000", "set %s -device_pinned_mem_limit 0 none",
             "delete %s", "create %s -uid 1001 -active_thread_percentage 25")
    for number, text in enumerate(lines):
        for name in ("a", "b", "team/a"):
            steps.line(15, "group " + (text % name if "%s" in text else text))
        uid = number % 3
        steps.step("CONNECT", uid, 2 * uid + 1).step("MEMBER", 2 * uid + 1, number)
        steps.step("BE", uid, 2 * uid).frame(2 * uid, "server").step("STATE", 2 * uid, 2, 0)
        steps.step("TIME", 1).step("READ", 2 * uid).step("CLIENT", 2 * uid, 1, 0)
        steps.step("CONTEXT", 2 * uid, 0, 0).step("READ", 15)
    return steps.words


def any_step(dice, steps, lines):
    """One step of a hostile mixture."""
    where, other = dice.randrange(16), dice.randrange(256)
    more = ["FRAME", "STATE", "CLIENT", "CONTEXT", "CONNECT", "BE"]
    name = dice.choice(Steps.NAMES + ["LINE"] * 6 + 2 * more)
    if name == "LINE":
        steps.line(where, dice.choice(lines)[:200])
    elif name == "FRAME":
        frame = dice.choice(list(wire.FRAMES))
        steps.frame(where, frame, dice.choice((b"", bytes(8), dice.randbytes(40), bytes(255))))
    elif name == "SEND":
        text = dice.choice((b"\x15\n", b"\4\n", b"x" * 250, b"get_server_l", b"\0\1", b"\r\n"))
        steps.step(name, where, len(text), *text)
    elif name == "OUTPUT":
        steps.step(name, other % 4, 6, *b"hi\x1b\n\xff\n")
    elif name == "KERNEL":
        text = dice.choice((b"NVRM: Xid (PCI:0000:01:00): 31, pid=1073742824, name=x, Ch 00000008, "
                            b"intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
                            b"0x2000_00000000.\n", b"hello\n", b"\xff\n", b"6,1,1,-;NVRM"))
        steps.step(name, len(text), *text)
    elif name == "MEMBER":
        steps.step(name, where, other)
    elif name in ("STATE", "CLIENT", "CONTEXT"):
        steps.step(name, where, dice.randrange(6), dice.choice((0, 0, 1, 255)))
    elif name == "RANGES":
        text = dice.choice(RANGES)
        steps.step(name, len(text), *text)
    elif name in ("CONNECT", "BE", "EXIT", "KIN"):
        steps.step(name, other % 8, where)
    else:
        steps.step(name, where if name in ("READ", "CLOSE", "SHUT", "PASS") else other % 30)


def daemon_seeds():
    """name -> bytes."""
    made = {}
    table = operator_lines.table()
    for number, (name, usage) in enumerate(sorted(table.items())):
        dice = random.Random(name)
        for modes in (0, 4):
            steps = Steps(modes).serve(0, 0, 1).step("CONNECT", 0, 4).line(4, "\x15")
            for uid in range(3):
                steps.step("CONNECT", uid, 5 + uid)
                for pid in ("1073741824", "1"):
                    known = {"PID": [pid], "UID": ["0", "1000", "1001"]}
                    steps.line(5 + uid, operator_lines.line_of(dice, name, usage, known))
                steps.step("READ", 5 + uid)
            # Clients that wait for the GPUs of the machine.
            for probe in range(1, 4):
                steps.step("GPU", probe).step("EXIT", probe, 0)
            made["command_%d_%d" % (number, modes)] = steps.words
    for modes in (0, 1, 4, 5):
        made["kin_%d" % modes] = kin_seed(modes)
        made["groups_%d" % modes] = group_seed(modes)
    for seed in range(FILES):
        dice = random.Random(seed)
        lines = [operator_lines.line_of(dice, *dice.choice(sorted(table.items())),
                                        {"PID": ["1073741824", "1073741825"]}) for _ in range(20)]
        steps = Steps(dice.randrange(256), 0, dice.choice((0, 0xff)))
        for which in range(dice.randrange(4)):
            steps.serve(which, 2 * which, dice.randrange(3))
        for _ in range(dice.randint(20, 200)):
            any_step(dice, steps, lines)
        made["steps_%d" % seed] = steps.words
    return made


def main():
    opened = wire.message("device_open", 1) + wire.message("memory_alloc", 1, size=SIZE)
    for seed in range(FILES):
        words = messages(seed)
        write(os.path.join(sys.argv[1], "serve"), "spec_%d" % seed, words)
        # Its first byte is even: the client reports the right number of bytes.
        write(os.path.join(sys.argv[1], "ring"), "spec_%d" % seed, b"\0" + opened + words)
    for name, words in daemon_seeds().items():
        write(os.path.join(sys.argv[1], "daemon"), name, words)


if __name__ == "__main__":
    main()
