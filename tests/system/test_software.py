#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# without sanitizers: mps-run preloads a library, whose sanitizer would have to come first
"""The software GPU for everybody (--software), and what is said where there is no GPU at all."""

import os
import shutil
import subprocess
import tempfile
import time

import harness
import mps
from harness import Skip, contains, equal, need_root

RUN = mps.BUILD + "/bin/mps-run"
CONTROL = mps.BUILD + "/bin/mps-control"
USER = 1001
ADVICE = ("No NVIDIA driver was found: install it, set MPS_CUDA_LIBRARY to its libcuda.so.1, or start "
          "the daemon on the software GPU (mps-control -d --software)")


def no_driver(**more):
    """The environment of a machine without a driver; MPS_CUDA_LIBRARY in `more' is unset for None."""
    env = dict(mps.clean_environment(), **more)
    return {name: value for name, value in env.items() if value is not None}


def need_no_driver():
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    if "libcuda.so.1" in done.stdout or os.path.exists("/dev/nvidiactl"):
        raise Skip("this machine has a driver")


def run(*words, env, status=0):
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    equal(done.returncode, status, done.stdout + done.stderr)
    return done


def test_daemon():
    """Programs are clients of a daemon on the software GPU, without a variable."""
    with mps.Service(library=None, options=["--software"]) as service:
        env = dict(service.env)
        env.pop("MPS_CUDA_LIBRARY", None)
        equal(run(RUN, mps.program("process1"), "--rounds", "1", env=env).stdout, "process1: ok\n")
        equal(len(service.servers()), 1)
        contains(service.command("device_query").stdout, "Software GPU")
        contains(run(RUN, "--check", env=env).stdout, "would be a client")
        equal("Cannot read the kernel's log" in service.control_log(), False)


def test_alone():
    """Without a daemon, a program uses the software GPU by itself."""
    with tempfile.TemporaryDirectory() as folder:
        env = no_driver(CUDA_MPS_PIPE_DIRECTORY=folder, MPS_CUDA_LIBRARY="/nowhere/libcuda.so.1")
        done = run(RUN, "--software", mps.program("process1"), "--rounds", "1", env=env)
        equal(done.stdout, "process1: ok\n")


def test_user_without_settings():
    """A user starts a daemon with no variable set. Its logs are beside its socket.

    A directory that the user has chosen is never replaced.
    """
    need_root()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, USER, USER)
        env = {"PATH": os.environ["PATH"], "CUDA_MPS_PIPE_DIRECTORY": folder + "/pipe"}
        control = mps.for_everybody(CONTROL)
        become = {"user": USER, "group": USER, "extra_groups": []}
        for words, status in (("-d", 0), ("get_server_list", 0), ("quit", 0)):
            done = subprocess.run([control, words], env=env, capture_output=True, text=True,
                                  timeout=60, check=False, **become)
            equal(done.returncode, status, done.stderr)
        equal(sorted(os.listdir(folder + "/pipe/log")), ["control.log", "server.log"])
        chosen = dict(env, CUDA_MPS_LOG_DIRECTORY="/var/log/nvidia-mps")
        done = subprocess.run([control, "-d"], env=chosen, capture_output=True, text=True, timeout=60,
                              check=False, **become)
        equal(done.returncode, 1)
        contains(done.stderr, "/var/log/nvidia-mps")


def test_not_installed():
    """Both programs say where they looked, and what to install."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (RUN, CONTROL):
            os.makedirs(folder + "/bin", exist_ok=True)
            shutil.copy(path, folder + "/bin")
        env = no_driver(CUDA_MPS_PIPE_DIRECTORY=folder + "/pipe", CUDA_MPS_LOG_DIRECTORY=folder)
        for words, status in ((("mps-run", "--software", "true"), 127),
                              (("mps-control", "-d", "--software"), 1)):
            done = run(folder + "/bin/" + words[0], *words[1:], env=env, status=status)
            contains(done.stderr.replace("The software", "the software"),
                     "the software GPU is not installed in %s/bin/../lib/mps/softgpu: install the "
                     "package mps-softgpu, or build it" % folder)


def test_no_driver():
    """The first client hears at once what to do. A server that would end in the same way is not tried."""
    need_no_driver()
    with mps.Service(library=None) as service:
        env = {name: value for name, value in service.env.items() if name != "MPS_CUDA_LIBRARY"}
        began = time.monotonic()
        done = run(RUN, mps.program("process1"), env=env, status=1)
        assert time.monotonic() - began < 2 * mps.SLOW, "tried for too long"
        contains(done.stderr, ADVICE + "\n")
        equal(service.control_log().count("Starting new server"), 1)
        contains(service.command("device_query", check=False).stderr, ADVICE)
        contains(run(RUN, "--check", env=env, status=1).stdout,
                 'the daemon cannot start a server: "%s' % ADVICE[:60])
        contains(service.server_log(), "Looked for the CUDA driver: /")


def test_wrong_driver():
    """A variable that names no driver is told, and the server's log says what is wrong with the file."""
    with tempfile.NamedTemporaryFile() as file, \
            mps.Service({"MPS_CUDA_LIBRARY": file.name}, library=None) as service:
        os.chmod(file.name, 0o644)
        done = run(RUN, mps.program("process1"), env=service.env, status=1)
        contains(done.stderr, "MPS_CUDA_LIBRARY names no CUDA driver: set it to the driver's "
                 "libcuda.so.1, or unset it\n")
        contains(service.server_log(), "%s (no shared object)" % file.name)


