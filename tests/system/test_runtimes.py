#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Programs with other versions of CUDA's runtime than the installed one.

NVIDIA's wheels of runtimes are in $MPS_RUNTIMES, a folder each by version, where
`tests/setup --all' puts them (build/runtimes). One C program (tests/runtimes/runtime.c) is built
against the headers of each version, and with each of its libraries: the shared one, and the static
one if it exists.
"""

import glob
import os
import re
import subprocess
import tempfile

import harness
import mps
from harness import Skip, equal

PARTS = os.path.join(harness.ROOT, "tests", "runtimes")
FOLDER = os.path.abspath(os.environ.get("MPS_RUNTIMES", os.path.join(
    harness.ROOT, "build", "runtimes")))
LIBRARIES = ("libcudart.so.*", "libcudart_static.a")


def runtimes():
    """(version, include folder, library) of each available runtime."""
    found = []
    for version in sorted(os.listdir(FOLDER) if os.path.isdir(FOLDER) else ()):
        for home in glob.glob(os.path.join(FOLDER, version, "nvidia", "*")):
            for name in LIBRARIES:
                found += [(version, home + "/include", library)
                          for library in sorted(glob.glob(home + "/lib/" + name))]
    if not found:
        raise Skip("no runtimes in %s: tests/setup --all fetches some" % FOLDER)
    return found


def tool(option):
    """A path that tests/setup prints."""
    done = subprocess.run([harness.ROOT + "/tests/setup", option], capture_output=True,
                          text=True, check=True)
    return os.path.join(harness.ROOT, done.stdout.strip())


def compile_kernels(folder):
    path = os.path.join(folder, "kernels.fatbin")
    subprocess.run([tool("--nvcc"), "-fatbin", "-arch=compute_75", "-o", path,
                    os.path.join(PARTS, "kernels.cu")], check=True)
    return path


def build(path, kernels, runtime, *flags):
    """Headers that a runtime lacks come from the compiler's version. The library is this runtime's,
    even if LD_LIBRARY_PATH has another."""
    _, include, library = runtime
    subprocess.run(
        [os.environ.get("CC", "gcc"), "-std=gnu17", "-Wall", "-Werror", "-O1",
         '-DKERNELS="%s"' % kernels, *flags, "-isystem", include,
         "-isystem", tool("--cuda") + "/include", "-o", path, os.path.join(PARTS, "runtime.c"), library,
         "-Wl,--disable-new-dtags,-rpath," + os.path.dirname(library), "-lpthread", "-ldl", "-lrt"], check=True)


def build_all(folder, *flags):
    """The program with each runtime: pairs of a short name and the program's path."""
    os.chmod(folder, 0o755)
    kernels = compile_kernels(folder)
    for number, runtime in enumerate(runtimes()):
        path = os.path.join(folder, "program%d" % number)
        build(path, kernels, runtime, *flags)
        yield "%s %s" % (runtime[0], os.path.basename(runtime[2])), path


def run_everywhere(*flags, **env):
    """Builds it with each runtime, and runs it as a client; no call is refused."""
    runtimes()
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        wrong = []
        for what, path in build_all(folder, *flags):
            trace = path + ".trace"
            done = service.run(path, env=dict(env, MPS_CLIENT_TRACE=trace))
            with open(trace, encoding="utf-8") as file:
                refused = re.findall(r"(\w+)\(.*CUDA_ERROR_NOT_SUPPORTED", file.read())
            if done != (0, "runtime: ok\n", "") or refused:
                wrong.append((what, done, refused))
        equal(wrong, [])


def test_natively():
    """On the software GPU without a service: it has the same tables."""
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU),
               LD_PRELOAD=":".join(mps.sanitizer_preload()))
    with tempfile.TemporaryDirectory() as folder:
        for what, path in build_all(folder):
            done = subprocess.run([path], env=env, capture_output=True, text=True, timeout=60,
                                  check=False)
            equal((done.returncode, done.stdout), (0, "runtime: ok\n"), (what, done.stderr))


def test_runtimes():
    run_everywhere()


def test_streams_of_threads():
    """The default stream is per thread: the runtime uses other symbols."""
    run_everywhere("-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1")


def test_eager():
    """Images are loaded at the first call, and again after a reset."""
    run_everywhere(CUDA_MODULE_LOADING="EAGER")


if __name__ == "__main__":
    harness.main(globals())
