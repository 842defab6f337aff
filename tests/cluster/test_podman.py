#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1200 s
"""Containers of podman as clients: by the specification of mps-control cdi, and nothing else."""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import contained  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
import podman_engine  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from podman_engine import Engine  # pylint: disable=wrong-import-position

DEVICE = ("--device", "mps.io/client=all")
# A user namespace of the container's own, as for a pod with hostUsers: false.
OWN_USERS = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")


def load_clients(engine, *programs):
    """An image of programs, a shell and the libraries of both: no GPU library, no client library."""
    with contained.Image(None, *programs, shutil.which("sh"), shutil.which("sleep")) as image:
        engine.load("client", image.path)


def write_spec(engine, pipe):
    done = engine.enter(mps.for_everybody(mps.CONTROL), "cdi", "--output", "/run/cdi/mps.json",
                        CUDA_MPS_PIPE_DIRECTORY=pipe)
    equal((done.returncode, done.stdout, done.stderr), (0, "", ""))


def run_ok(engine, program, options=()):
    done = engine.run("client", "/bin/" + program, options=(*DEVICE, *options))
    equal((done.returncode, done.stdout), (0, program + ": ok\n"), done.stderr)


def last_user(service):
    return int(service.control_log().rpartition("NEW CLIENT ")[2].split()[3].rstrip(":"))


def test_device():
    """The device alone makes a client of each container, whatever its users and rights are."""
    with mps.Service() as service, Engine() as engine:
        load_clients(engine, "process1")
        done = engine.run("client", "/bin/process1", options=DEVICE)
        assert done.returncode != 0, "without a specification"
        write_spec(engine, service.pipe)
        for options, uid in (((), 0), (("--user", "1000"), 1000), (("--read-only",), 0),
                             (("--user", "65534", "--cap-drop", "all", "--security-opt",
                               "no-new-privileges"), 65534),
                             (OWN_USERS, 100000), ((*OWN_USERS, "--user", "65534"), 165534)):
            run_ok(engine, "process1", options)
            equal(last_user(service), uid, options)
        before = service.control_log().count("NEW CLIENT")
        equal(engine.run("client", "/bin/process1").returncode, 1, "without the device")
        equal(service.control_log().count("NEW CLIENT"), before)


def test_kinds_of_memory():
    with mps.Service() as service, Engine() as engine:
        names = ("callbacks", "ipc_event", "managed", "pinned", "registered", "registered_private")
        load_clients(engine, *names)
        write_spec(engine, service.pipe)
        for name in names:
            run_ok(engine, name)


