# SPDX-License-Identifier: Apache-2.0
"""A memory of the software GPU's devices for all processes of a test (SOFTGPU_CARD).

    with card.Card(64) as small, mps.Service(small.settings) as service:
        ...
        equal(small.used(), 0)
"""

import fcntl
import os
import struct

# struct flock, and commands of <fcntl.h> that Python lacks before 3.9.
LOCK = struct.Struct("hhqqi4x")
F_OFD_GETLK = 36
# Where memory of processes that is not in the file begins, and the first byte that is none
# (tests/softgpu/driver/memory/card.c).
ACCOUNTS = 1 << 61
GATE = 1 << 62


class Card:
    """A file in memory, which ends with the test. Only processes of this user can open it."""

    def __init__(self, mib):
        self.fd = os.memfd_create("card")
        self.settings = {"SOFTGPU_MEMORY_MIB": str(mib),
                         "SOFTGPU_CARD": "/proc/%d/fd/%d" % (os.getpid(), self.fd)}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        os.close(self.fd)

    def taken(self, start, end):
        """A locked range that overlaps this one, or None."""
        asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
        kind, _, start, size, _ = LOCK.unpack(fcntl.fcntl(self.fd, F_OFD_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else (start, start + size)

    def used(self):
        """The bytes that processes and descriptors have."""
        total, spans = 0, [(0, GATE)]
        while spans:
            start, end = spans.pop()
            found = self.taken(start, end) if start < end else None
            if found:
                # The first byte of a process's account does not count.
                total += found[1] - found[0] - (found[0] >= ACCOUNTS)
                spans += [(start, found[0]), (found[1], end)]
        return total
