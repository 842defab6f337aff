# SPDX-License-Identifier: Apache-2.0
"""Strangers with many UIDs: those of a user namespace that a user has made.

The namespace has the user's own UID as root, UIDs that are subordinate ones of the user in the
daemon's file, and UIDs that are in no file. All of them are one account (daemon/account.h).
"""

import ctypes
import os

from .strangers import Stranger

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
# Where the UIDs of the namespace lie outside: in the file of subordinate UIDs, and not.
SUBORDINATES, OTHERS, N = 200000, 300000, 16
LIBC = ctypes.CDLL(None, use_errno=True)


def subordinate_ranges(uid):
    """The file for the daemon."""
    return "%d:%d:%d\n" % (uid, SUBORDINATES, N)


def enter_namespace(uid):
    """Root becomes that user in a user namespace of the user's own, as root there."""
    ready, go_on = os.pipe(), os.pipe()
    ours = os.getpid()
    if os.fork() == 0:
        # Only a process outside, with root's rights, may map UIDs of others.
        os.read(ready[0], 1)
        for name in "uid_map", "gid_map":
            with open("/proc/%d/%s" % (ours, name), "w", encoding="ascii") as file:
                file.write("0 %d 1\n1 %d %d\n%d %d %d\n" % (
                    uid, SUBORDINATES, N, N + 1, OTHERS, N))
        os.write(go_on[1], b"x")
        os._exit(0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    if LIBC.unshare(CLONE_NEWUSER) < 0:
        raise OSError(ctypes.get_errno(), "no user namespace")
    os.write(ready[1], b"x")
    os.read(go_on[0], 1)
    os.wait()
    for fd in ready + go_on:
        os.close(fd)


class Kin(Stranger):
    """Each life has another UID of the namespace."""

    def live(self, dice):
        uid = dice.randrange(2 * N + 1)
        os.setresuid(uid, uid, uid)
        super().live(dice)
