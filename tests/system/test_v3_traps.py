#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# mostly waits
"""Traps that users of NVIDIA's protocol 3 report, and what holds here."""

import json
import os
import re
import socket
import subprocess
import time

import harness
import mps
import terminations
from harness import contains, equal, need_root, wait_for
from test_config_file import Service as ServiceOfFile

MIB = 1 << 10  # KiB, as the program prints
GRACE_S = 1
# A server's time limit for ending a client's work, and the extra time of a command.
TERMINATE_S = GRACE_S + 5 + 1


def at(service, *names):
    return {"CUDA_MPS_PIPE_DIRECTORY": "/".join((service.pipe, *names))}


def pool(service, *namespaces):
    service.command("server", "create", "pool")
    for name in namespaces:
        service.command("namespace", "create", name, "--server=pool")


def limits_shown(service, kib, env):
    """Free and total memory, and that of the properties, as the client sees them at first."""
    out, _ = service.run_ok("limited_memory", "plain", str(kib), env=env)
    return {int(number) for number in re.findall(r"\d+", re.search("^at first: (.*)$", out, re.M)[1])}


def sms_of(service, process):
    """The SMs of a client, as the text of `ps -l' has them."""
    def row():
        return [line.split() for line in service.command("ps", "-l").stdout.splitlines()
                if line.startswith("%d " % process.pid)]
    return int(wait_for("the client", row)[0][5])


def test_namespaces_without_limits():
    """The defaults of the daemon bind the clients of every namespace."""
    with mps.Service() as service:
        service.command("set_default_active_thread_percentage", "50")
        service.command("set_default_device_pinned_mem_limit", "0", "64M")
        pool(service, "small")
        for names in ("pool",), ("pool", "small"):
            process = service.popen("process1", "--seconds", "20", env=at(service, *names))
            equal(sms_of(service, process), 64, names)
            process.kill()
            service.finish(process)
            equal(limits_shown(service, 128 << 10, at(service, *names)), {64 * MIB}, names)


def test_gpu_that_a_client_does_not_see():
    """An entry for it in the environment changes nothing: the namespace's limit holds, and the
    client's other entries do."""
    with mps.Service() as service:
        pool(service, "small")
        service.command("namespace", "set", "small", "--server=pool", "--pinned-memory-limit=128M",
                        "--active-thread-percentage=50")
        for value, limit in ("7=1M", 128), ("7=1M,0=64M", 64), ("0=512M,GPU-00000000=1M", 128):
            env = dict(at(service, "pool", "small"), CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=value)
            equal(limits_shown(service, 256 << 10, env), {limit * MIB}, value)


def test_environment_only_lowers():
    """A client gets the lower of its own wish and of its namespace's limit."""
    with mps.Service() as service:
        pool(service, "small")
        service.command("namespace", "set", "small", "--server=pool", "--active-thread-percentage=25",
                        "--client-priority=1")
        for wish, sms in ("100", 32), ("50", 32), ("10", 8):
            env = dict(at(service, "pool", "small"), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=wish,
                       CUDA_MPS_CLIENT_PRIORITY="0")
            process = service.popen("process1", "--seconds", "20", env=env)
            equal(sms_of(service, process), sms, wish)
            row, = json.loads(service.command("ps", "--json").stdout)["clients"]
            equal(row["priority"], 1)
            process.kill()
            service.finish(process)
            wait_for("its end", lambda: not json.loads(service.command("ps", "--json").stdout)["clients"])


def test_total_memory():
    """cuMemGetInfo and the properties show a namespace's limit as the total."""
    with mps.Service() as service:
        pool(service, "small")
        service.command("namespace", "set", "small", "--server=pool", "--pinned-memory-limit=96M")
        equal(limits_shown(service, 256 << 10, at(service, "pool", "small")), {96 * MIB})


def test_long_path_of_a_namespace():
    """The refusal has its length, and nothing is left of the namespace."""
    with mps.Service() as service:
        server, name = "y" * 40, "x" * 64
        length = len("/".join((service.pipe, server, name, "control")))
        service.command("server", "create", server)
        done = service.command("namespace", "create", name, "--server=" + server, check=False)
        equal(done.returncode, 1)
        contains(done.stdout, "has %d bytes, more than the system's limit of 107" % length)
        assert name not in service.command("namespace", "list").stdout


def test_cap_of_running_clients():
    """A percentage counts for later clients, which the command says; no client has to end for it."""
    with mps.Service() as service:
        pool(service, "small")
        first = service.popen("process1", "--seconds", "30", env=at(service, "pool", "small"))
        equal(sms_of(service, first), 132)
        done = service.command("namespace", "set", "small", "--server=pool", "--active-thread-percentage=25")
        contains(done.stderr, "counts for clients that come from now on, and not for the 1 that is there")
        second = service.popen("process1", "--seconds", "30", env=at(service, "pool", "small"))
        equal(sms_of(service, second), 32)
        equal(sms_of(service, first), 132)


