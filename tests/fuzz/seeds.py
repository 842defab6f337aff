#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes seeds for fuzz_serve and fuzz_ring from the spec: tests/fuzz/seeds.py FOLDER.

Each file of FOLDER/serve has every message once, in the spec's order, and then
random messages. Their ids and memory are those that fuzz_serve.c has made, or
that an earlier message makes. The files of FOLDER/ring hold the same messages,
behind the first byte that fuzz_ring.c reads and behind the messages that open
the GPU.
"""

import os
import random
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(FOLDER), "system"), FOLDER]

import wire  # noqa: E402
from hostile.known import Kernel, Known  # noqa: E402
from hostile.share import Tokens  # noqa: E402
from hostile.manners import Manners  # noqa: E402
from hostile.values import Values  # noqa: E402

FILES = 32
# The ids that furnish() of fuzz_serve.c gives.
THERE = {"library": [1], "kernel": [1], "array": [1, 2], "stream": [64]}
SIZE = 4096
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
    values = Values(dice, there, Manners(stands=True))
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


def main():
    opened = wire.message("device_open", 1) + wire.message("memory_alloc", 1, size=SIZE)
    for seed in range(FILES):
        words = messages(seed)
        write(os.path.join(sys.argv[1], "serve"), "spec_%d" % seed, words)
        # Its first byte is even: the client tells the truth about how much it placed.
        write(os.path.join(sys.argv[1], "ring"), "spec_%d" % seed, b"\0" + opened + words)


if __name__ == "__main__":
    main()
