# SPDX-License-Identifier: Apache-2.0
"""Values for the fields of a message: within the rules of the spec, at their edge, beyond.

A new message needs no change here. `hints' choose values for fields whose random
values would mostly be refused. They apply by the field's name, to new messages too.
"""

import wire
from . import images
from .manners import bound, field_of

U64 = (1 << 64) - 1
SMALL = (0, 1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64)
MIDDLE = (100, 128, 255, 256, 512, 1000, 1024, 4095, 4096, 4097, 65535, 65536, 1 << 20, 2 << 20,
          4 << 20)
LARGE = (1 << 24, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 34,
         1 << 40, 1 << 44, 1 << 47, 1 << 62, (1 << 63) - 1, 1 << 63, U64 - 4095, U64 - 7, U64)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e38, float("inf"), float("nan"))
# CUarray_format: formats of one plane, some others, and one that does not exist.
FORMATS = (0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x10, 0x20, 0xc0, 0xc2, 0xc8, 0x91, 0xb0, 0)
# CUstreamBatchMemOpType: writes, a barrier, unknown operations; waits.
WRITES, WAITS = (2, 5, 2, 5, 6, 3, 9), (1, 4)
# CUjit_option: options with numbers, options with addresses of buffers, unknown options.
JIT_OPTIONS = (0, 1, 2, 7, 8, 9, 11, 12, 13, 14, 15, 3, 4, 5, 6, 10, 30, 99)
ADDRESSES = ("address", "dst", "src", "after", "heap")
# Most messages work on no more bytes than this.
WORK_MAX = 4 << 20


