#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Clients in containers, which share nothing with the host but two mounts.

The containers are made by unshare() (container.py); tests/cluster/test_podman.py has those of an
engine.
"""

import json
import os
import re
import subprocess

import container
import contained
import harness
import mps
from contained import Image
from harness import Skip, contains, equal, need_root, wait_for

USER = 1000


def first_uid():
    """The UID that root of a container has outside."""
    return container.FIRST_UID if os.geteuid() == 0 else os.geteuid()


def check_client(service, uid):
    """The last client is of this user."""
    found = re.findall(r"NEW CLIENT (\d+) from user (\d+)", service.control_log())
    assert found, service.control_log()
    equal(int(found[-1][1]), uid)
    return int(found[-1][0])


def test_all_namespaces():
    """The library is preloaded, or found as libcuda.so.1."""
    with mps.Service() as service, Image(service, "process1") as image:
        image.run_ok("process1")
        assert check_client(service, first_uid()) > 0
        image.run_ok("process1", env=contained.PRELOAD[1:])
        equal(service.control_log().count("NEW CLIENT"), 2)


def test_users():
    """A user of the container is another user outside, with a server of its own."""
    need_root()
    with mps.Service() as service, Image(service, "process1") as image:
        for uid in 0, USER, container.N_UIDS - 1:
            image.run_ok("process1", uid=uid)
            check_client(service, container.FIRST_UID + uid)
        equal(len(service.servers()), 3)


def test_id_mapped_mounts():
    """Kubernetes mounts volumes so for a pod with users of its own: the files belong to root there."""
    need_root()
    with mps.Service() as service, Image(service, "process1", "/bin/ls") as image:
        mapped = ("--id-mapped",)
        code, out, err = image.run("ls", "-ln", contained.PIPE, env=(), options=mapped)
        equal(code, 0, err)
        assert re.search(r" 1 0 0 .* control$", out, re.M), out
        for uid in 0, USER, 65534:
            image.run_ok("process1", uid=uid, options=mapped)
            check_client(service, container.FIRST_UID + uid)


def test_shared_namespaces():
    """Without the user namespace the users are those of the host, as in most clusters."""
    need_root()
    with mps.Service() as service, Image(service, "process1") as image:
        for share in ("user",), ("pid",), ("ipc", "net", "uts"), ("user", "pid"):
            for uid in 0, USER:
                image.run_ok("process1", uid=uid, share=share)
                check_client(service, uid + (0 if "user" in share else container.FIRST_UID))


def test_kinds_of_memory():
    """Memory that client and server share, IPC between processes, descriptors, callbacks."""
    names = ("callbacks", "ipc_event", "managed", "pinned", "registered", "registered_private",
             "stream_alloc")
    with mps.Service() as service, Image(service, *names) as image:
        for name in names:
            image.run_ok(name)


def test_other_pipe_directory():
    """Without the mount, the sentence says what to do, and nothing runs beside the service."""
    with mps.Service() as service, Image(service, "process1") as image:
        code, _, err = image.run("process1", mounts=(os.path.dirname(mps.for_everybody(mps.LIBRARY))
                                                     + ":" + contained.LIBRARY,))
        equal(code, 1, err)
        contains(err, "MPS_CLIENT_REQUIRE=1 forbids running without MPS")


def test_parent_mount_is_not_enough():
    """The directory itself has to be mounted: below another mount, a stranger could have made it."""
    need_root()
    with mps.Service() as service, Image(service, "process1") as image:
        library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
        mounts = (service.folder + ":" + contained.PIPE, library + ":" + contained.LIBRARY)
        env = (*contained.PRELOAD, "CUDA_MPS_PIPE_DIRECTORY=" + contained.PIPE + "/pipe")
        for uid in 0, USER, 65534:
            code, _, err = image.run("process1", mounts=mounts, env=env, uid=uid)
            equal(code, 1, err)
            contains(err, "belongs to UID 65534, which stands for every user without a UID")
            contains(err, "mount the directory itself into the container")
            image.run_ok("process1", mounts=mounts, env=(*env, "MPS_TRUST_UID=65534"), uid=uid)


def rows(service):
    """The clients with a context, as lists of the words of ps."""
    return [line.split() for line in service.command("ps").stdout.splitlines()[1:]]


def running(service, image, n=1, **more):
    """A client in a container, the nth that runs."""
    process = image.popen("process1", "--seconds", "100", **more)
    wait_for("its work, or its end", lambda: process.poll() is not None or len(rows(service)) == n)
    if process.poll() == container.REFUSED:
        raise Skip("this machine allows no containers: " + process.stderr.read())
    equal(process.poll(), None, "the client")
    return process


def test_operator():
    """The operator sees the PID outside and the namespace, and terminates the client by that PID."""
    with mps.Service() as service, Image(service, "process1") as image:
        process = running(service, image)
        pid = check_client(service, first_uid())
        row = rows(service)[0]
        equal((int(row[0]), row[5]), (pid, "/bin/process1"))
        assert int(row[4]) != os.stat("/proc/self/ns/pid").st_ino, row
        equal(service.command("terminate_client", str(service.server()), str(pid)).stdout, "0\n")
        code, out, err = service.finish(process)
        equal(code, 1, out + err)
        contains(out + err, "(810)")


def test_killed():
    """The container is killed: nothing of it is left in the server."""
    with mps.Service() as service, Image(service, "process1") as image:
        process = running(service, image)
        process.kill()
        process.wait()
        wait_for("no clients", lambda: not service.clients())
        image.run_ok("process1")


# ---- the daemon in a container

def need_pid_namespaces():
    need_root()
    if subprocess.run(["unshare", "--pid", "--mount-proc", "--fork", "true"], check=False,
                      capture_output=True).returncode != 0:
        raise Skip("this machine allows no PID namespaces")


def without_host_pid():
    """A service whose daemon has namespaces of its own, as a pod without hostPID and hostIPC."""
    need_pid_namespaces()
    return mps.Service(launcher=["unshare", "--pid", "--mount-proc", "--ipc", "--uts", "--net",
                                 "--fork", "--kill-child"])


def test_daemon_without_host_pid():
    """Clients are served. Without their PIDs they cannot be told apart, or terminated."""
    with without_host_pid() as service, Image(service, "process1") as image:
        first = running(service, image)
        second = running(service, image, n=2, share=("user",))
        equal(len(service.servers()), 2, "of two users")
        for server in service.servers():
            equal(service.clients(server), [0])
            equal(service.command("terminate_client", str(server), "0").stdout, "201\n")
            equal(service.command("get_server_status", str(server)).stdout, "ACTIVE\n")
        equal([(row[0], row[4]) for row in rows(service)], [("0", "0")] * 2)
        # The end of a client does not depend on its PID.
        first.kill()
        first.wait()
        wait_for("one client", lambda: len(rows(service)) == 1)
        equal(second.poll(), None, "the other client")
        second.kill()
        second.wait()
        wait_for("no client", lambda: not rows(service))


def test_groups_without_host_pid():
    """A group is named; that of a cgroup is not found."""
    with without_host_pid() as service, Image(service, "process1") as image:
        service.command("group", "create", "team", "-priority", "1")
        running(service, image, env=(*contained.PRELOAD, "MPS_GROUP=team"))
        contains(service.command("ps", "-l").stdout, " team ")
    service = without_host_pid()
    service.daemon_env["MPS_GROUP_BY_CGROUP"] = "1"
    with service, Image(service, "process1") as image:
        code, out, err = image.run("process1")
        equal(code, 1, out)
        contains(err, "Cannot determine the cgroup of process 0")


def test_fault_without_host_pid():
    """The fault's cause is known by command and user, without a PID."""
    with without_host_pid() as service, Image(service, "process1", "fault") as image:
        code, out, err = image.run("fault")
        equal(code, 0, out + err)
        fault, = json.loads(service.command("get_last_fault", "--json").stdout)
        equal((fault["certain"], [(c["pid"], c["uid"], c["command"]) for c in fault["clients"]]),
              (True, [(0, container.FIRST_UID, "/bin/fault")]))
        image.run_ok("process1")


def test_daemon_without_host_pid_ends():
    """With the daemon, the kernel ends its servers: their clients get an error at once."""
    with without_host_pid() as service, Image(service, "process1") as image:
        process = running(service, image)
        service.daemon.kill()
        service.daemon.wait()
        code, out, err = service.finish(process)
        equal(code, 1, out + err)
        contains(out + err, "(806)")
        service.start()
        image.run_ok("process1")


if __name__ == "__main__":
    harness.main(globals())
