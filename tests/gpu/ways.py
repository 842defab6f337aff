# SPDX-License-Identifier: Apache-2.0
"""Ways to run an example program beside a service: natively, and as a client of the vendor's."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile

import mps
from harness import equal

VENDOR = "nvidia-cuda-mps-control"
NATIVELY = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}


def values(text):
    """The key=value lines of a bench's output, as numbers."""
    return {k: float(v) for k, v in re.findall(r"^(\w+)=([\d.]+)$", text, re.M)}


def native(name, *args, timeout=60, env=None):
    path = name if "/" in name else mps.program(name)
    done = subprocess.run([path, *args], env=dict(mps.clean_environment(True), **(env or NATIVELY)),
                          capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def numbers(service, name, *args, timeout=60, env=None):
    """What a program measures as a client of the service, or natively without one."""
    code, out, err = service.run(name, *args, timeout=timeout, env=env) if service else native(
        name, *args, timeout=timeout)
    equal(code, 0, out + err)
    return values(out)


def bench(service, *args, timeout=60):
    return numbers(service, "bench", *args, timeout=timeout)


def plain_start(env):
    """Starts programs in that environment, without the client library."""
    def start(name, args, **more):
        return subprocess.Popen([mps.program(name), *args], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return start


def native_start():
    return plain_start(dict(mps.clean_environment(True), **NATIVELY))


def end_vendor(control, env):
    """Ends the vendor's daemon, whose quit may hang, and all that it has started."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([control], input="quit -t 5\n", env=env, text=True, timeout=15,
                       capture_output=True, check=False)
    for pid in mps.processes_with("CUDA_MPS_PIPE_DIRECTORY", env["CUDA_MPS_PIPE_DIRECTORY"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def vendor(measure):
    """measure(environment) with the vendor's service, in separate directories; or None."""
    control = shutil.which(VENDOR) or shutil.which(VENDOR, path="/usr/local/nvidia/bin:/usr/bin")
    if not control:
        return None
    with tempfile.TemporaryDirectory() as folder:
        env = dict(mps.clean_environment(True), CUDA_MPS_PIPE_DIRECTORY=folder + "/pipe",
                   CUDA_MPS_LOG_DIRECTORY=folder + "/log")
        env["PATH"] = os.path.dirname(control) + ":" + env.get("PATH", "")
        for name in ("pipe", "log"):
            os.mkdir(folder + "/" + name)
        subprocess.run([control, "-d"], env=env, check=True, timeout=20,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return measure(env)
        finally:
            end_vendor(control, env)


def gpu_memory_mib():
    """The memory in use on the GPU of this run."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                           *(["--id=" + wanted] if wanted else [])],
                          capture_output=True, text=True, timeout=20, check=False)
    return int(done.stdout.split()[0]) if done.returncode == 0 else -1