def test_root_in_a_container():
    """With one server for all, who connects in a namespace's directory owns nothing, root or not."""
    need_root()
    service = mps.Service(options=["-p", "3", "-m"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        pool(service, "small")
        for words in (("namespace", "set", "small", "--server=pool", "--active-thread-percentage=100"),
                      ("namespace", "create", "other", "--server=pool"),
                      ("namespace", "delete", "small", "--server=pool"),
                      ("server", "set", "pool", "--client-priority=1"), ("server", "delete", "pool"),
                      ("server", "create", "other"), ("quit",)):
            done = subprocess.run([mps.CONTROL, "--strict", *words], capture_output=True, text=True,
                                  env=dict(service.env, **at(service, "pool", "small")), check=False)
            equal(done.returncode, 1, words)
        equal(len(service.command("namespace", "list", "--format=csv,noheader").stdout.splitlines()), 2)
        # At the daemon's own socket, root is the operator.
        service.command("namespace", "set", "small", "--server=pool", "--active-thread-percentage=50")


def test_trusted_root_in_a_container():
    """... unless the file says so, from then on."""
    need_root()
    service = ServiceOfFile("[daemon]\n", options=["-p", "3", "-m"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        pool(service, "small")
        inside = dict(service.env, **at(service, "pool", "small"))
        words = [mps.CONTROL, "namespace", "set", "small", "--server=pool", "--active-thread-percentage=50"]
        equal(subprocess.run(words, capture_output=True, env=inside, check=False).returncode, 1)
        equal(service.reload("[daemon]\ntrust_container_root = yes\n"), "trust_container_root: yes (was no)\n")
        equal(subprocess.run(words, capture_output=True, env=inside, check=False).returncode, 0)


def test_deleted_server_stays_deleted():
    """... also if the daemon dies with its answer."""
    with mps.Service() as service:
        pool(service, "small")
        os.kill(int(service.command("server", "get", "pool", "pid").stdout), 9)
        wait_for("its end", lambda: service.command("server", "get", "pool", "status").stdout == "Stopped\n")
        with socket.socket(socket.AF_UNIX) as command:
            command.connect(service.pipe + "/control")
            command.sendall(b"server delete pool\n")
            command.shutdown(socket.SHUT_WR)
            equal(command.recv(1), b"")
            service.daemon.kill()
        service.daemon.wait()
        service.start()
        equal(service.command("server", "list", "--format=csv,noheader").stdout, "")


def test_what_a_dead_daemon_leaves():
    """Sockets that no record has go away, with their directories; those of namespaces stay."""
    with mps.Service() as service:
        pool(service, "small")
        for path in "gone/default", "pool/gone", "kept/file", "other":
            os.makedirs("%s/%s" % (service.pipe, path))
        # The directory of another daemon may lie below this one's.
        living = socket.socket(socket.AF_UNIX)
        living.bind(service.pipe + "/other/control")
        living.listen()
        with socket.socket(socket.AF_UNIX) as stale, socket.socket(socket.AF_UNIX) as other:
            stale.bind(service.pipe + "/gone/default/control")
            os.link(service.pipe + "/gone/default/control", service.pipe + "/gone/control")
            other.bind(service.pipe + "/pool/gone/control")
        with open(service.pipe + "/kept/file/control", "w", encoding="utf-8"):
            pass
        service.restart_killed()
        found = {path: os.path.exists("%s/%s" % (service.pipe, path)) for path in (
            "gone", "pool/gone", "kept/file/control", "other/control", "pool/default/control", "pool/control",
            "pool/small/control")}
        living.close()
        equal([path for path in found if not found[path]], ["gone", "pool/gone"])
        service.run_ok("process1", env=at(service, "pool", "small"))


def test_terminate_is_bounded():
    """A kernel that never ends delays the command for its grace only; the server is replaced."""
    with mps.Service({"MPS_GRACE_MS": str(GRACE_S * 1000)}) as service:
        pool(service, "small")
        client = terminations.running(service, "stuck", "kernel", env=at(service, "pool", "small"))
        server = service.command("server", "get", "pool", "pid").stdout
        began = time.monotonic()
        service.command("client", "terminate", str(client.pid))
        assert time.monotonic() - began < TERMINATE_S * mps.SLOW
        contains(service.finish(client)[1], "(810)")
        service.run_ok("process2", env=at(service, "pool", "small"))
        assert service.command("server", "get", "pool", "pid").stdout != server


def test_driver_is_free():
    """The daemon has no driver loaded and no GPU open, so a driver can be replaced once no server
    runs: a named server ends with `server delete'."""
    with mps.Service() as service:
        pool(service)
        with open("/proc/%d/maps" % service.daemon.pid, encoding="utf-8") as file:
            assert "libcuda" not in file.read()
        assert not [path for path in mps.open_files(service.daemon.pid) if "/dev/nvidia" in path]
        service.command("server", "delete", "pool")
        equal(service.servers(), [])


def test_dead_server():
    """A client of a named server whose process was killed gets another process of that server."""
    with mps.Service() as service:
        pool(service, "small")
        os.kill(int(service.command("server", "get", "pool", "pid").stdout), 9)
        wait_for("its end", lambda: service.command("server", "get", "pool", "status").stdout == "Stopped\n")
        service.run_ok("process2", env=at(service, "pool", "small"))
        equal(service.command("server", "get", "pool", "status").stdout, "Ready\n")


if __name__ == "__main__":
    harness.main(globals())