def test_nothing_alone():
    """Neither a daemon nor a driver: the program says what to do."""
    need_no_driver()
    with tempfile.TemporaryDirectory() as folder:
        env = no_driver(CUDA_MPS_PIPE_DIRECTORY=folder)
        env.pop("MPS_CUDA_LIBRARY", None)
        done = run(RUN, mps.program("process1"), env=env, status=1)
        contains(done.stderr, "cannot open libcuda.so.1: %s. Tried: /" % ADVICE)


def test_no_daemon():
    """Without a daemon in the default directory, one line says so."""
    env = mps.clean_environment()
    env.pop("CUDA_MPS_PIPE_DIRECTORY", None)
    if os.path.exists("/tmp/nvidia-mps/control"):
        raise Skip("this machine has a daemon")
    equal(run(RUN, "true", env=env).stderr,
          "mps-run: no daemon listens at /tmp/nvidia-mps/control: true runs without MPS\n")


def test_program_names():
    """mps-run says which program it does not find, and what to write instead."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/train.py", "w", encoding="ascii"):
            pass
        shutil.copy("/bin/true", folder + "/mine")
        for word, status, text in (
                ("nosuch", 127, "mps-run: cannot find the program nosuch: give its path, or a name that "
                                "is in PATH\n"),
                ("mine", 127, "mps-run: mine is not in PATH: give its path, ./mine\n"),
                ("./train.py", 126, "mps-run: ./train.py is not executable: run its interpreter "
                                    "(mps-run python3 ./train.py), or make it executable (chmod +x)\n"),
                ("./mine", 0, "")):
            env = dict(mps.clean_environment(), CUDA_MPS_PIPE_DIRECTORY=folder)
            done = subprocess.run([RUN, word], env=env, cwd=folder,
                                  capture_output=True, text=True, timeout=60, check=False)
            equal((done.returncode, done.stderr), (status, text))
        done = run(RUN, "--software", env=mps.clean_environment(), status=2)
        contains(done.stderr, "no program is given")


def kernels(path):
    """When each kernel of a timeline began and ended, by its notes."""
    with open(path, encoding="ascii") as file:
        notes = [int(line) for line in file]
    return [(notes[at], notes[at + 31]) for at in range(0, len(notes), 32)]


def test_turns():
    """SOFTGPU_TURNS: kernels of two processes never overlap, and both go on."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU),
                   SOFTGPU_DIR=folder, SOFTGPU_TURNS="1")
        names = [folder + "/first", folder + "/second"]
        both = [subprocess.Popen([mps.program("timeline"), "20", "200000", name], env=env)
                for name in names]
        equal([process.wait(60 * mps.SLOW) for process in both], [0, 0])
        spans = sorted(span + (name,) for name in names for span in kernels(name))
        for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
            assert one == other or end <= begin, spans


def test_demo():
    """The demo tells its story, and the commands that it ends with work as they are."""
    done = run(harness.ROOT + "/tests/demo", env=dict(mps.clean_environment(), MPS_BUILD=mps.BUILD))
    titles = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    equal([title[3] for title in titles], list("123456"))
    contains(done.stdout, 'Client    ')
    contains(done.stdout, '"./fault" of user')
    _, _, after = done.stdout.partition("\nNext:\n")
    commands = [line.strip() for line in after.splitlines() if line.startswith("   ")]
    equal(len(commands), 3)
    with tempfile.TemporaryDirectory() as folder:
        env = no_driver(CUDA_MPS_PIPE_DIRECTORY=folder + "/pipe", CUDA_MPS_LOG_DIRECTORY=folder)
        try:
            run("sh", "-c", commands[0], env=env)
            run("sh", "-c", commands[1].replace("--seconds 30 &", "--rounds 1"), env=env)
            contains(run("sh", "-c", commands[2] + " --once", env=env).stdout, "COMMAND")
        finally:
            subprocess.run([CONTROL, "quit", "-t", "1"], env=env, check=False, timeout=60)


if __name__ == "__main__":
    harness.main(globals())
