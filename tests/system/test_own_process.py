#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""The client library in a program that does what it likes with its own process."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile

import harness
import mps
from harness import Skip, contains, equal

OK = "own_descriptors: ok\n"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_standard_error_reused():
    """A program's own file under the number of standard error gets no line of the library."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        for mode in "early", "late":
            for env in {}, {"MPS_CLIENT_LOG": "debug"}, {"CUDA_LOG_FILE": "stderr"}:
                path = "%s/%s" % (folder, mode)
                equal(service.run("own_descriptors", mode, path, env=env)[:2], (0, OK))
                equal(read(path), b"DATA\nMORE\n", (mode, env))


def test_standard_error_unread():
    """A line that nobody reads ends no program."""
    with mps.Service() as service:
        equal(service.run("own_descriptors", "pipe")[:2], (0, OK))


def test_standard_descriptors_closed():
    """What the library opens, its files too, gets none of these numbers."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        env = {"MPS_CLIENT_LOG": "debug,%s/log" % folder, "CUDA_LOG_FILE": folder + "/cuda",
               "MPS_CLIENT_TRACE": folder + "/trace"}
        equal(service.run("own_descriptors", "low", env=env)[:2], (0, OK))
        for name in "log", "trace":
            assert os.path.getsize(folder + "/" + name) > 0, name


def test_every_descriptor_replaced():
    """Calls fail, and the program's file and descriptors are as the program left them."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        env = {"MPS_CLIENT_LOG": "debug,%s/log" % folder, "CUDA_LOG_FILE": folder + "/cuda",
               "MPS_CLIENT_TRACE": folder + "/trace-%p"}
        code, out, err = service.run("own_descriptors", "all", folder + "/own", env=env)
        equal((code, out.endswith(OK)), (0, True), out + err)
        equal(read(folder + "/own"), b"DATA\nMORE\n")
        service.run_ok("process1")


def test_every_descriptor_closed():
    """Calls fail, and the line on standard error says who has closed the connection."""
    with mps.Service() as service:
        code, out, err = service.run("own_descriptors", "closed")
        equal((code, out.endswith(OK)), (0, True), out + err)
        contains(err, "this program has closed the connection to the server")
        equal([line for line in err.splitlines() if "kernel" in line], [])


def test_no_descriptor_left():
    """What needs a descriptor fails for as long as there is none; the connection stays."""
    with mps.Service() as service:
        equal(service.run("own_descriptors", "few")[:2], (0, OK))


def test_file_size_limit():
    """An image that cannot be sent is an error, and no signal ends the program."""
    with mps.Service() as service:
        process = service.popen("kernels", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (64, 64)))
        code, _, err = service.finish(process)
        assert code != -signal.SIGXFSZ, err
        contains(err, "ulimit -f")


def test_environment_changed():
    """A program that is connected again uses the variables and the folder of the first time."""
    with mps.Service() as service:
        process = service.popen("own_settings", "moved", stdin=subprocess.PIPE, cwd=service.folder,
                                env={"CUDA_MPS_PIPE_DIRECTORY": os.path.relpath(
                                    service.pipe, service.folder)})
        equal(process.stdout.readline(), "ready\n")
        os.kill(service.server(), signal.SIGKILL)
        out, err = process.communicate("\n", timeout=60)
        equal((process.returncode, out), (0, "own_settings: ok\n"), err)


def test_small_stacks():
    """A host function has a stack of 1 MiB at least, and its thread has a name."""
    with mps.Service() as service:
        size = 256 << 10
        process = service.popen("own_settings", "stack", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_STACK, (size, size)))
        equal(service.finish(process)[:2], (0, "own_settings: ok\n"))


def test_trace_with_a_comma():
    """The numbers of a trace have a point in every locale."""
    localedef = shutil.which("localedef")
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        if not localedef or subprocess.run(
                [localedef, "-i", "de_DE", "-f", "UTF-8", folder + "/de_DE.UTF-8"],
                capture_output=True, check=False).returncode != 0:
            raise Skip("no locale with a comma can be made here")
        env = {"LOCPATH": folder, "LC_ALL": "de_DE.UTF-8", "MPS_CLIENT_TRACE": folder + "/trace"}
        equal(service.run("own_settings", "comma", env=env)[:2], (0, "own_settings: ok\n"))
        contains(read(folder + "/trace").decode(), "value=1.5")


if __name__ == "__main__":
    harness.main(globals())
