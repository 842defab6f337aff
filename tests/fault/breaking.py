# SPDX-License-Identifier: Apache-2.0
"""A service in which the nth call of a libc function fails, in one of its three programs.

    with breaking.Service() as service:
        service.broken["client"].set("malloc", 3)
        service.run("process1")
"""

import mmap
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import mps
from harness import BUILD, Skip

LIBRARY = os.path.join(BUILD, "fault", "libbreak.so")
SERVER = os.path.join(BUILD, "bin", "mps-server")

ENOENT, EINTR, EAGAIN, ENOMEM, EMFILE, ENOSPC, ENOPROTOOPT, ENOBUFS = 2, 4, 11, 12, 24, 28, 92, 105
# The error of each function on a machine that is short of something; 0: it transfers one byte.
ERRORS = {
    "malloc": (ENOMEM,), "mmap": (ENOMEM,), "mprotect": (ENOMEM,), "madvise": (ENOMEM,),
    "memfd_create": (EMFILE,), "ftruncate": (ENOSPC,), "socket": (EMFILE,), "accept4": (EMFILE,),
    "connect": (EAGAIN, ENOMEM), "getsockopt": (ENOPROTOOPT,), "epoll_create1": (EMFILE,),
    "epoll_ctl": (ENOSPC,), "eventfd": (EMFILE,), "pipe2": (EMFILE,), "poll": (EINTR, ENOMEM),
    "fork": (EAGAIN,), "pthread_create": (EAGAIN,), "recv": (EINTR, ENOMEM, 0),
    "read": (EINTR, ENOMEM, 0), "recvmsg": (EINTR, ENOMEM, 0), "sendmsg": (EINTR, ENOBUFS, 0),
    "fcntl": (EMFILE,), "open": (EMFILE,), "futex": (EINTR,), "pidfd_open": (EMFILE,),
}
# libuv ends the process by design when its own calls of these fail.
OF_LIBUV = ("malloc", "epoll_ctl", "read", "pipe2")


class Breaking:
    """The file of struct breaking for one program."""

    SHAPE = struct.Struct("=32s32sQQQQiI")

    def __init__(self, path, binary, object_name=""):
        self.path, self.object = path, object_name
        self.libuv = libuv_range(binary)
        with open(path, "wb") as file:
            file.write(bytes(self.SHAPE.size))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.SHAPE.size)
        self.set("")

    def set(self, name, nth=0, error=0):
        """Makes the nth call from now on fail; with 0, calls are only counted."""
        skip = self.libuv if name in OF_LIBUV else (0, 0)
        self.memory[:] = self.SHAPE.pack(name.encode(), self.object.encode(), 0, 0, *skip, error, 0)
        self.memory[64:72] = struct.pack("=Q", nth)

    def seen(self):
        return self.SHAPE.unpack(self.memory)[3]


def libuv_range(binary):
    """The range of libuv in a program, if it is linked in; (0, 0) if it is a library.

    The linker puts the library last, but its functions that are rarely called before main(). The
    range is without these, as it would else cover most of the program, too.
    """
    said = subprocess.run(["nm", binary], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1]: int(line.split()[0], 16) for line in said.splitlines()
             if re.match(r"^[0-9a-f]+ [tT] ", line)}
    places = [at for name, at in names.items()
              if name.startswith("uv_") and at > names.get("main", 0)]
    return (min(places), max(places) + 4096) if places else (0, 0)


class Service(mps.Service):
    """Daemon, server and clients with libbreak.so; `broken' controls each."""

    def __init__(self, settings=None):
        if os.environ.get("MPS_SAN"):
            raise Skip("sanitizers have their own allocator")
        super().__init__(settings)
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder)
        self.control = os.path.join(folder, "mps-control")
        shutil.copy2(mps.CONTROL, self.control)
        self.broken = {
            "daemon": Breaking(self.folder + "/break.daemon", mps.CONTROL),
            "server": Breaking(self.folder + "/break.server", SERVER),
            "client": Breaking(self.folder + "/break.client", mps.LIBRARY, "libmpsclient"),
        }
        # The environment of a server is composed by the daemon.
        with open(os.path.join(folder, "mps-server"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec env LD_PRELOAD=%s MPS_BREAK=%s %s "$@"\n'
                       % (LIBRARY, self.broken["server"].path, SERVER))
        os.chmod(file.name, 0o755)
        self.daemon_env.update(LD_PRELOAD=LIBRARY, MPS_BREAK=self.broken["daemon"].path)

    def client_env(self, preload=True, **more):
        env = super().client_env(preload, **more)
        if preload:
            env.update(LD_PRELOAD="%s:%s" % (LIBRARY, mps.LIBRARY),
                       MPS_BREAK=self.broken["client"].path)
        return env
