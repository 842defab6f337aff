# SPDX-License-Identifier: Apache-2.0
"""Scenes of descriptors and of the process that takes them (server/session/receiver.h).

The receiver belongs to the user of its server, so a client can kill or stop it.
"""

import array
import contextlib
import os
import signal
import socket
import time

import mps
import wire
from . import descriptors, images
from .client import ANSWER_S, Dropped
from .scenes import chance, new

# The most descriptors of one message on a socket (SCM_MAX_FD).
FDS_MAX = 253
STOPPED_S = 0.3


def receivers(c):
    return [int(name) for name in os.listdir("/proc") if name.isdigit()
            and mps.is_receiver(int(name)) and mps.parent_of(int(name)) == c.server_pid]


def send_part(c, words, fds):
    """Sends some bytes with descriptors, and closes these."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        c.sock.settimeout(ANSWER_S)
        c.sock.sendmsg([words], rights)
    except OSError as why:
        raise Dropped("a part of a frame: %s" % why) from None
    finally:
        c.sock.setblocking(False)
        for fd in fds:
            os.close(fd)
    c.share.counts.add("descriptors", len(fds))


def load(c, send):
    """Loads a library whose frame send(words of the frame, image) sends."""
    words = images.QUIET
    send(wire.frame("image", 1, size=len(words)), words)
    return c.say("library_load", library=new(c, "library"), size=len(words))


def end_soon(c):
    """The server may have dropped the connection."""
    c.until = min(c.until, time.monotonic() + ANSWER_S / 4)


def scene_pieces_of_frames(c):
    """A frame arrives in pieces, with its descriptor at any of them; the message comes at once."""
    def send(words, image):
        cuts = sorted(c.dice.sample(range(1, len(words)), c.dice.randint(1, 3)))
        pieces = [words[a:b] for a, b in zip([0] + cuts, cuts + [len(words)])]
        where = 0 if not c.is_rude or chance(c, 0.7) else c.dice.randrange(len(pieces))
        for number, piece in enumerate(pieces):
            send_part(c, piece, [descriptors.image(image)] if number == where else [])
            if chance(c, 0.3):
                time.sleep(0.001)
        if where:
            end_soon(c)
    load(c, send)


def scene_many_descriptors(c):
    """More descriptors than a frame may have, up to the most that the kernel takes."""
    if not c.is_rude or not chance(c, 0.2):
        return

    def send(words, image):
        n = c.dice.choice((2, 3, 4, 5, 64, FDS_MAX))
        kind = c.dice.choice((descriptors.pipe_end, descriptors.half_sealed, descriptors.plain_file))
        send_part(c, words, [descriptors.image(image)] + [kind(c.dice, b"x") for _ in range(n - 1)])
    load(c, send)
    end_soon(c)


def scene_frames_ahead(c):
    """Several frames lie on the connection before the first message that needs one."""
    words = images.QUIET
    n = c.dice.randint(2, 5)
    for _ in range(n):
        send_part(c, wire.frame("image", 1, size=len(words)), [descriptors.image(words)])
    for _ in range(n if not c.is_rude or chance(c, 0.8) else n - 1):
        c.say("library_load", library=new(c, "library"), size=len(words))


def scene_receiver_killed(c):
    """The receiver ends while it is asked."""
    if not chance(c, 0.1):
        return

    def send(words, image):
        send_part(c, words, [descriptors.image(image)])
        for pid in receivers(c):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    load(c, send)


def scene_receiver_stopped(c):
    """The receiver is stopped for less than the server waits for it."""
    if not c.manners.harms or not chance(c, 0.1):
        return
    stopped = receivers(c)
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
        for pid in stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        os._exit(0)
    load(c, lambda words, image: send_part(c, words, [descriptors.image(image)]))
