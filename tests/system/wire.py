# SPDX-License-Identifier: Apache-2.0
"""The layout of shared memory, frames and messages, taken from the headers and the spec.

    wire.frame("image", 1, size=4096)
    wire.message("seqno_write", stream=0, value=7)
    wire.answer("memory_alloc", body)["address"]

This module repeats no size, offset or field: the compiler computes sizes and offsets, and the
parser of the generator reads the spec.
"""

import functools
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile

import harness

sys.path.insert(0, os.path.join(harness.ROOT, "proto"))

from gen.spec import HEAD_SIZE, layout, padded, read_spec  # noqa: E402

INCLUDE = os.path.join(harness.ROOT, "include")
# struct code of each type of the spec; a handle and a devptr are sent as ID and address.
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q", "f32": "f",
         "f64": "d"}
# Constant expressions over layout.h, and their names in this module.
NUMBERS = {
    "RING_DATA": "RING_DATA_OFFSET", "RING_SIZE": "RING_SIZE", "RING_BYTES": "RING_BYTES",
    "STAGING_SIZE": "STAGING_SIZE", "MESSAGE_MAX": "MESSAGE_MAX", "REPLY_MAX": "REPLY_MAX",
    "REPLY_SLOTS": "REPLY_SLOTS", "STREAMS_MAX": "STREAMS_MAX", "GRAPH_CALLS": "GRAPH_CALLS",
    "WAITING": "offsetof(struct ring_control, waiting)",
    "DONE": "offsetof(struct ring_control, done)",
    "GRAPH_DONE": "offsetof(struct ring_control, graph_done)",
    "REPLIES": "offsetof(struct page, reply)", "ASKED": "offsetof(struct page, asked)",
    "GRAPH_ASKED": "offsetof(struct page, graph_asked)", "HEAD": "offsetof(struct page, head)",
    "TIMELINE": "offsetof(struct page, timeline)", "FAULT": "offsetof(struct page, fault)",
    "N_DEVICES": "offsetof(struct page, n_devices)", "DEVICE_SPACE": "DEVICE_SPACE",
    "HOST_SPACE": "HOST_SPACE", "HOST_PIECE": "HOST_PIECE",
    "HOST_SPACE_END": "HOST_SPACE_END", "VA_WINDOW": "VA_WINDOW",
    "FRAME_VERSION": "FRAME_VERSION", "HEAD_OF_FRAME": "sizeof(struct frame_head)",
}


def read(*names):
    with open(os.path.join(harness.ROOT, *names), encoding="utf-8") as file:
        return file.read()


# ---- layouts from the compiler


def frame_structs():
    """struct name -> names of its members, from frame.h."""
    return {name: re.findall(r"^\t(?:const )?(?:struct )?\w+ (\w+)(?:\[[^\]]*\])?;", body, re.M)
            for name, body in re.findall(r"^struct (frame_\w+) \{\n(.*?)^\};",
                                         read("include", "frame.h"), re.M | re.S)
            if "head;" in body and name != "frame_reader"}


