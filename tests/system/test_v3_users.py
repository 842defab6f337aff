#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 180 s
# mostly waits
"""What the known users of NVIDIA's protocol 3 send, in their order: the KAI scheduler's control of a
node, NVIDIA's Dynamo guides, and scripts. Each part does with a reply what that user does with it."""

import os
import re
import shutil
import subprocess
import tempfile
import time

import harness
import mps
from harness import contains, equal, need_root, wait_for

# KAI waits so long for a command.
PATIENCE_S = 10
KAI_FILE = """[features.memacct]
enabled=true
audit_log=true

[features.context-share]
enabled=true
default_socket="off"

[servers.shared]
"""


def need_files():
    """-a is an option of builds with a library for TOML."""
    done = subprocess.run([mps.CONTROL, "-d", "-a", "/dev/null/none"], capture_output=True, text=True,
                          env={"CUDA_MPS_PIPE_DIRECTORY": "/dev/null/none"}, check=False)
    if "built without" in done.stderr:
        raise harness.Skip("without libtomlplusplus-dev")


class Kai(mps.Service):
    """A node of the KAI scheduler: it runs the daemon in the foreground, and drives it by commands."""

    def start(self):
        """It writes the file, removes an old socket, keeps a pipe as standard input, and waits for the
        socket."""
        file, sock = os.path.join(self.folder, "mps-control.toml"), self.pipe + "/control"
        for folder in self.pipe, self.log:
            os.makedirs(folder, 0o755, exist_ok=True)
        with open(file, "w", encoding="utf-8") as written:
            written.write(KAI_FILE)
        if os.path.exists(sock):
            os.unlink(sock)
        with open(os.path.join(self.folder, "daemon.out"), "ab") as out:
            self.daemon = subprocess.Popen(
                [mps.CONTROL, "-p", "3", "-m", "-f", "-a", file], stdin=subprocess.PIPE,
                env=dict(self.daemon_env, MPS_SERVER_USER="nobody"), stdout=out, stderr=out)
        wait_for("the socket", lambda: os.path.exists(sock), 60)

    def end_daemon(self):
        self.daemon.stdin.write(b"quit\n")
        self.daemon.stdin.close()
        equal(self.daemon.wait(60), 0)

    def kill_daemon(self):
        """A daemon that does not end."""
        self.daemon.kill()
        self.daemon.wait()
        self.daemon.stdin.close()

    def say(self, *words):
        """Status 0 and standard output with standard error; None: it failed."""
        done = subprocess.run([mps.CONTROL, "-p", "3", *words], env=self.env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S * mps.SLOW)
        return done.stdout if done.returncode == 0 else None

    # ---- namespaces, one for each container

    def directory(self, name):
        """The first absolute path in the reply; None: there is no such namespace."""
        said = self.say("namespace", "get", name, "shared", "pipe_directory")
        paths = [word for word in (said or "").replace("=", " ").replace(",", " ").split() if word[0] == "/"]
        return paths[0] if paths else None

    def cap(self, name, percentage):
        return self.say("namespace", "set", name, "--server=shared",
                        "--active-thread-percentage=%d" % percentage)

    def provide(self, name, percentage):
        path = self.directory(name)
        if not path:
            self.say("namespace", "create", name, "--server=shared")
            path = self.directory(name)
            assert path, name
            assert self.cap(name, percentage) is not None
        return path

    def release(self, name):
        return self.say("namespace", "delete", name, "--server=shared") is not None

    def names(self):
        """The own names among all words of the table."""
        words = self.say("namespace", "list", "--server=shared").replace(",", " ").split()
        return {word for word in words if re.fullmatch("kai_[a-z0-9_]+", word)}

    # ---- clients

    def pids(self):
        """The first fields that are PIDs."""
        fields = [line.split(",")[0] for line in
                  self.say("client", "list", "--format=csv,noheader").splitlines()]
        return [int(field) for field in fields if field.isdigit()]


def client(service, path, *args):
    process = service.popen("process1", *args, env={"CUDA_MPS_PIPE_DIRECTORY": path})
    wait_for("the client", lambda: "\n%d " % process.pid in service.command("ps").stdout)
    return process


