# SPDX-License-Identifier: Apache-2.0
"""A server's connection to its daemon, taken from the server by its own user or by root."""

import ctypes
import os
import socket
import struct

from harness import Skip

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438


def take(pidfd, number):
    """A copy of a descriptor of another process."""
    fd = LIBC.syscall(PIDFD_GETFD, pidfd, number, 0)
    if fd < 0:
        raise Skip("pidfd_getfd: " + os.strerror(ctypes.get_errno()))
    return fd


def is_link(sock, daemon):
    if sock.family != socket.AF_UNIX:
        return False
    pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid == daemon


def of(server, daemon):
    """The connection as a socket."""
    pidfd = os.pidfd_open(server)
    try:
        for name in sorted(os.listdir("/proc/%d/fd" % server), key=int):
            if not os.readlink("/proc/%d/fd/%s" % (server, name)).startswith("socket:"):
                continue
            sock = socket.socket(fileno=take(pidfd, int(name)))
            if is_link(sock, daemon):
                return sock
            sock.close()
    finally:
        os.close(pidfd)
    raise AssertionError("server %d has no connection to daemon %d" % (server, daemon))
