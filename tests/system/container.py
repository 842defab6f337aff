#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a container: as little of one as the kernel allows.

    container.py [--share NAMESPACE]... [--uid UID] --root FOLDER [--mount FROM:TO]... [--id-mapped]
        [--env NAME=VALUE]... PROGRAM [ARGUMENT...]

The program is PID 1 of its own IPC, mount, network, PID, user and UTS namespaces, except those that
--share names. Its root is FOLDER, its user UID (0), its environment --env. It sees its root, /proc
and the mounts, which are read-only. Root maps 65536 users from 100000 on, as container engines do;
another user maps itself. With --id-mapped, the owners of files in the mounts are those of the host,
as Kubernetes mounts volumes for pods with users of their own. The program ends with this process.
Exit status 125: the kernel refuses a namespace or a mount.
"""

import argparse
import ctypes
import os
import signal
import socket
import struct
import sys

FIRST_UID, N_UIDS = 100000, 65536
CLONE = {"ipc": 0x08000000, "mount": 0x00020000, "net": 0x40000000, "pid": 0x20000000,
         "user": 0x10000000, "uts": 0x04000000}
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH, PR_SET_PDEATHSIG, SYS_PIVOT_ROOT = 2, 1, 155
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 1, 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 0x100000
REFUSED = 125
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    words = [os.fsencode(a) if isinstance(a, str) else a for a in arguments]
    if getattr(libc, name)(*words) != 0:
        error = ctypes.get_errno()
        raise OSError(error, "%s: %s" % (name, os.strerror(error)))


def system_call(name, *arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def id_mapped(source, pid):
    """A detached read-only mount, by the users of that process's namespace."""
    tree = system_call("open_tree", SYS_OPEN_TREE, AT_FDCWD, os.fsencode(source), OPEN_TREE_CLONE)
    users = os.open("/proc/%d/ns/user" % pid, os.O_RDONLY)
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_IDMAP, 0, 0, users)
    system_call("mount_setattr", SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes,
                len(attributes))
    os.close(users)
    return tree


def bind(source, target):
    """A read-only mount; what is below the source is visible, too."""
    call("mount", source, target, None, MS_BIND | MS_REC, None)
    locked = os.statvfs(target).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    call("mount", None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | locked, None)


def enter_root(options):
    call("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
    call("mount", options.root, options.root, None, MS_BIND | MS_REC, None)
    for pair, tree in zip(options.mount, options.trees or [None] * len(options.mount)):
        source, target = pair.split(":")
        if tree is None:
            bind(source, options.root + target)
        else:
            system_call("move_mount", SYS_MOVE_MOUNT, tree, b"", AT_FDCWD,
                        os.fsencode(options.root + target), MOVE_MOUNT_F_EMPTY_PATH)
    if "pid" in options.share:
        call("mount", "/proc", options.root + "/proc", None, MS_BIND | MS_REC, None)
    else:
        call("mount", "proc", options.root + "/proc", "proc", 0, None)
    os.chdir(options.root)
    if libc.syscall(SYS_PIVOT_ROOT, b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    call("umount2", ".", MNT_DETACH)
    os.chdir("/")


def end_with_parent():
    """A change of user clears it."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)


def become(uid):
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    end_with_parent()


def run_first_process(options):
    """PID 1 of the container."""
    enter_root(options)
    if options.can_set_groups:
        os.setgroups([])
    become(options.uid)
    os.execve(options.words[0], options.words, dict(pair.split("=", 1) for pair in options.env))


def wait_status(pid):
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def start(function, *arguments):
    """Runs it in a child, which ends with its parent and exits with what it returns."""
    child = os.fork()
    if child == 0:
        try:
            end_with_parent()
            os._exit(function(*arguments) or 0)
        except OSError as error:
            print("container refused: %s" % error, file=sys.stderr, flush=True)
        finally:
            os._exit(REFUSED)
    return child


def run_inside(options, ready, mapped):
    flags = 0
    for name, flag in CLONE.items():
        flags |= 0 if name in options.share else flag
    call("unshare", flags)
    os.close(ready)
    _, options.trees, _, _ = socket.recv_fds(mapped, 1, len(options.mount))
    if "user" not in options.share:
        become(0)
    return wait_status(start(run_first_process, options))


def write_maps(pid, is_root):
    if not is_root:
        with open("/proc/%d/setgroups" % pid, "w", encoding="ascii") as file:
            file.write("deny")
    for name, own in ("uid_map", os.geteuid()), ("gid_map", os.getegid()):
        with open("/proc/%d/%s" % (pid, name), "w", encoding="ascii") as file:
            file.write("0 %d %d" % ((FIRST_UID, N_UIDS) if is_root else (own, 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", action="append", default=[], choices=CLONE)
    parser.add_argument("--uid", type=int, default=0)
    parser.add_argument("--root", required=True)
    parser.add_argument("--mount", action="append", default=[])
    parser.add_argument("--id-mapped", action="store_true")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.can_set_groups = os.geteuid() == 0
    for path in ["/proc"] + [pair.split(":")[1] for pair in options.mount]:
        os.makedirs(options.root + path, exist_ok=True)
    ready, unshared = os.pipe()
    mapped, done = socket.socketpair()
    child = start(run_inside, options, unshared, mapped)
    os.close(unshared)
    os.read(ready, 1)
    trees = []
    try:
        if "user" not in options.share:
            write_maps(child, os.geteuid() == 0)
        if options.id_mapped:
            trees = [id_mapped(pair.split(":")[0], child) for pair in options.mount]
    except OSError as error:
        print("container refused: %s" % error, file=sys.stderr)
        os.kill(child, signal.SIGKILL)
    socket.send_fds(done, [b"."], trees)
    sys.exit(wait_status(child))


if __name__ == "__main__":
    main()
