#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 180 s
# mostly waits
"""Which process a client trusts as the service: never a stranger, even one that was there first."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import harness
import mps
from harness import Skip, contains, equal, need_mounts, need_root, wait_for

STRANGER, USER = 1001, 1002
NATIVE = "uses the GPU without MPS"


@contextlib.contextmanager
def squatter(mode=0o755):
    """The directory of a stranger: a process that listens there and never replies."""
    need_root()
    folder = tempfile.mkdtemp(prefix="mps-squat-")
    os.chmod(folder, 0o755)
    pipe = folder + "/pipe"
    os.mkdir(pipe)
    child = os.fork()
    if child == 0:
        os.chown(pipe, STRANGER, STRANGER)
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(pipe + "/control")
        os.chmod(pipe + "/control", 0o666)
        sock.listen(16)
        time.sleep(600)
        os._exit(0)
    try:
        wait_for("the stranger", lambda: os.path.exists(pipe + "/control")
                 and os.stat(pipe + "/control").st_mode & 0o777 == 0o666)
        os.chmod(pipe, mode)
        yield pipe
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        subprocess.run(["rm", "-rf", folder], check=True)


def as_user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def run(service, program, env=None, **more):
    """(exit code, output, seconds)"""
    began = time.monotonic()
    code, out, err = service.run(program, env=env, **more)
    return code, out + err, time.monotonic() - began


def test_clients_of_a_squatter():
    with mps.Service() as service, squatter() as pipe:
        for more in {}, as_user(USER):
            code, said, seconds = run(service, "process1", {"CUDA_MPS_PIPE_DIRECTORY": pipe}, **more)
            equal(code, 0, said)
            contains(said, "belongs to UID %d, neither root nor UID" % STRANGER)
            contains(said, NATIVE)
            assert seconds < 5 * mps.SLOW, seconds
            code, said, seconds = run(service, "process1", {"CUDA_MPS_PIPE_DIRECTORY": pipe,
                                                            "MPS_CLIENT_REQUIRE": "1"}, **more)
            equal(code, 1, said)
            contains(said, "MPS_CLIENT_REQUIRE=1 forbids running without MPS")
            assert seconds < 5 * mps.SLOW, seconds


def test_directory_that_others_can_write():
    """The socket in it may belong to root: any user could put another one there."""
    with mps.Service() as service:
        service.run_ok("process1")
        for mode in 0o777, 0o1777, 0o775:
            os.chmod(service.pipe, mode)
            code, said, _ = run(service, "process1")
            equal(code, 0, said)
            contains(said, "other users can write to %s (mode %04o)" % (service.pipe, mode))
            contains(said, "chmod go-w")
            contains(said, NATIVE)
            done = service.command("get_server_list", check=False)
            equal((done.returncode, done.stdout), (1, "Cannot find MPS control daemon process\n"))
            contains(done.stderr, "chmod go-w")
        os.chmod(service.pipe, 0o755)
        service.run_ok("process1")


def test_daemon_of_a_squatted_directory():
    """The daemon does not start, and prints what to do."""
    with squatter() as pipe:
        folder = os.path.dirname(pipe)
        env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=pipe, CUDA_MPS_LOG_DIRECTORY=folder + "/log")
        done = subprocess.run([mps.CONTROL, "-d"], env=env, capture_output=True, text=True, check=False)
        equal(done.returncode, 1)
        for part in ("belongs to UID %d" % STRANGER, "rm -r %s" % pipe, "created at boot"):
            contains(done.stderr, part)
        os.chown(pipe, 0, 0)
        os.chmod(pipe, 0o777)
        done = subprocess.run([mps.CONTROL, "-d"], env=env, capture_output=True, text=True, check=False)
        equal(done.returncode, 1)
        contains(done.stderr, "chmod go-w %s" % pipe)


def test_front_end_of_a_squatter():
    with mps.Service() as service, squatter() as pipe:
        env = dict(service.env, CUDA_MPS_PIPE_DIRECTORY=pipe)
        began = time.monotonic()
        done = subprocess.run([mps.CONTROL, "get_server_list"], env=env, capture_output=True, text=True,
                              check=False, timeout=30)
        assert time.monotonic() - began < 3 * mps.SLOW
        equal((done.returncode, done.stdout), (1, "Cannot find MPS control daemon process\n"))
        contains(done.stderr, "belongs to UID %d" % STRANGER)


def test_front_end_of_an_unresponsive_daemon():
    with mps.Service() as service:
        os.kill(service.daemon.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            done = service.command("get_server_list", check=False, timeout=60)
            assert 10 < time.monotonic() - began < 30 * mps.SLOW
        finally:
            os.kill(service.daemon.pid, signal.SIGCONT)
        equal((done.returncode, done.stdout), (1, "Cannot send command to MPS control daemon process\n"))
        contains(done.stderr, "the daemon is running but does not answer")
        service.command("get_server_list")


# ---- user namespaces

def in_namespace(service, setup, *options, env=None):
    """process1 as an ordinary user in a user namespace, after root has run `setup' outside."""
    need_mounts()
    script = """%s
        exec setpriv --reuid %d --regid %d --clear-groups \
        unshare --user %s -- "$0" """ % (setup, USER, USER, " ".join(options))
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, mps.program("process1")],
                          env=service.client_env(**(env or {})), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60 * mps.SLOW, check=False)
    if "unshare failed" in done.stderr:
        raise Skip("no user namespaces: %s" % done.stderr)
    equal((done.returncode, done.stdout), (0, "process1: ok\n"), done.stderr)
    return done.stderr


def test_user_namespace():
    """Root has no UID there, and every stranger looks like root: only a separate mount decides."""
    with mps.Service() as service:
        for options in ("--map-user=%d" % USER,), ():
            said = in_namespace(service, "", *options)
            contains(said, "belongs to UID 65534, which stands for every user without a UID in this "
                           "user namespace")
            contains(said, NATIVE)
            said = in_namespace(service, "", *options, env={"MPS_TRUST_UID": "65534"})
            assert NATIVE not in said, said
            said = in_namespace(service, "mount --bind %s %s" % (service.pipe, service.pipe), *options)
            assert NATIVE not in said, said


def test_user_namespace_with_a_stranger():
    """A listener without a separate mount is not trusted as root."""
    with mps.Service() as service, squatter() as pipe:
        service.env["CUDA_MPS_PIPE_DIRECTORY"] = pipe
        try:
            contains(in_namespace(service, "", "--map-user=%d" % USER), NATIVE)
        finally:
            service.env["CUDA_MPS_PIPE_DIRECTORY"] = service.pipe


SETUID = r"""
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;

	printf("%d\n", init ? init(0) : argc);
	return 0;
}
"""


def test_setuid_program():
    """Its caller names neither the daemon nor whom to trust."""
    need_root()
    with squatter() as pipe, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            raise Skip("%s ignores setuid" % folder)
        program, library = folder + "/program", folder + "/libcuda.so.1"
        shutil.copy(mps.LIBRARY, library)
        subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-", "-o", program, "-ldl"], input=SETUID,
                       text=True, check=True)
        os.chmod(program, 0o4755)
        log = folder + "/log"
        os.mkdir(log)
        os.chmod(log, 0o777)
        done = subprocess.run(
            [program, library], text=True, capture_output=True, check=False, timeout=30 * mps.SLOW,
            env={"CUDA_MPS_PIPE_DIRECTORY": pipe, "MPS_TRUST_UID": str(STRANGER),
                 "MPS_CLIENT_REQUIRE": "1", "MPS_CLIENT_LOG": "debug," + log + "/log",
                 "MPS_CLIENT_TRACE": log + "/trace"}, **as_user(USER))
        equal(os.listdir(log), [])
        assert pipe not in done.stderr, done.stderr


if __name__ == "__main__":
    harness.main(globals())
