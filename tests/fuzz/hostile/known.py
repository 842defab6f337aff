# SPDX-License-Identifier: Apache-2.0
"""The objects that a hostile client knows: ids, memory, kernels, tokens.

The client learns them from messages and answers, by the spec alone. A number that
has the name of a handle is the id of a new object. `out u64 address' is memory.
A message whose name ends with one of ENDINGS ends the objects that it names.
"""

import wire

ENDINGS = ("destroy", "unload", "release", "end", "free", "close", "unmap")
KEPT = 24


class Kernel:
    def __init__(self, name, size=64):
        self.name, self.size = name, size  # bytes of its parameters


class Known:
    """The objects of one session, and the `tokens' of all sessions."""

    def __init__(self, dice, tokens):
        self.dice, self.tokens = dice, tokens
        self.ids = {kind: [] for kind in wire.SPEC.handles}
        self.gone = {kind: [] for kind in wire.SPEC.handles}
        self.memory = []  # (address, size)
        self.kernels = {}
        self.names = ()   # of the kernels in the last library that listed them
        self.n_devices = 1

    # ---- learning

    def note(self, message, values, result, said):
        """Learns from a message and its answer."""
        if result:
            return
        is_end = message.name.rpartition("_")[2] in ENDINGS
        for field in message.of(True, False):
            kind = field.type if field.kind == "handle" else field.name
            if kind not in self.ids:
                continue
            if field.kind == "handle" and is_end:
                self.forget(kind, values[field.name])
            elif field.kind == "scalar" and field.name == kind:
                self.add(kind, values[field.name])
        if "kernel" in values and "name" in values:
            self.kernels[values["kernel"]] = Kernel(values["name"])
        if "param_bytes" in said:
            self.kernels.setdefault(values["kernel"], Kernel(b"")).size = said["param_bytes"]
        if is_end and "address" in values:
            self.memory = [m for m in self.memory if m[0] != values["address"]]
        if "address" in said:
            size = said.get("size") or values.get("size") or said.get("region_size") or 4096
            self.add_memory(said["address"], size)
        if isinstance(said.get("token"), tuple):
            self.tokens.put(said["token"])

    def add(self, kind, number):
        if number not in self.ids[kind]:
            self.ids[kind].append(number)
        if len(self.ids[kind]) > 8 * KEPT:
            del self.ids[kind][0]

    def forget(self, kind, number):
        if number in self.ids[kind]:
            self.ids[kind].remove(number)
        self.gone[kind] = self.gone[kind][-KEPT:] + [number]

    def add_memory(self, address, size):
        self.memory = self.memory[-KEPT:] + [(address, size)]

    # ---- picking

    def id(self, kind):
        """An id, mostly of an object that exists."""
        dice = self.dice
        # The NULL streams have the devices' numbers.
        there = self.ids[kind] + (list(range(self.n_devices)) if kind == "stream" else [])
        if there and dice.random() < 0.93:
            return dice.choice(there)
        if self.gone[kind] and dice.random() < 0.5:
            return dice.choice(self.gone[kind])
        return dice.choice((0, 1, 2, 63, 64, 1000, (1 << 20) - 1, 1 << 20, 0xffffffff))

    def new_id(self, kind, most):
        """An id for a new object, mostly a free one."""
        dice = self.dice
        if dice.random() < 0.05:
            return dice.choice((0, most, dice.choice(self.ids[kind] or [0])))
        least = wire.SPEC.limits["DEVICES_MAX"] if kind == "stream" else 0
        while True:
            number = dice.randrange(least, min(most + 1, least + dice.choice((16, 64, 256))))
            if number not in self.ids[kind] or dice.random() < 0.1:
                return number

    def span(self):
        """Address and size of memory, mostly within the session's own or near its ends."""
        dice = self.dice
        if self.memory and dice.random() < 0.9:
            address, size = dice.choice(self.memory)
            if dice.random() < 0.5:
                return address, size
            offset = dice.choice((0, 8, 256, 4096, size // 2, size - 8, size, size + 4096, 1, -1))
            return (address + offset) & ((1 << 64) - 1), max(size - offset, 0)
        address = dice.choice((0, 8, wire.DEVICE_SPACE, wire.DEVICE_SPACE + 7 * wire.VA_WINDOW,
                               wire.HOST_SPACE, wire.HOST_SPACE_END, 1 << 63, (1 << 64) - 4096,
                               dice.getrandbits(64)))
        return address, dice.choice((8, 4096, 1 << 20))