class Values:
    def __init__(self, dice, known, manners):
        self.dice, self.known, self.manners = dice, known, manners
        self.hints = {
            "device": self.device, "format": lambda: self.of(FORMATS),
            "priority": lambda: self.of((0, 0, 0, -1, -5, 1, 5, -(1 << 31), (1 << 31) - 1)),
            "grid": self.grid, "block": self.block, "params": self.params, "offset": self.offset,
            "pad": lambda: 0, "zero": lambda: 0, "cluster": lambda: self.of((0, 1, 1, 2, 2, 4)),
            "name": self.name, "value": self.value, "from": self.node, "to": self.node,
            "attribute": lambda: self.of(range(16)), "slots": lambda: 1,
        }

    def of(self, some):
        return self.dice.choice(some)

    # ---- a message

    def fill(self, message, given):
        """Values of all fields that go to the server. The caller has chosen those in `given'."""
        values = dict(given)
        for field in message.of(True, False):
            if field.kind == "devptr" and field.name not in values:
                values[field.name], room = self.known.span()
                if field.length not in values:
                    values[field.length] = self.within(message, field.length, room)
        for field in message.of(True, False):
            if field.name not in values:
                values[field.name] = self.number(field) if field.kind != "array" else (
                    self.numbers(field))
        for field in message.of(True, True):
            if field.name not in values:
                values[field.name] = self.tail(field, values)
        if not self.manners.harms:
            bound(message, values, given)
        return values

    def within(self, message, name, room):
        size = self.of((room, room, room // 2, 1, 4, 8, 64, 4096, room + 1))
        return self.ruled(field_of(message, name),
                          min(size, WORK_MAX) if self.dice.random() < 0.9 else size)

    def numbers(self, field):
        if field.name == "token" and field.count == 2:
            return self.token()
        return tuple(self.number(field) for _ in range(field.count))

    def number(self, field):
        dice, known = self.dice, self.known
        if field.kind == "handle":
            return self.handle(field.type)
        if field.type in ("f32", "f64"):
            return self.of(FLOATS)
        if field.name in known.ids and field.type == "u32":
            return self.ruled(field, known.new_id(field.name, field.rules.get("max", 1 << 20)))
        if field.name in ADDRESSES and field.type == "u64":
            return known.span()[0]
        hint = self.hints.get(field.name)
        if hint and dice.random() < 0.97:
            return self.ruled(field, hint())
        return self.ruled(field, self.amount(field))

    def amount(self, field):
        """A number, often small or at the edge of the rules."""
        dice, rules = self.dice, field.rules
        if "in" in rules:
            return self.of(rules["in"])
        if "mask" in rules:
            return dice.getrandbits(32) & rules["mask"] if dice.random() < 0.7 else 0
        if ("min" in rules or "max" in rules) and dice.random() < 0.2:
            return self.of([rules[edge] for edge in ("min", "max") if edge in rules])
        if field.rules.get("max", U64) < 4096 and dice.random() < 0.5:
            return dice.randrange(rules.get("min", 0), rules["max"] + 1)
        which = dice.random()
        return self.of(SMALL if which < 0.6 else MIDDLE if which < 0.92 else LARGE)

    def ruled(self, field, value):
        """The nearest number that the rules of the field allow."""
        rules = field.rules
        bits = 8 * wire.SPEC.size_of(field.type)[0] if field.type in wire.CODES else 32
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if field.type[0] == "i" else (
            0, (1 << bits) - 1)
        if "in" in rules:
            return value if value in rules["in"] else self.of(rules["in"])
        if "mask" in rules:
            return value & rules["mask"]
        return min(max(value, rules.get("min", low)), rules.get("max", high))

    def break_rule(self, message, values):
        """Sets one number to a value just beyond its rules."""
        fields = [f for f in message.of(True, False) if f.rules and f.kind == "scalar"]
        if not fields:
            return
        field = self.of(fields)
        rules = field.rules
        if "max" in rules:
            values[field.name] = rules["max"] + 1
        elif "min" in rules:
            values[field.name] = rules["min"] - 1
        else:
            values[field.name] = rules["mask"] + 1 if "mask" in rules else max(rules["in"]) + 1

    # ---- tails

    def tail(self, field, values):
        dice, most = self.dice, field.rules["max"]
        if field.kind == "string":
            return self.name()[:most - 1]
        if field.kind == "bytes":
            return self.params(values.get("kernel"))[:most]
        least = field.rules.get("min", 0)
        n = self.of((0, 1, 1, 2, 3, 5, 16, most if dice.random() < 0.05 else 4))
        n = min(max(n, least), most, 60000 // wire.ELEMENTS[field.type].size)
        if field.type not in wire.SPEC.structs:
            return [self.of((0, 0, 1, 2, 3, 256, 257)) & 0xff if field.type == "u8"
                    else self.of((0, 1, 2, 3, 256)) for _ in range(n)]
        return [self.element(field.type) for _ in range(n)]

    def element(self, name):
        return tuple(self.member(name, kind, member)
                     for kind, member in wire.SPEC.structs[name].fields)

    def member(self, struct_name, kind, name):
        if kind in ("f32", "f64"):
            return self.of(FLOATS)
        if name in ADDRESSES:
            return self.known.span()[0] & ~self.of((0, 7, 7, 7)) & U64
        bits = 8 * wire.SPEC.size_of(kind)[0]
        if struct_name == "memory_op" and name == "operation":
            return self.of(WAITS) if self.manners.blocks and self.dice.random() < 0.2 else (
                self.of(WRITES))
        if struct_name == "jit_option" and name == "name":
            return self.of(JIT_OPTIONS)
        if name in self.hints and name not in ("value", "name"):
            return self.hints[name]() & ((1 << bits) - 1)
        return self.of((0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 8, 16, (1 << bits) - 1)) & ((1 << bits) - 1)

    # ---- hints

    def handle(self, kind):
        """An id of an object. A client that must not harm picks a quiet kernel."""
        if kind == "kernel" and not self.manners.harms:
            quiet = [number for number, kernel in self.known.kernels.items()
                     if kernel.name in images.QUIET_KERNELS]
            if quiet and self.dice.random() < 0.9:
                return self.of(quiet)
        return self.known.id(kind)

    def device(self):
        return self.of((0,) * 6 + tuple(range(self.known.n_devices)) * 2
                       + (self.known.n_devices, 63))

    def token(self):
        return (self.known.tokens.some(self.dice) if self.dice.random() < 0.9
                else (self.dice.getrandbits(64), 0))

    def node(self):
        return self.of((0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 0xffffffff))

    def grid(self):
        return self.of((1, 1, 1, 2, 4)) if self.dice.random() < 0.95 else self.of(
            (65535, 65536, (1 << 31) - 1, 1 << 31, 0xffffffff))

    def block(self):
        return self.of((1, 1, 1, 2, 4, 8)) if self.dice.random() < 0.95 else self.of(
            (33, 64, 1024, 1025, 0xffffffff))

    def offset(self):
        return self.of((0, 0, 8, 4096, (1 << 20) - 4096, 1 << 20, wire.STAGING_SIZE - 4096,
                        wire.STAGING_SIZE, 12287, 12288, 1 << 61))

    def value(self):
        return self.of(SMALL + MIDDLE + LARGE[:4])

    def name(self):
        names = images.QUIET_KERNELS + images.QUIET_GLOBALS + images.MANAGED_GLOBALS
        if self.manners.harms:
            names += images.LOUD_KERNELS + self.known.names
        if self.dice.random() < 0.9:
            return self.of(names)
        return self.of((b"", b"x" * 300, b"%s%n\x1b[2J", b"a" * 4094, b"\xff\xfe", b"h_empty "))

    def params(self, kernel=None):
        known = self.known.kernels.get(kernel)
        size = known.size if known and self.dice.random() < 0.9 else self.of(
            (0, 4, 8, 12, 16, 64, 100, 4096, 32764))
        words = b"".join(self.known.span()[0].to_bytes(8, "little")
                         for _ in range(min(size, 64) // 8))
        return words.ljust(size, self.of((b"\0", b"\1", b"\xff")))