def compiled(expressions):
    """The values of constant expressions over layout.h and frame.h."""
    lines = "".join('\tprintf("%%llu\\n", (unsigned long long)(%s));\n' % one
                    for one in expressions)
    source = ("#include <stdio.h>\n#include <stddef.h>\n#include \"layout.h\"\n"
              "#include \"frame.h\"\nint main(void)\n{\n%s}\n" % lines)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layout")
        subprocess.run(shlex.split(os.environ.get("CC", "cc"))
                       + ["-D_GNU_SOURCE", "-iquote", INCLUDE, "-x", "c", "-", "-o", program],
                       input=source, text=True, check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [int(number) for number in said.split()]


class Frame:
    """A type of frame: its number, size and members (offset, size)."""

    def __init__(self, number, size, n_fds, members):
        self.number, self.size, self.n_fds, self.members = number, size, n_fds, members


def read_all():
    """The values of NUMBERS, and the frames by name: FRAME_HELLO is `hello'."""
    structs = frame_structs()
    shapes = re.findall(r"\[FRAME_(\w+)\] = \{sizeof\(struct (\w+)\), *\w+, *(\w+)\}",
                        read("proto", "frame.c"))
    wanted = list(NUMBERS.values())
    for name, kind, n_fds in shapes:
        wanted += ["FRAME_" + name, "sizeof(struct %s)" % kind, n_fds]
        for member in structs[kind]:
            wanted += ["offsetof(struct %s, %s)" % (kind, member),
                       "sizeof(((struct %s *)0)->%s)" % (kind, member)]
    found = iter(compiled(wanted))
    numbers = {name: next(found) for name in NUMBERS}
    frames = {name.lower(): Frame(next(found), next(found), next(found),
                                  {member: (next(found), next(found)) for member in structs[kind]})
              for name, kind, _ in shapes}
    return numbers, frames


_NUMBERS, FRAMES = read_all()
FRAME_VERSION = _NUMBERS["FRAME_VERSION"]
globals().update(_NUMBERS)


@functools.cache
def hash_named(name):
    with open(os.path.join(harness.BUILD, "gen", "spec_hash.h"), encoding="utf-8") as file:
        return int(re.search(name + r" (0x[0-9a-f]+)", file.read()).group(1), 16)


def spec_hash():
    """Which a client, its server and the daemon have in common."""
    return hash_named("SPEC_HASH")


def move_hash():
    """Which the daemon and servers, between which clients move, have in common."""
    return hash_named("MOVE_HASH")


# ---- frames


def frame(name, n_fds=0, /, **fields):
    """A frame with these members; all others are zero. Texts are bytes."""
    kind = FRAMES[name]
    made = bytearray(kind.size)
    struct.pack_into("<BBHI", made, 0, 0, kind.number, n_fds, kind.size)
    for member, value in fields.items():
        at, size = kind.members[member]
        made[at:at + size] = (value.ljust(size, b"\0")[:size] if isinstance(value, bytes)
                              else (value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    return bytes(made)


def hello(**fields):
    return frame("hello", **dict({"version": FRAME_VERSION, "spec_hash": spec_hash()}, **fields))


def variable(text):
    """An environment variable, in the layout of HELLO."""
    return struct.pack("<I", 1) + text


def frame_member(words, name, member):
    """A number or a text of a received frame."""
    at, size = FRAMES[name].members[member]
    part = words[at:at + size]
    return int.from_bytes(part, "little") if size <= 8 else part.split(b"\0")[0]


def frame_name(words):
    """The type of a received frame; "" if there is none."""
    return next((name for name, kind in FRAMES.items() if words[1:2] == bytes([kind.number])), "")


# ---- messages


class Body:
    """The fixed part of a message or a reply, and its tails."""

    def __init__(self, spec, fields, start):
        members, self.size = layout(spec, fields, start)
        text, self.fields, self.lengths = "<", [], []
        for kind, type_name, name, count, _ in members:
            if kind == "pad":
                text += "x" * spec.size_of(type_name)[0]
                continue
            text += "%d%s" % (count, CODES[type_name])
            (self.fields if kind == "field" else self.lengths).append((name, count))
        self.fixed = struct.Struct(text)
        self.tails = [one for one in fields if one.is_tail]


class Wire:
    """A message as bytes."""

    def __init__(self, spec, message):
        self.message = message
        self.body = Body(spec, [f for f in message.fields if f.is_in], HEAD_SIZE)
        self.reply = Body(spec, [f for f in message.fields if not f.is_in], 0)


SPEC = read_spec(os.path.join(harness.ROOT, "proto", "cuda.spec"), "cuda.spec")
WIRES = {message.name: Wire(SPEC, message) for message in SPEC.messages}
ELEMENTS = {name: struct.Struct("<" + "".join(CODES[kind] for kind, _ in made.fields))
            for name, made in SPEC.structs.items()}
ELEMENTS.update({name: struct.Struct("<" + code) for name, code in CODES.items()})


def tail_bytes(field, value):
    """(elements, bytes) of a tail: raw bytes, a text without its NUL, or a list of elements."""
    if field.kind == "string":
        return len(value) + 1, value + b"\0"
    if field.kind == "bytes":
        return len(value), value
    element = ELEMENTS[field.type]
    made = b"".join(element.pack(*one) if isinstance(one, tuple) else element.pack(one)
                    for one in value)
    return len(value), made


def message(name, reply=0, seq=1, /, **values):
    """A message. Fields that are not given are zero or empty."""
    wire = WIRES[name]
    body = wire.body
    numbers = []
    for field, count in body.fields:
        value = values.get(field, 0 if count == 1 else (0,) * count)
        numbers.extend((value,) if count == 1 else value)
    tails = [tail_bytes(field, values.get(field.name, b"" if field.kind != "list" else ()))
             for field in body.tails]
    made = body.fixed.pack(*numbers, *(n for n, _ in tails))
    made += b"".join(words.ljust(padded(len(words)), b"\0") for _, words in tails)
    return struct.pack("<IHHII", HEAD_SIZE + len(made), wire.message.op, reply, seq, 0) + made


def answer(name, words):
    """The members of a reply; its tail as bytes."""
    body = WIRES[name].reply
    if not body.size or len(words) < body.size:
        return {}
    numbers = body.fixed.unpack_from(words)
    found, at = {}, 0
    for field, count in body.fields:
        found[field] = numbers[at] if count == 1 else numbers[at:at + count]
        at += count
    for field in body.tails:
        size = numbers[at] * ELEMENTS[field.type].size
        found[field.name] = words[body.size:body.size + size]
    return found
