#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program as on Linux before 6.16: its sockets cannot refuse descriptors.

    old_kernel.py PROGRAM [ARGUMENT...]

A seccomp filter answers setsockopt(SO_PASSRIGHTS) with ENOPROTOOPT, for this process and
all its descendants.
"""

import ctypes
import os
import platform
import struct
import sys

SETSOCKOPT = {"x86_64": 54, "aarch64": 208}
SO_PASSRIGHTS, ENOPROTOOPT = 83, 92
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, THIRD_ARGUMENT = 0, 32  # offsets in struct seccomp_data
ALLOW, ERRNO = 0x7fff0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_passrights():
    words = b"".join(struct.pack("=HBBI", *line) for line in (
        (LOAD, 0, 0, NUMBER),
        (JUMP_EQUAL, 0, 3, SETSOCKOPT[platform.machine()]),
        (LOAD, 0, 0, THIRD_ARGUMENT),
        (JUMP_EQUAL, 0, 1, SO_PASSRIGHTS),
        (RETURN, 0, 0, ERRNO | ENOPROTOOPT),
        (RETURN, 0, 0, ALLOW)))
    memory = ctypes.create_string_buffer(words)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(words) // 8, ctypes.addressof(memory))
    if os.geteuid() != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    forbid_passrights()
    os.execvp(sys.argv[1], sys.argv[1:])
