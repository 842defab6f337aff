# SPDX-License-Identifier: Apache-2.0
"""Concurrent copies of a program of tests/frameworks, watched, and ended in any case.

The opening comment of a program has its options, one per line:

    Mode NAME: VARIABLE=VALUE...    also runs in this mode; without such lines it runs once, plainly
    Copies: N                       at once; otherwise two
    GPU memory: N GiB               of a copy at most; otherwise 10
    Limit: N s                      for copies at the same time; otherwise 100
    --seconds                       (anywhere) is an argument that says how long it works
"""

import collections
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mps

FOLDER = os.path.join(mps.ROOT, "tests", "frameworks")
MARK = "FRAMEWORK_RUN"
# Each copy generates these again, so that a client compiles as the native run before it did.
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR")

Program = collections.namedtuple("Program", "name path env copies gib limit takes_seconds")
Ended = collections.namedtuple("Ended", "code out err seconds")


def programs():
    """All programs, each in all its modes."""
    found = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.py"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if 'if __name__ == "__main__"' not in text:
            continue
        about = text.split('"""')[1]
        number = {key: int(n) for key, n in re.findall(
            r"^(Copies|GPU memory|Limit): (\d+)(?: GiB| s)?$", about, re.M)}
        modes = re.findall(r"^Mode (\w+):(.*)$", about, re.M) or [("", "")]
        for mode, settings in modes:
            name = os.path.splitext(os.path.basename(path))[0]
            found.append(Program(
                name + (" " + mode if mode else ""), path,
                dict(setting.split("=", 1) for setting in settings.split()),
                number.get("Copies", 2), number.get("GPU memory", 10), number.get("Limit", 100),
                "--seconds" in text))
    return found


