# SPDX-License-Identifier: Apache-2.0
"""What a program can ask about its GPU, and where a client's answers differ from native ones.

tests/programs/driver_api/properties.c prints the answers. tests/gpu/properties.txt has those of a
real GPU: natively, under NVIDIA's MPS, and of a client (tests/gpu/property_steps.py).
"""

import os

from harness import ROOT, equal

TABLE = os.path.join(ROOT, "tests", "gpu", "properties.txt")
COLUMNS = ("natively", "under NVIDIA's MPS", "as a client")
# These name a machine, a card or its state, and do not belong in a table.
LOCAL = ("device.uuid", "device.uuid_v2", "device.pci_bus_id", "device.count")

# What differs on purpose: the name, a client's value, and the reason. The same table
# is in docs/compat/devices.md.
DIFFERENCES = (
    ("attribute.MPS_ENABLED", "1", "as under NVIDIA's MPS"),
    ("attribute.CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", "0",
     "the server pins registered memory at another address (*Registered host memory*)"),
    ("attribute.READ_ONLY_HOST_REGISTER_SUPPORTED", "0",
     "a program must be able to write to memory that the server pins"),
    ("attribute.GPU_DIRECT_RDMA_SUPPORTED", "0",
     "devices reach memory by descriptors only (*Descriptors for other devices*)"),
    ("attribute.HANDLE_TYPE_FABRIC_SUPPORTED", "0",
     "memory is shared by POSIX descriptors only"),
    ("attribute.MEMPOOL_SUPPORTED_HANDLE_TYPES", "1",
     "memory is shared by POSIX descriptors only"),
    ("attribute.MULTICAST_SUPPORTED", "0", "clients get no groups of GPUs"),
    ("attribute.HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "0",
     "*Allocations of host memory*"),
    ("attribute.HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "0",
     "*Allocations of host memory*"),
    ("primary.priority_greatest", "-2", "*Client priorities*"),
    ("created.priority_greatest", "-2", "*Client priorities*"),
)


def read(text):
    """The lines of the program's output: {name: value}."""
    lines = text.splitlines()
    equal(lines.pop(), "properties: ok")
    return dict(line.split(" ", 1) for line in lines)


def unexplained(native, client, differences=DIFFERENCES):
    """Lines about what differs, except what `differences' has with the client's value."""
    wanted = {name: value for name, value, _ in differences}
    return ["%s: %s, natively %s" % (name, client.get(name), native.get(name))
            for name in sorted(set(native) | set(client))
            if native.get(name) != client.get(name) and wanted.get(name) != client.get(name)]


def table(columns):
    """The text of the table: a line for each name, with a value in each column."""
    names = dict.fromkeys(name for column in columns for name in column if name not in LOCAL)
    return "# property | %s\n" % " | ".join(COLUMNS) + "".join(
        " | ".join([name] + [column.get(name, "-") for column in columns]) + "\n"
        for name in names)


def read_table():
    """The kept table: a dictionary for each column."""
    with open(TABLE, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(" | ") for line in file if not line.startswith("#")]
    return [{row[0]: row[1 + i] for row in rows} for i in range(len(COLUMNS))]
