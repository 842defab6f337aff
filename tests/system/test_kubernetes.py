#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""What runs NVIDIA's daemon in Kubernetes runs ours: the device plugin, the DRA driver, GKE's plugin.

Each test does what that program does, in its order: the directories, the environment, the commands
and how they are sent, what is made of replies and exit statuses, the probes, and the end.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import contained
import harness
import mps
from contained import PRELOAD, Image
from harness import Skip, contains, equal, need_mounts, wait_for

CONTROL = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"
UUID = "GPU-536f6674-4750-5580-8001-%012x"
HEALTH = "get_default_active_thread_percentage"
# How long a command may take before the plugin's user would call it hanging.
PATIENCE_S = 60 * mps.SLOW


def link_names(folder):
    """The vendor's names, as make install-compat makes them."""
    os.makedirs(folder)
    for name, ours in (CONTROL, mps.CONTROL), (SERVER, mps.CONTROL.replace("control", "server")):
        os.symlink(mps.for_everybody(ours), folder + "/" + name)


# ---- NVIDIA's device plugin: one daemon for each resource, in a privileged pod

class Resource(mps.Service):
    """The daemon of one resource, with the directories and the environment of the device plugin."""

    def __init__(self, name="nvidia.com/gpu.shared", settings=None, share_of_sms="50",
                 limits=(("0", "2048M"),)):
        super().__init__(settings)
        self.name, self.share_of_sms, self.limits = name, share_of_sms, limits
        self.pipe = "%s/mps/%s/pipe" % (self.folder, name)
        self.log = "%s/mps/%s/log" % (self.folder, name)
        self.started_file = "%s/mps/%s/.started" % (self.folder, name)
        os.symlink(self.log, self.folder + "/log")  # where mps.py looks
        link_names(self.folder + "/bin")
        self.control = self.folder + "/bin/" + CONTROL
        # Nothing else: no PATH, no HOME. The rest is of the software GPU.
        gpu = ("SOFTGPU_", "MPS_CUDA_LIBRARY", "MPS_SERVER_ENV", "MPS_GRACE_MS", "ASAN_", "GCOV_")
        self.daemon_env = {k: v for k, v in self.daemon_env.items() if k.startswith(gpu)}
        for env in self.daemon_env, self.env:
            env.update(CUDA_MPS_PIPE_DIRECTORY=self.pipe, CUDA_MPS_LOG_DIRECTORY=self.log)
        self.tail = None

    def start_daemon(self):
        return subprocess.run([self.control, "-d"], env=self.daemon_env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def start(self):
        os.makedirs(self.pipe, 0o755, exist_ok=True)
        os.makedirs(self.log, 0o755, exist_ok=True)
        done = self.start_daemon()
        equal((done.returncode, done.stdout, done.stderr), (0, "", ""))
        for index, limit in self.limits:
            self.echo("set_default_device_pinned_mem_limit %s %s" % (index, limit))
        self.echo("set_default_active_thread_percentage " + self.share_of_sms)
        with open(self.started_file, "w", encoding="ascii"):
            pass
        # It has to be there by now.
        self.tail = subprocess.Popen(["tail", "-n", "+1", "-f", self.log + "/control.log"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(self.tail)

    def send(self, command):
        """(exit status, output): on a pipe, without a newline; what is said of errors is dropped."""
        done = subprocess.run([self.control], env=self.daemon_env, input=command, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE_S,
                              check=False)
        return done.returncode, done.stdout

    def echo(self, command):
        status, out = self.send(command)
        equal(status, 0, "%s: %s" % (command, out))
        return out

    def assert_healthy(self):
        equal(self.echo(HEALTH).strip(), self.share_of_sms + ".0")

    def end_tail(self):
        self.tail.kill()
        return self.tail.communicate()[0]

    def stop_plugin(self):
        """The plugin's pod ends in good order."""
        self.echo("quit")
        lines = self.end_tail()
        os.remove(self.started_file)
        shutil.rmtree(self.log)
        return lines

    def kill_pod(self):
        """Every process of the pod's cgroup is killed."""
        self.end_tail()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for("the pod's end", lambda: not self.processes())

    def pod(self, image, program, *arguments, **more):
        """A client in a pod: the plugin mounts the pipe directory by the name that it has there."""
        pipe = "/mps/" + self.name + "/pipe"
        library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
        return image.popen(program, *arguments, share=contained.pod_share(),
                           mounts=(self.pipe + ":" + pipe, library + ":" + contained.LIBRARY),
                           env=(*PRELOAD, "CUDA_MPS_PIPE_DIRECTORY=" + pipe), **more)


def is_gone(resource):
    """What scripts look for: the PID file and the processes."""
    return not resource.processes() and not os.path.exists(resource.pipe + "/" + CONTROL + ".pid")


def test_device_plugin():
    """Start, limits, health, a client, a stop with nothing left; then again in the same place."""
    with Resource() as resource:
        for _ in range(2):
            resource.assert_healthy()
            resource.run_ok("process1")
            server = resource.server()
            equal(resource.echo("get_device_pinned_mem_limit %d 0" % server), "2G\n")
            equal(resource.echo("get_active_thread_percentage %d" % server), "50.0\n")
            names = {mps.command_line(pid).split()[0].rpartition("/")[2] for pid in
                     [server, resource.daemon_pid()]}
            equal(names, {CONTROL, SERVER})
            lines = resource.stop_plugin()
            contains(lines, "Starting control daemon using socket %s/control" % resource.pipe)
            contains(lines, "NEW CLIENT")
            assert is_gone(resource), resource.processes()
            equal(resource.send(HEALTH), (1, "Cannot find MPS control daemon process\n"))
            resource.start()


def test_device_plugin_pods():
    """Clients in pods with IPC and PIDs of their own, each within the limits; the UI in a third pod."""
    with Resource() as resource, Image(resource, "process1", mps.CONTROL) as image:
        pods = [resource.pod(image, "process1", "--seconds", "100") for _ in range(2)]

        def rows():
            return [line.split() for line in resource.echo("ps -l").splitlines()[1:]]

        wait_for("two pods, or an end", lambda: len(rows()) == 2 or
                 any(pod.poll() is not None for pod in pods))
        if contained.REFUSED in [pod.poll() for pod in pods]:
            raise Skip("this machine allows no containers: " + pods[0].stderr.read())
        equal([(row[5], row[6], row[9]) for row in rows()], [("64", "2G", "ACTIVE")] * 2)
        equal(service_health(resource, image), (0, "50.0\n"))
        for pod in pods:
            pod.kill()
            pod.wait()
        wait_for("no pods", lambda: not rows())
        resource.stop_plugin()
        equal(service_health(resource, image), (1, "Cannot find MPS control daemon process\n"))


def service_health(resource, image):
    """The plugin's own probe, from another pod: only the pipe directory is the same."""
    words = image.words("mps-control", share=contained.pod_share(), env=(),
                        mounts=(resource.pipe + ":" + contained.PIPE,))
    done = subprocess.run(words, input=HEALTH, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout


def test_device_plugin_is_killed():
    """The pod ends without quit, beside a client; the next one starts in the same directories."""
    with Resource() as resource:
        for _ in range(3):
            client = resource.popen("process1", "--seconds", "100")
            resource.wait_for_active(client)
            resource.kill_pod()
            assert os.path.exists(resource.pipe + "/control"), "a stale socket"
            equal(resource.send(HEALTH)[0], 1)
            resource.start()
            resource.assert_healthy()
            resource.run_ok("process1")


def test_device_plugin_tries_again():
    """A start that failed half-way is repeated; a second daemon leaves the first one alone."""
    with Resource() as resource:
        pid = resource.daemon_pid()
        done = resource.start_daemon()
        equal((done.returncode, done.stdout), (1, "An instance of this daemon is already running\n"))
        equal(resource.daemon_pid(), pid)
        resource.assert_healthy()
        # A GPU that is not there changes no exit status.
        equal(resource.send("set_default_device_pinned_mem_limit 7 1024M")[0], 0)


def test_device_plugin_stops_beside_clients():
    """quit waits for the client, and the daemon stays healthy meanwhile."""
    with Resource() as resource:
        client = resource.popen("process1", "--seconds", "100")
        resource.wait_for_active(client)
        status = []
        stop = threading.Thread(target=lambda: status.append(resource.send("quit")))
        stop.start()
        resource.wait_for_log("Cmd:quit\n", "control")
        resource.assert_healthy()
        time.sleep(0.5)
        equal((status, client.poll()), ([], None))
        client.kill()
        client.wait()
        stop.join(PATIENCE_S)
        equal(status, [(0, "")])
        assert is_gone(resource)


def test_device_plugin_resources():
    """Two resources: two daemons in EXCLUSIVE_PROCESS, each with the GPU of its clients."""
    settings = {"SOFTGPU_DEVICES": "2", "SOFTGPU_COMPUTE_MODE": "exclusive"}
    with Resource("nvidia.com/a.shared", settings, limits=(("0", "1024M"), ("1", "1024M"))) as first:
        second = Resource("nvidia.com/b.shared", settings, "25", (("0", "512M"), ("1", "512M")))
        second.daemon_env["SOFTGPU_DIR"] = first.folder
        with second:
            clients = []
            for n, resource in enumerate((first, second)):
                clients.append(resource.popen("process1", "--seconds", "100", env={
                    "CUDA_VISIBLE_DEVICES": UUID % n}))
                resource.wait_for_listed(clients[-1])
            for resource, sms, memory in (first, "64", "1G"), (second, "32", "512M"):
                resource.assert_healthy()
                row, = [line.split() for line in resource.echo("ps -l").splitlines()[1:]]
                equal((row[5], row[6]), (sms, memory))


# ---- the DRA driver: a deployment for each claim

SCRIPT = """set -e
rm -f /var/log/nvidia-mps/startup.log
nvidia-cuda-mps-control -d%s
echo set_default_active_thread_percentage 30 | nvidia-cuda-mps-control
echo set_default_device_pinned_mem_limit %s 4096M | nvidia-cuda-mps-control
echo "startup complete" > /var/log/nvidia-mps/startup.log
tail -n +1 -f /var/log/nvidia-mps/control.log
"""
# What a privileged container has mounted below /driver-root.
MOUNTS = """mount --make-rprivate /
mount --bind "$1" "$0/tmp/nvidia-mps"
mount --bind "$2" "$0/var/log/nvidia-mps"
mount --rbind /dev "$0/dev"
[ -z "$4" ] || mount --rbind /proc "$0/proc"
exec chroot "$0" sh -c "$3"
"""


class Claim:
    """The pod of a claim: a shell in the root of the driver, with the host's PIDs."""

    def __init__(self, option="", has_proc=True):
        need_mounts()
        if os.environ.get("MPS_SAN"):
            raise Skip("the driver's root lacks the sanitizers' libraries")
        self.folder = tempfile.mkdtemp(prefix="mps-claim-")
        os.chmod(self.folder, 0o755)
        self.root = self.folder + "/driver"
        for name in ("/tmp/nvidia-mps", "/var/log/nvidia-mps", "/dev", "/proc"):
            os.makedirs(self.root + name)
        for name in "sh", "tail", "rm", "cat":
            contained.copy_program(shutil.which(name), self.root)
        for name, ours in (CONTROL, "mps-control"), (SERVER, "mps-server"):
            contained.copy_program(mps.BUILD + "/bin/" + ours, self.root, "/usr/bin/" + ours)
            os.symlink(ours, self.root + "/usr/bin/" + name)
        contained.copy_program(mps.SOFTGPU, self.root, "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        self.script = SCRIPT % (option, UUID % 0)
        self.has_proc = has_proc
        self.pod = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pod:
            self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.readlink("/proc/%s/root" % name) == self.root:
                    found.append(int(name))
        return found

    def start(self):
        for name in "pipe", "log", "shm":
            os.makedirs(self.folder + "/" + name, exist_ok=True)
        before = self.started_ns()
        self.pod = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", MOUNTS, self.root, self.folder + "/pipe",
             self.folder + "/log", self.script, "yes" if self.has_proc else ""],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "CUDA_VISIBLE_DEVICES": UUID % 0},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for("the startup probe, or an end",
                 lambda: self.pod.poll() is not None or self.started_ns() not in (None, before))
        if self.pod.poll() is not None:
            raise AssertionError(self.pod.communicate())

    def started_ns(self):
        """When the file of the startup probe was written; None: it is not there."""
        path = self.folder + "/log/startup.log"
        return os.stat(path).st_mtime_ns if os.path.exists(path) else None

    def end(self):
        """SIGTERM for the first process, then SIGKILL for the pod's cgroup. Nobody says quit."""
        self.pod.terminate()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out = self.pod.communicate()[0]
        wait_for("the pod's end", lambda: not self.processes())
        self.pod = None
        return out

    def ask(self, line):
        words = ["unshare", "--mount", "sh", "-c", 'mount --make-rprivate / && mount --bind "$1" '
                 '"$0/tmp/nvidia-mps" && exec chroot "$0" ' + CONTROL, self.root, self.folder + "/pipe"]
        done = subprocess.run(words, input=line, capture_output=True, text=True, timeout=PATIENCE_S,
                              env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def run(self, image, program):
        """A client of the claim, with the mounts and the variable of its CDI specification."""
        library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
        words = image.words(program, share=("user",), env=(
            *PRELOAD, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"), mounts=(
                self.folder + "/pipe:/tmp/nvidia-mps", self.folder + "/shm:/dev/shm",
                library + ":" + contained.LIBRARY))
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode == contained.REFUSED:
            raise Skip("this machine allows no containers: " + done.stderr)
        return done


def check_claim(claim):
    claim.start()
    equal(claim.ask(HEALTH), "30.0\n")
    equal(claim.ask("get_default_device_pinned_mem_limit " + UUID % 0), "4G\n")
    with Image(None, "process1") as image:
        for _ in range(2):
            done = claim.run(image, "process1")
            equal((done.returncode, done.stdout), (0, "process1: ok\n"), done.stderr)
    server, = claim.ask("get_server_list").split()
    equal(claim.ask("get_device_pinned_mem_limit %s 0" % server), "4G\n")
    out = claim.end()
    contains(out, "Starting control daemon using socket /tmp/nvidia-mps/control")
    contains(out, "NEW CLIENT")


def test_dra_driver():
    """Start, probe, limits by UUID, clients, the end without quit; twice in the same place."""
    with Claim() as claim:
        check_claim(claim)
        check_claim(claim)
        # The directories go, and the next claim has others.
        for name in "pipe", "log", "shm":
            shutil.rmtree(claim.folder + "/" + name)
        check_claim(claim)


def test_dra_driver_multi_user():
    """With -M, whose server needs a user other than root."""
    with Claim(" -M") as claim:
        os.makedirs(claim.root + "/etc")
        for name in "passwd", "group":
            with open("%s/etc/%s" % (claim.root, name), "w", encoding="ascii") as file:
                file.write("root:x:0:0::/:/bin/sh\nmps:x:900:900::/:/bin/sh\n"
                           if name == "passwd" else "root:x:0:\nmps:x:900:\n")
        check_claim(claim)


def test_dra_driver_without_proc():
    """The driver's root may lack /proc."""
    with Claim(has_proc=False) as claim:
        check_claim(claim)


# ---- GKE's device plugin: the daemon of the node, limits in the clients

def test_gke():
    """The program by its absolute path; limits by the client's variables; health beside them."""
    with mps.Service() as service:
        folder = service.folder + "/nvidia/bin"
        link_names(folder)
        # The plugin's pod has a PATH of its own, and the node's socket.
        env = {"PATH": "/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": service.pipe}

        def health():
            done = subprocess.run([folder + "/" + CONTROL], input=HEALTH, env=env, text=True,
                                  stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False)
            return done.returncode, done.stdout

        equal(health(), (0, "100.0\n"))
        limits = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M"}
        clients = [service.popen("process1", "--seconds", "100", env=limits) for _ in range(4)]
        for client in clients:
            service.wait_for_listed(client)
        rows = [line.split() for line in service.command("ps", "-l").stdout.splitlines()[1:]]
        equal([(row[5], row[6]) for row in rows], [("32", "1G")] * 4)
        equal(health(), (0, "100.0\n"), "the clients' limits are their own")
        os.kill(service.daemon.pid, signal.SIGSTOP)
        os.kill(service.daemon.pid, signal.SIGCONT)
        equal(health(), (0, "100.0\n"))


if __name__ == "__main__":
    harness.main(globals())
