# SPDX-License-Identifier: Apache-2.0
"""How far a hostile client goes.

A hostile client may break any rule of the protocol. But natively, too, a program
can fill the memory of the GPU, keep the GPU busy, or make it fault, and then all
clients of the server suffer (docs/reliability.md, What is not promised). Where good
programs of the same user must succeed, hostile clients keep the bounds below.
"""

from dataclasses import dataclass

# CUmemAccess_flags for reading and writing.
READ_WRITE = 3
# All clients share the limits of the context. A limit that a client raises stays high until that
# client has left.
LIMIT_MAX = 1 << 20
# Of one launch and of one request for memory.
THREADS_MAX = 256
BYTES_MAX = 4 << 20
# CUgraphConditionalNodeType
IF, WHILE = 0, 1
# No GPU has so much: requests from this size on are refused, and affect no other client.
ABSURD = 1 << 40
SIZES = ("width", "height", "depth", "size", "count", "rows", "levels")


@dataclass
class Manners:
    harms: bool = False   # kernels fault or never end; memory has no bound
    blocks: bool = False  # streams wait for semaphores that are never written
    races: float = 0.15   # share of sessions in which another process writes into the ring
    rude: float = 0.3     # share of sessions that break rules which cost the connection


def field_of(message, name):
    return next(field for field in message.fields if field.name == name)


def bound(message, values, given):
    """Bounds values that could harm neighbours, except those that a scene has given."""
    for name in SIZES:
        if name in values and name not in given and message.is_sync and (
                BYTES_MAX < values[name] < ABSURD):
            values[name] = min(BYTES_MAX, field_of(message, name).rules.get("max", BYTES_MAX))
    if "limit" in values and "value" in values:
        values["value"] = min(values["value"], LIMIT_MAX)
    # Work on memory that the GPU must not access, or only read, is a fault.
    if "flags" in values and 0 in field_of(message, "flags").rules.get("in", ()):
        values["flags"] = READ_WRITE
    # A loop whose kernels do not set its condition never ends, like an endless kernel.
    if message.name == "graph_conditional" and values["type"] == WHILE:
        values["type"] = IF
    if "format" in values and "height" in values:
        bound_array(values)
    if "grid" in values:
        bound_launch(values)


def bound_array(values):
    """Bounds an array to some MiB, unless no GPU has so much."""
    n = 16  # bytes of an element, at most
    for side in ("width", "height", "depth"):
        n *= max(values.get(side, 1), 1)
    if BYTES_MAX < n < ABSURD:
        values.update(width=64, height=min(values["height"], 64))
        if "depth" in values:
            values["depth"] = min(values["depth"], 8)


def bound_launch(values):
    """Bounds a launch to few threads, unless no GPU takes its shape."""
    n = 1
    for side in values["grid"] + values["block"]:
        n *= max(side, 1)
    is_absurd = (max(values["block"]) > 1024 or max(values["grid"][1:]) > 65535
                 or values["grid"][0] >= 1 << 31)
    if n > THREADS_MAX and not is_absurd:
        values["grid"], values["block"] = (1, 1, 1), (min(values["block"][0], 64), 1, 1)
