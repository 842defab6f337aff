# SPDX-License-Identifier: Apache-2.0
"""Strangers with many UIDs: those of a user namespace that a user has made.

The namespace has the user's own UID as root, UIDs that are subordinate ones of the user in the
daemon's file, and UIDs that are in no file. All of them are one account (daemon/state/account.h).
"""

import ctypes
import os
import socket

from .strangers import Stranger

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
KIN_UID = 61004
# Where the UIDs of the namespace lie outside: in the file of subordinate UIDs, and not.
SUBORDINATES, OTHERS, N = 200000, 300000, 16
LIBC = ctypes.CDLL(None, use_errno=True)


def subordinate_ranges():
    """The file for the daemon."""
    return "%d:%d:%d\n" % (KIN_UID, SUBORDINATES, N)


def map_uids(pid, uid):
    """Only a process outside, with root's rights, may map UIDs of others."""
    for name in "uid_map", "gid_map":
        with open("/proc/%d/%s" % (pid, name), "w", encoding="ascii") as file:
            file.write("0 %d 1\n1 %d %d\n%d %d %d\n" % (uid, SUBORDINATES, N, N + 1, OTHERS, N))


def enter_namespace(uid):
    """Root becomes that user in a user namespace of the user's own, as root there.

    False: the system permits no such namespace, and this process is only that user.
    """
    ours, theirs = socket.socketpair()
    pid = os.getpid()
    if os.fork() == 0:
        if theirs.recv(1) == b"x":
            map_uids(pid, uid)
            theirs.send(b"x")
        os._exit(0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    is_inside = LIBC.unshare(CLONE_NEWUSER) == 0
    with ours, theirs:
        ours.send(b"x" if is_inside else b"-")
        os.wait()
        return is_inside and ours.recv(1, socket.MSG_DONTWAIT) == b"x"


class Kin(Stranger):
    """Each life has another UID of the namespace."""

    is_inside = False

    def run(self):
        self.is_inside = enter_namespace(KIN_UID)
        super().run()

    def live(self, dice):
        uid = dice.randrange(2 * N + 1)
        if self.is_inside:
            os.setresuid(uid, uid, uid)
        super().live(dice)