def test_kai():
    """Containers get namespaces with a cap; a container's end, and the daemon's, are mended."""
    need_root()
    need_files()
    with Kai() as kai:
        # The namespace for nobody is capped, in case that somebody comes there.
        assert kai.cap("default", 10) is not None
        name = "kai_a1b2c3_" + "0123456789abcdef0123"
        equal(kai.directory(name), None)
        path = kai.provide(name, 25)
        equal(path, "%s/shared/%s" % (kai.pipe, name))
        equal(kai.provide(name, 25), path)
        equal(kai.names(), {name})

        process = client(kai, path, "--seconds", "60")
        equal(kai.pids(), [process.pid])
        stranger = client(kai, kai.pipe + "/shared/default", "--seconds", "60")
        rows = [line.split() for line in kai.command("ps", "-l").stdout.splitlines()[1:]]
        equal({int(row[0]): row[5] for row in rows}, {process.pid: "32", stranger.pid: "8"})
        equal(kai.release(name), False)  # it is tried again when the client has ended

        # Each client ends before its container does.
        for pid in kai.pids():
            began = time.monotonic()
            assert kai.say("client", "terminate", str(pid)) is not None
            assert time.monotonic() - began < PATIENCE_S * mps.SLOW
        for one in process, stranger:
            contains(str(kai.finish(one)), "810")
        wait_for("the end of the namespace", lambda: kai.release(name))
        equal(kai.names(), set())

        # The next daemon gets the same namespaces at the same paths, so a container's mount stays.
        path = kai.provide(name, 25)
        folder = os.stat(path).st_ino
        kai.end_daemon()
        kai.start()
        equal(kai.directory(name), None)
        equal(kai.provide(name, 25), path)
        equal(os.stat(path).st_ino, folder)
        kai.run_ok("process2", env={"CUDA_MPS_PIPE_DIRECTORY": path})
        kai.kill_daemon()
        kai.start()
        equal((kai.directory(name), kai.names()), (path, {name}))
        kai.run_ok("process2", env={"CUDA_MPS_PIPE_DIRECTORY": path})


DYNAMO_FILE = """
[servers.shared]
allowed_devices = "%s"
pinned_memory_limit = "128M"
active_thread_percentage = "50"
[servers.shared.namespaces.small]
pinned_memory_limit = "64M"
active_thread_percentage = "30"
"""


def test_dynamo():
    """A file with the same limits on each GPU; the lists; and the directory of a namespace."""
    need_files()
    folder = tempfile.mkdtemp(prefix="mps-")
    path = os.path.join(folder, "mps.toml")
    contains(subprocess.run([mps.CONTROL, "-p", "3", "-h"], capture_output=True, text=True, check=True).stdout,
             "\n  namespace list ")
    with mps.Service({"SOFTGPU_DEVICES": "2"}) as service:
        uuids = re.findall(r"GPU-[-0-9a-f]{36}", service.command("device", "list").stdout)
    with open(path, "w", encoding="utf-8") as file:
        file.write(DYNAMO_FILE % ",".join(uuids))
    with mps.Service({"SOFTGPU_DEVICES": "2"}, options=["-p", "3", "-a", path], background=True) as service:
        equal([line.split()[3] for line in service.command("-p", "3", "server", "list").stdout.splitlines()[1:]],
              ["Ready"])
        lines = service.command("-p", "3", "namespace", "list", "--server=shared").stdout.splitlines()
        contains(lines[0], "NAME")
        equal([line.split()[:5] for line in lines[1:]],
              [["small", "shared", "Ready", "64M", "30.00"], ["default", "shared", "Ready", "128M", "50.00"]])
        for names, mib in (("shared",), 128), (("shared", "small"), 64):
            for gpu in "01":
                out, _ = service.run_ok("limited_memory", "plain", str(256 << 10), env={
                    "CUDA_MPS_PIPE_DIRECTORY": "/".join((service.pipe, *names)), "CUDA_VISIBLE_DEVICES": gpu})
                first = re.search("^at first: (.*)$", out, re.M)[1]
                equal({int(number) for number in re.findall(r"\d+", first)}, {mib << 10}, names)
    shutil.rmtree(folder)


# A start script of a service with a user of its own; `set -e' ends it at the first failure.
SCRIPT = """
set -eu
ctl() { "$CONTROL" -p 3 "$@"; }
ctl server list >/dev/null
if ctl server list mcp >/dev/null 2>&1; then exit 3; fi
ctl server create mcp --uid=$OWNER --allowed-devices=0
ctl server list mcp >/dev/null
ctl namespace create app --server=mcp
ctl namespace set app --server=mcp --active-thread-percentage=50 --pinned-memory-limit=64M
directory=$(ctl namespace get app mcp pipe-directory)
test -S "$directory/control"
test "$(ctl server get mcp status)" = Ready
ctl server list mcp --format=csv,noheader | grep -q "^mcp,$OWNER,[0-9]*,Ready,"
ctl device list --server=mcp | grep -q GPU-
echo "$directory"
"""


def test_script():
    """The exit status tells whether a name exists, and `get' prints the bare value."""
    with mps.Service() as service:
        env = dict(service.env, CONTROL=mps.CONTROL, OWNER=str(os.getuid()))
        done = subprocess.run(["sh", "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout, done.stderr), (0, service.pipe + "/mcp/app\n", ""))
        process = client(service, done.stdout.strip(), "--seconds", "60")
        pid = str(process.pid)
        for field, want in (("server", "mcp"), ("maws-ns", r"mcp/app \(0\)"), ("device", "GPU-[-0-9a-f]{36}"),
                            ("linux-ns", "[0-9]+")):
            said = service.command("-p", "3", "client", "get", pid, field).stdout
            assert re.fullmatch(want + "\n", said), (field, said)
        service.command("-p", "3", "server", "delete", "mcp", "--force")
        contains(str(service.finish(process)), "process1")
        equal(service.command("server", "list", "--format=csv,noheader").stdout, "")


if __name__ == "__main__":
    harness.main(globals())
