# SPDX-License-Identifier: Apache-2.0
"""Descriptors of files whose close, and every other request, waits for the process that made them.

    with slow_files.mounted() as folder:  # and in a process that may be killed:
        fd = slow_files.open_slow(folder)
    sock = slow_files.LingeringSocket(60)
"""

import contextlib
import ctypes
import multiprocessing
import os
import socket
import struct
import tempfile
import threading

import harness

LIBC = ctypes.CDLL(None, use_errno=True)
# Since Python 3.14, processes are not forked by default, and would need functions that can be pickled.
FORK = multiprocessing.get_context("fork")
LOOKUP, GETATTR, OPEN, INIT = 1, 3, 14, 26
MNT_FORCE, MNT_DETACH = 1, 2
ROOT, FILE = 1, 2
SIZE = 1 << 20


def attributes(node):
    mode = 0o40777 if node == ROOT else 0o100666
    return struct.pack("<6Q10I", node, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(folder, is_mounted):
    """A file system of one file. It answers the requests to open the file, and then no others."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
    LIBC.mount(b"mps-test", folder.encode(), b"fuse", 0, options.encode())
    is_mounted.set()
    is_opened = False
    while True:
        words = os.read(device, 1 << 17)
        _, code, unique, node = struct.unpack_from("<IIQQ", words)
        if code == INIT:
            body = struct.pack("<IIIIHHIIHH", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0) + bytes(28)
        elif is_opened:
            continue  # from now on every request waits
        elif code == LOOKUP:
            body = struct.pack("<4QII", FILE, 0, 0, 0, 0, 0) + attributes(FILE)
        elif code == GETATTR:
            body = struct.pack("<QII", 0, 0, 0) + attributes(node)
        else:
            body = struct.pack("<QII", 1, 0, 0)
            is_opened = code == OPEN
        os.write(device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)


def open_slow(folder):
    """A descriptor on which every request waits until the end of mounted().

    A process that has it cannot fork and execute: that closes descriptors.
    """
    return os.open(folder + "/file", os.O_RDWR)


@contextlib.contextmanager
def mounted():
    """A folder for open_slow(), which another process must call, because it may be killed."""
    harness.need_root()
    if not os.path.exists("/dev/fuse"):
        raise harness.Skip("no FUSE")
    folder = tempfile.mkdtemp(prefix="mps-fuse-")
    is_mounted = FORK.Event()
    server = FORK.Process(target=serve, args=(folder, is_mounted), daemon=True)
    server.start()
    try:
        assert is_mounted.wait(20 * harness.SLOW), "not mounted"
        yield folder
    finally:
        # Processes that wait for a reply now get an error, and so end.
        server.kill()
        for child in multiprocessing.active_children():
            child.join()
        LIBC.umount2(folder.encode(), MNT_FORCE | MNT_DETACH)
        os.rmdir(folder)


OTHER_ENDS = []  # they stay open: their close would end the wait


class LingeringSocket:
    """A TCP socket with bytes that its other end never reads: its last close waits."""

    def __init__(self, seconds):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.sock.connect(listener.getsockname())
        OTHER_ENDS.append(listener.accept()[0])
        listener.close()
        self.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.send(b"x" * 65536)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))

    def fileno(self):
        return self.sock.fileno()

    def give_away(self):
        """Closes this process's descriptor. The one that was sent is then the last; or it is
        already closed, and a thread here waits."""
        threading.Thread(target=self.sock.close, daemon=True).start()