class Copies:
    """Processes of one program in an environment, each with a separate session and folder."""

    def __init__(self, program, env, count, seconds=None):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="mps-copies-")
        self.processes, self.ends = [], {}
        args = ["--seconds", str(seconds)] if program.takes_seconds and seconds else []
        self.began = time.monotonic()
        for i in range(count):
            mine = os.path.join(self.folder, str(i))
            os.mkdir(mine)
            settings = dict(env, **program.env, **{name: mine for name in CACHES})
            settings.update({MARK: self.folder, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": mine})
            with open(mine + "/out", "wb") as out, open(mine + "/err", "wb") as err:
                self.processes.append(subprocess.Popen(
                    [sys.executable, program.path, *args], env=settings, stdin=subprocess.DEVNULL,
                    stdout=out, stderr=err, start_new_session=True))

    def tree(self):
        """PIDs of the copies and of all their descendants."""
        return mps.processes_with(MARK, self.folder)

    def running(self):
        """Whether one still runs; records when each has ended."""
        for i, process in enumerate(self.processes):
            if i not in self.ends and process.poll() is not None:
                self.ends[i] = time.monotonic() - self.began
        return len(self.ends) < len(self.processes)

    def wait(self, stop, limit, watch=None):
        """Waits until all have ended, the time is over, or `stop' is set; then ends the rest."""
        late = False
        while self.running() and not stop.is_set():
            if time.monotonic() - self.began > limit:
                late = True
                break
            if watch:
                watch.look(self)
            stop.wait(0.1)
        self.end()
        return [Ended(
            "none after %d s" % limit if late and i not in self.ends else process.returncode,
            self.read(i, "out"), self.read(i, "err"), self.ends.get(i, limit))
            for i, process in enumerate(self.processes)]

    def read(self, i, name):
        with open("%s/%d/%s" % (self.folder, i, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self, number=signal.SIGKILL):
        """Ends all of them, and their descendants."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, number)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        deadline = time.monotonic() + 10
        while (tree := self.tree()) and time.monotonic() < deadline:
            for pid in tree:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def remove(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def mapped(pid, name):
    """The mapped files of the process with that in their names."""
    try:
        with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as file:
            return {line.split(None, 5)[5].strip() for line in file
                    if name in line and line.count(" ") >= 5 and "/" in line}
    except OSError:
        return set()


def nvidia_smi(query, *more):
    """The lines of the command's output; none if the command does not exist."""
    if not shutil.which("nvidia-smi"):
        return []
    done = subprocess.run(["nvidia-smi", "--query-" + query, "--format=csv,noheader,nounits",
                           *more], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def compute_apps():
    """The processes with a context, according to nvidia-smi: {PID: MiB}."""
    found = {}
    for line in nvidia_smi("compute-apps=pid,used_memory"):
        pid, _, mib = line.partition(", ")
        if pid.isdigit():
            found[int(pid)] = int(mib) if mib.isdigit() else 0
    return found


NVML = """
import ctypes, os
nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
nvml.nvmlDeviceGetName(device, ctypes.create_string_buffer(96), 96)
for name in os.listdir("/proc/self/fd"):
    try:
        print(os.readlink("/proc/self/fd/" + name))
    except OSError:
        pass
"""


@functools.cache
def opened_by_nvml():
    """What NVML opens in a process without CUDA."""
    said = subprocess.run([sys.executable, "-c", NVML], env=mps.clean_environment(True),
                          capture_output=True, text=True, timeout=60, check=False).stdout
    return {path for path in said.split() if path.startswith("/dev/nvidia")}


def open_devices(pid):
    """Signs that a process uses the driver itself, without what NVML opens. nvidia-smi shows
    whether it has a context."""
    devices = {path for path in mps.open_files(pid) if path.startswith("/dev/nvidia")}
    return devices - opened_by_nvml() if devices and mapped(pid, "libnvidia-ml.so") else devices


class Watch:
    """Watches running clients: no open device, no context; and what the server needs."""

    def __init__(self, service):
        self.service, self.server = service, None
        self.wrong, self.notes, self.memory = set(), set(), []
        self.n_looks = self.n_listed = 0
        self.next_look = self.next_question = 0

    def look(self, copies):
        now = time.monotonic()
        if now < self.next_look:
            return
        tree = copies.tree()
        self.n_looks += 1
        for pid in tree:
            for path in open_devices(pid):
                self.wrong.add("%s has %s open" % (mps.command_line(pid)[:80], path))
            for path in mapped(pid, "libcuda.so.") - {mps.LIBRARY}:
                self.notes.add("maps %s" % path)
        if not self.server or not mps.is_alive(self.server):
            self.server = (self.service.servers() or [None])[-1]
        if self.server:
            self.memory.append((now, mps.memory_kib(self.server)))
        if now >= self.next_question:
            apps = compute_apps()
            self.n_listed += self.server in apps
            for pid in set(tree) & set(apps):
                self.wrong.add("nvidia-smi lists %s" % mps.command_line(pid)[:80])
            self.next_question = time.monotonic() + 3
        self.next_look = time.monotonic() + 0.5

    def growth_kib(self, seconds):
        """The growth of the server's memory in the last so many seconds."""
        last = [kib for when, kib in self.memory if when > self.memory[-1][0] - seconds]
        return last[-1] - last[0] if last else 0


class Budget:
    """Admits as many copies as the GPU has memory for."""

    def __init__(self, gib):
        self.gib, self.used = gib, 0
        self.changed = threading.Condition()

    def take(self, gib):
        with self.changed:
            self.changed.wait_for(lambda: self.used == 0 or self.used + gib <= self.gib)
            self.used += gib

    def give(self, gib):
        with self.changed:
            self.used -= gib
            self.changed.notify_all()


def gpu_gib():
    """The memory of the GPU that programs may share: nine tenths."""
    said = nvidia_smi("gpu=memory.total")
    return int(said[0]) * 0.9 / 1024 if said else 64


def gpu_memory_mib():
    """The memory in use on the GPU of this run."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return int(nvidia_smi("gpu=memory.used", *(["--id=" + wanted] if wanted else []))[0])
