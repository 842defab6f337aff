# SPDX-License-Identifier: Apache-2.0
"""Descriptors of every kind, for frames that carry one.

A maker returns a descriptor that the caller owns. Files of FUSE, which need a
mount, are left to tests/system/test_descriptors.py.
"""

import contextlib
import fcntl
import functools
import os
import socket
import struct
import tempfile

PAGE = 4096
F_ADD_SEALS = 1033
SEAL, SHRINK, GROW, WRITE, FUTURE_WRITE = 1, 2, 4, 8, 16
# The seals that the server requires of an image.
SEALED = SEAL | SHRINK | GROW | WRITE
MFD_HUGETLB = 4
# Seconds that a lingering socket takes to close, and the share of such sockets: the sender may
# have to wait, too.
LINGER_S, LINGERING = 1, 0.005


def memfd(data=b"", seals=SEALED, size=None, name="hostile"):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(os.dup(fd), "wb") as file:
        file.write(data)
    if size is not None:
        os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def image(words):
    """The descriptor of an image, sealed as a good client seals it."""
    return memfd(words)


def touched(size):
    """An unsealed memory file whose pages are present."""
    return memfd(bytes(size), 0)


# ---- wrong descriptors: each maker takes the dice and the bytes of a right one


def half_sealed(dice, words):
    return memfd(words, dice.choice((0, SHRINK, GROW, SHRINK | GROW, WRITE,
                                     SHRINK | GROW | FUTURE_WRITE)))


def wrong_size(dice, words):
    more = dice.choice((-1, 1, -len(words), PAGE, 1 << 20))
    return memfd(words[:more] if more < 0 else words + bytes(more))


def hole(dice, words):
    """Sealed and of the right size, but without a page."""
    return memfd(b"", SEALED, max(len(words), 1))


def other_bytes(dice, words):
    return memfd(dice.randbytes(len(words)))


def pipe_end(dice, _):
    ends = list(os.pipe2(os.O_NONBLOCK))
    dice.shuffle(ends)
    os.close(ends.pop())
    return ends[0]


def socket_end(dice, _):
    kind = dice.choice((socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET))
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    if dice.random() < 0.5:
        other.close()
    return one.detach()


@functools.cache
def silent_peer():
    """A listening socket that accepts nothing."""
    sock = socket.socket(socket.AF_INET)
    sock.bind(("127.0.0.1", 0))
    sock.listen(64)
    return sock


def lingering(_, __):
    """A socket whose close takes LINGER_S, because its peer reads nothing."""
    sock = socket.socket(socket.AF_INET)
    sock.settimeout(LINGER_S)
    sock.connect(silent_peer().getsockname())
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(1 << 16))
    sock.setblocking(True)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return sock.detach()


def listener(dice, _):
    sock = socket.socket(dice.choice((socket.AF_UNIX, socket.AF_INET)))
    if dice.random() < 0.5 and sock.family == socket.AF_INET:
        sock.bind(("127.0.0.1", 0))
        sock.listen(1)
    return sock.detach()


def folder(dice, _):
    return os.open(dice.choice(("/", "/tmp", "/proc/self", "/dev/shm")),
                   os.O_RDONLY | os.O_DIRECTORY)


def device(dice, _):
    return os.open(dice.choice(("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom")), os.O_RDWR)


def path_only(dice, _):
    return os.open(dice.choice(("/dev/null", "/etc/passwd", "/tmp")), os.O_PATH)


def proc_file(dice, _):
    return os.open(dice.choice(("/proc/self/mem", "/proc/self/maps", "/proc/self/environ",
                                "/proc/self/cmdline", "/proc/uptime", "/sys/kernel/mm")),
                   os.O_RDONLY)


def plain_file(dice, words):
    if dice.random() < 0.5:
        return os.open("/etc/passwd", os.O_RDONLY)
    fd, path = tempfile.mkstemp(prefix="mps-hostile-")
    os.unlink(path)
    os.write(fd, words)
    return fd


def shared_file(dice, words):
    """A file in memory that cannot be sealed, open for reading or for both."""
    fd, path = tempfile.mkstemp(prefix="mps-hostile-", dir="/dev/shm")
    os.write(fd, words)
    if dice.random() < 0.5:
        os.close(fd)
        fd = os.open(path, os.O_RDONLY)
    os.unlink(path)
    return fd


def read_only(_, words):
    """A sealed file by a descriptor that only reads."""
    fd = memfd(words)
    with contextlib.closing(os.fdopen(fd, "rb")):
        return os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)


def huge_pages(dice, words):
    try:
        fd = os.memfd_create("hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | MFD_HUGETLB)
    except OSError:
        return hole(dice, words)
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 2 << 20)
        fcntl.fcntl(fd, F_ADD_SEALS, dice.choice((SEALED, 0)))
    return fd


def event(dice, _):
    return dice.choice((os.eventfd, lambda _: os.pidfd_open(os.getpid())))(0)


WRONG = (half_sealed, wrong_size, hole, other_bytes, pipe_end, socket_end, listener, folder,
         device, path_only, proc_file, plain_file, shared_file, read_only, huge_pages, event)


def wrong(dice, words):
    """A descriptor of a wrong kind; an unsealed memory file if that kind cannot be made here."""
    try:
        maker = lingering if dice.random() < LINGERING else dice.choice(WRONG)
        return maker(dice, words)
    except OSError:
        return memfd(words, 0)


def cut_short(fd, size=0):
    """Truncates a file that the server may be reading."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, size)
