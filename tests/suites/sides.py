# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison: programs on the GPU itself, and as clients of a service.

A side says in which environment a program runs. When it ends, `left' says what it has left behind.
"""

import glob
import os
import re
import shutil
import stat
import subprocess
import time

import mps
from harness import BUILD

SHARED = "/dev/shm"
# What a server's own memory may grow during a unit: it keeps some for later clients.
SERVER_KIB_MAX = 32 * 1024
# What the software GPU counts, and a server keeps for later clients, too.
GROWING = ("launches", "faults", "streams", "threads")
# Within this time a server has to forget a client that has ended.
END_S = 10
# The software GPU's own gigabyte is too small for some tests.
SOFTGPU = {"SOFTGPU_MEMORY_MIB": "6144"}


def has_gpu():
    """Whether this machine has an NVIDIA GPU and its driver."""
    if not shutil.which("nvidia-smi"):
        return False
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode == 0 and "GPU 0" in done.stdout


def gpu_name(real):
    """The GPU in words, for the table."""
    if not real:
        return "software GPU"
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()[0].replace(", ", ", driver ")


def shared_files():
    """Names of the files in /dev/shm."""
    return set(os.listdir(SHARED)) if os.path.isdir(SHARED) else set()


def open_shared_files():
    """Names of the files in /dev/shm that a live process maps or has open."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found.update(re.findall(SHARED + "/([^ \n]+)", file.read()))
        except OSError:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for target in mps.open_files(int(pid)):
            if target.startswith(SHARED + "/"):
                found.add(target[len(SHARED) + 1:].partition(" ")[0])
    return found


class Side:
    """What both sides have."""

    name = None

    def __init__(self, real, out):
        self.real, self.out = real, out
        self.env = {}
        self.left = []
        self.clients = 0
        self.before = shared_files()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        new = shared_files() - self.before
        for name in sorted(new - open_shared_files()):
            self.left.append("file %s/%s" % (SHARED, name))

    def words(self, words):
        """The command that runs this command on this side."""
        return words

    def after_unit(self, unit):
        """Looks at what a unit has left."""


class Native(Side):
    """Programs use the driver of the GPU, or the software GPU."""

    name = "native"

    def __init__(self, real, out):
        super().__init__(real, out)
        self.env = mps.clean_environment(real)
        if not real:
            self.env.update(SOFTGPU, LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU))


class Client(Side):
    """Programs are clients of a service of its own, started by mps-run."""

    name = "client"

    def __init__(self, real, out):
        super().__init__(real, out)
        self.service = mps.Service(library=None) if real else mps.Service(SOFTGPU)
        self.servers = {}  # KiB after the first unit and the last one, objects after the last

    def __enter__(self):
        self.service.start()
        self.env = dict(self.service.env)
        return self

    def words(self, words):
        return [os.path.join(BUILD, "bin", "mps-run"), *words]

    def after_unit(self, unit):
        """Every client has ended, and the server keeps no more than before."""
        for server in self.service.servers():
            for pid in self.clients_left(server):
                self.left.append("client %d of server %d after %s" % (pid, server, unit))
            self.look_at(server, unit)

    def clients_left(self, server):
        """The clients that the server still has after a while."""
        deadline = time.monotonic() + END_S
        while (pids := self.service.clients(server)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return pids

    def grown(self, server, before):
        """The objects of which the server has more than before; it may unload code a moment later."""
        deadline = time.monotonic() + END_S
        while True:
            objects = self.service.stats(server)
            grown = {name: n for name, n in objects.items()
                     if before and n > before[name] and name not in GROWING}
            if not grown or time.monotonic() > deadline:
                return objects, grown
            time.sleep(0.05)

    def memory(self, server, last):
        """The server's own memory in KiB; it may give memory back a moment after its last client."""
        deadline = time.monotonic() + END_S
        while True:
            kib = mps.memory_kib(server)
            if not last or kib <= last + SERVER_KIB_MAX or time.monotonic() > deadline:
                return kib
            time.sleep(0.05)

    def look_at(self, server, unit):
        """Compares the server's memory and objects with those after the first unit it served."""
        first, last, before = self.servers.get(server, (None, None, None))
        objects, grown = self.grown(server, before)
        try:
            kib = self.memory(server, last)
        except OSError:  # it has ended meanwhile
            return
        self.servers[server] = first or kib, kib, objects
        if last and kib > last + SERVER_KIB_MAX:
            self.left.append("server memory after %s: %d MiB, before %d MiB"
                             % (unit, kib >> 10, last >> 10))
        self.left += ["%s in the server after %s: %d, before %d" % (name, unit, n, before[name])
                      for name, n in grown.items()]

    def __exit__(self, *about):
        self.after_unit("the last unit")
        for pid, (first, last, _) in self.servers.items():
            print("server %d: %d KiB of its own after its first unit, %d KiB after its last"
                  % (pid, first, last), flush=True)
        log = self.service.control_log()
        self.clients = len(re.findall(r"NEW CLIENT", log))
        left, complaints = self.service.stop()
        self.left += ["process after the end of the service: %s" % line for line in left]
        self.left += ["sanitizer: %s" % line for line in complaints]
        self.left += ["socket %s" % path for path in self.sockets()]
        self.keep_logs()
        shutil.rmtree(self.service.folder, ignore_errors=True)
        super().__exit__(*about)

    def sockets(self):
        """Sockets of the service, in its folder and elsewhere, that its end has left."""
        found = [path for path in glob.glob(self.service.folder + "/**", recursive=True)
                 if stat.S_ISSOCK(os.lstat(path).st_mode)]
        if os.path.exists("/proc/net/unix"):
            with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
                found += [line.split()[-1] for line in file if self.service.folder in line]
        return found

    def keep_logs(self):
        """Copies the logs of the service, whose folder is about to go."""
        for path in glob.glob(os.path.join(self.service.log, "*.log")):
            shutil.copy(path, self.out)
