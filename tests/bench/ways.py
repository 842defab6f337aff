# SPDX-License-Identifier: Apache-2.0
"""The ways in which programs reach the GPU: natively, through NVIDIA's MPS, through Warpshare.

    with open_ways(is_real, NAMES, results) as ways:
        ways[0].start([mps.program("bench"), "serve"])

The services have private folders, and end with the context. Without an NVIDIA GPU, all programs use
the software GPU, and the vendor's MPS is absent.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

import mps
from harness import equal

VENDOR = "nvidia-cuda-mps-control"
# The software GPU's own gigabyte is too small for large copies of several programs.
SOFTGPU = {"SOFTGPU_MEMORY_MIB": "4096"}
NATIVE, THEIRS, OURS = NAMES = ("native", "vendor", "ours")
# What tables and pictures call them; README.md does the same.
LABELS = {NATIVE: "native", THEIRS: "NVIDIA's MPS", OURS: "Warpshare"}
SETTINGS = {}  # of our daemon, beside those of a test


class Way:
    """Processes in one environment.

    `background' is the environment of a client that gives way to others; None if there is none.
    `servers' says which processes serve the clients.
    """

    def __init__(self, name, env, background=None, servers=lambda: []):
        self.name, self.env, self.background, self.servers = name, env, background, servers

    def start(self, command, env=None):
        """Starts a program that takes orders from its standard input."""
        with tempfile.NamedTemporaryFile("w", prefix="mps-bench-", delete=False) as errors:
            process = subprocess.Popen(
                command, env=dict(self.env, **(env or {})), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1)
        process.errors = errors.name
        return process


def end_all(processes, limit_s=20):
    """Ends processes of start(), and returns what each has written to standard error."""
    deadline = time.monotonic() + limit_s
    for process in processes:
        with contextlib.suppress(OSError):
            process.stdin.close()
    return [end(process, deadline) for process in processes]


def end(process, deadline):
    try:
        process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    with open(process.errors, encoding="utf-8", errors="replace") as file:
        text = file.read()
    os.unlink(process.errors)
    return text


def native(is_real):
    env = dict(mps.clean_environment(is_real), CUDA_MPS_PIPE_DIRECTORY="/nonexistent")
    if not is_real:
        env.update(SOFTGPU, LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU),
                   LD_PRELOAD=":".join(mps.sanitizer_preload()))
    return Way(NATIVE, env)


@contextlib.contextmanager
def ours(is_real):
    settings = dict({} if is_real else SOFTGPU, **SETTINGS)
    place = {"library": None} if is_real else {}
    with mps.Service(settings, **place) as service:
        yield Way(OURS, service.client_env(), {"CUDA_MPS_CLIENT_PRIORITY": "2"}, service.servers)


def vendor_control():
    """The path of the vendor's control program, or None."""
    return shutil.which(VENDOR) or shutil.which(VENDOR, path="/usr/local/nvidia/bin:/usr/bin")


def end_vendor(control, env):
    """Ends the vendor's daemon, whose quit may hang, and all that it has started."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([control], input="quit -t 5\n", env=env, text=True, timeout=15,
                       capture_output=True, check=False)
    for pid in mps.processes_with("CUDA_MPS_PIPE_DIRECTORY", env["CUDA_MPS_PIPE_DIRECTORY"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def vendor(control):
    """The vendor's service, in separate directories."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = folder + "/pipe"
        env = dict(mps.clean_environment(True), CUDA_MPS_PIPE_DIRECTORY=pipe,
                   CUDA_MPS_LOG_DIRECTORY=folder + "/log")
        env["PATH"] = os.path.dirname(control) + ":" + env.get("PATH", "")
        for name in ("pipe", "log"):
            os.mkdir(folder + "/" + name)
        subprocess.run([control, "-d"], env=env, check=True, timeout=20, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def servers():
            return [pid for pid in mps.processes_with("CUDA_MPS_PIPE_DIRECTORY", pipe)
                    if "nvidia-cuda-mps-server" in mps.command_line(pid)]
        try:
            yield Way(THEIRS, env, {"CUDA_MPS_CLIENT_PRIORITY": "1"}, servers)
        finally:
            end_vendor(control, env)


def try_out(way):
    """Fails if no program can run that way; otherwise its server has started."""
    done = subprocess.run([mps.program("bench"), "sync", "0"], env=way.env, capture_output=True,
                          text=True, timeout=60, check=False)
    equal(done.returncode, 0, "%s: %s%s" % (way.name, done.stdout, done.stderr))


@contextlib.contextmanager
def open_ways(is_real, wanted, results):
    """The wanted ways that exist here and work. One that does not is a failure in `results'."""
    control = vendor_control() if is_real else None
    makers = {NATIVE: lambda: contextlib.nullcontext(native(is_real)),
              THEIRS: lambda: vendor(control), OURS: lambda: ours(is_real)}
    with contextlib.ExitStack() as stack:
        found = []
        for name in NAMES:
            if name not in wanted or name == THEIRS and not control:
                continue
            with results.attempt("programs, " + name):
                way = stack.enter_context(makers[name]())
                try_out(way)
                found.append(way)
        assert found, "no program can run"
        yield found