def test_variables_and_operator():
    """Limits by the container's variables; the operator sees the container, and terminates it."""
    with mps.Service() as service, Engine() as engine:
        load_clients(engine, "process1")
        write_spec(engine, service.pipe)
        process = engine.popen("client", "/bin/process1", "--seconds", "100", options=(
            *DEVICE, "--env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25", "--env",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G"))
        try:
            wait_for("its work", lambda: len(service.command("ps").stdout.splitlines()) == 2, 60)
            row = service.command("ps", "-l").stdout.splitlines()[1].split()
            equal(row[5:7], ["32", "1G"])
            service.command("terminate_client", str(service.server()), row[0])
            out, err = process.communicate(timeout=60)
            equal(process.returncode, 1, out + err)
            contains(out + err, "(810)")
        finally:
            process.kill()
            process.wait()


def test_restart_beside_a_container():
    """The mount stays valid while the daemon is replaced."""
    with mps.Service(background=True) as service, Engine() as engine:
        load_clients(engine, "process1")
        write_spec(engine, service.pipe)
        engine.ok("run", "--detach", "--name", "long", "--network", "none", *podman_engine.LIMITS,
                  *DEVICE, "localhost/client", "/bin/sleep", "600")
        # podman 4 gives exec no variables of a specification.
        run = ("exec", "--env", "LD_PRELOAD=/usr/lib/mps/libmpsclient.so", "--env",
               "MPS_CLIENT_REQUIRE=1", "long", "/bin/process1")
        equal(engine.ok(*run), "process1: ok\n")
        service.command("quit")
        wait_for("the daemon's end", lambda: not service.processes())
        equal(engine.podman_run(*run).returncode, 1)
        service.start()
        equal(engine.ok(*run), "process1: ok\n")
        engine.ok("rm", "--force", "--time", "0", "long")


def test_rootless():
    """An ordinary user's podman: the daemon belongs to root, or to that user."""
    uid = podman_engine.UID
    for owner in None, uid:
        with mps.Service(uid=owner) as service, Engine(is_rootless=True) as engine:
            load_clients(engine, "process1")
            write_spec(engine, service.pipe)
            run_ok(engine, "process1")
            equal(last_user(service), uid)
            if owner is None:
                run_ok(engine, "process1", ("--user", "1000"))
                equal(last_user(service), podman_engine.FIRST_UID + 999)
            # Two namespaces deep, no program can know whether root has a UID in the outer one.
            keep = ("--userns", "keep-id")
            if owner is None:
                done = engine.run("client", "/bin/process1", options=(*DEVICE, *keep))
                contains(done.stderr, "or set MPS_TRUST_UID=65534 if no other such user")
                keep += ("--env", "MPS_TRUST_UID=65534")
            run_ok(engine, "process1", keep)
            equal(last_user(service), uid)


# ---- the daemon in a container

def load_daemon(engine):
    """mps-control, mps-server, and the software GPU as the driver."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "mps-control", "mps-server":
            contained.copy_program(mps.BUILD + "/bin/" + name, folder)
        for name in "sh", "cat":
            contained.copy_program(shutil.which(name), folder)
        contained.copy_program(mps.SOFTGPU, folder, "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        os.makedirs(folder + "/var/log")
        os.chmod(folder, 0o755)
        engine.load("daemon", folder)


def check_daemon(options, has_pids):
    """Started, probed, used from other containers, ended by SIGTERM."""
    with Engine() as engine:
        load_daemon(engine)
        load_clients(engine, "process1")
        pipe = engine.folder + "/pipe"
        os.mkdir(pipe)
        write_spec(engine, pipe)
        for _ in range(2):
            engine.ok("run", "--detach", "--name", "daemon", "--network", "none", "--volume",
                      pipe + ":/tmp/nvidia-mps", *podman_engine.LIMITS, *options, "localhost/daemon",
                      "/bin/mps-control", "-f")
            probe = ("exec", "daemon", "/bin/mps-control", "get_server_list")
            wait_for("the probe", lambda: engine.podman_run(*probe).returncode == 0, 60)
            run_ok(engine, "process1", OWN_USERS)
            process = engine.popen("client", "/bin/process1", "--seconds", "100",
                                   options=(*DEVICE, "--name", "work"))
            ask = ("exec", "daemon", "/bin/mps-control", "ps")
            wait_for("its work", lambda: len(engine.ok(*ask).splitlines()) == 2, 60)
            pid = int(engine.ok(*ask).splitlines()[1].split()[0])
            assert (pid > 0) == has_pids, pid
            engine.ok("kill", "work")
            process.communicate(timeout=60)
            wait_for("its end", lambda: len(engine.ok(*ask).splitlines()) == 1, 60)
            engine.ok("stop", "--time", "30", "daemon")
            equal(engine.ok("inspect", "--format", "{{.State.ExitCode}}", "daemon"), "0\n")
            contains(engine.ok("logs", "daemon"), "NEW CLIENT")
            engine.ok("rm", "daemon")


def test_daemon():
    """With namespaces of its own, as in docs/kubernetes/daemonset.yaml."""
    check_daemon((), has_pids=False)


def test_daemon_with_host_pids():
    check_daemon(("--pid", "host"), has_pids=True)


if __name__ == "__main__":
    harness.main(globals())
