# SPDX-License-Identifier: Apache-2.0
"""Podman for a test: its own processes, mounts, storage and CDI specifications, no network.

    with podman_engine.Engine() as engine:
        engine.load("client", folder)
        engine.run("client", "/bin/program")

Nothing of it outlives the test, and the machine's own containers are not seen.
"""

import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import Skip, wait_for

# PID 1 of the namespace. A user of its own, with other UIDs for its containers, is for rootless podman.
SETUP = """set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/cdi /run/user/%(uid)d /run/home
chown %(uid)d:%(uid)d /run/user/%(uid)d /run/home
for name in passwd group subuid subgid; do
	cp /etc/$name /run/$name 2>/dev/null || : >/run/$name
done
echo "%(name)s:x:%(uid)d:%(uid)d::/run/home:/bin/sh" >>/run/passwd
echo "%(name)s:x:%(uid)d:" >>/run/group
echo "%(name)s:%(first)d:65536" | tee -a /run/subuid >>/run/subgid
for name in passwd group subuid subgid; do
	touch /etc/$name
	mount --bind /run/$name /etc/$name
done
touch /run/ready
trap : TERM
while :; do sleep 600 & wait $!; done
"""
NAME, UID, FIRST_UID = "mps-podman", 12345, 200000
# Of a machine that may not raise limits.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
RUNTIMES = ("crun", "runc")
BUILD_S = 3000


class Engine:
    """`is_rootless': podman of an ordinary user. `folder' is for the test's own files."""

    def __init__(self, is_rootless=False):
        harness.need_root()
        self.podman = shutil.which("podman")
        if not self.podman:
            raise Skip("podman is not installed")
        if is_rootless and not shutil.which("newuidmap"):
            raise Skip("newuidmap is not installed")
        self.is_rootless = is_rootless
        self.folder = tempfile.mkdtemp(prefix="mps-podman-")
        os.chmod(self.folder, 0o755)
        self.runtime = self.outer = self.inner = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        script = SETUP % {"name": NAME, "uid": UID, "first": FIRST_UID}
        self.outer = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "sh", "-c", script],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = "/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid)

        def child():
            with open(children, encoding="ascii") as file:
                return self.outer.poll() is not None or file.read().split()

        wait_for("the engine's first process", child)
        if self.outer.poll() is not None:
            raise Skip("this machine allows no mount and PID namespaces")
        self.inner = int(child()[0])
        wait_for("the engine's mounts", lambda: self.outer.poll() is not None or
                 os.path.exists("/proc/%d/root/run/ready" % self.inner))

    def __exit__(self, *_):
        if self.inner:
            os.kill(self.inner, signal.SIGKILL)
        if self.outer:
            self.outer.wait()
        subprocess.run(["rm", "-rf", self.folder], check=False)

    def enter(self, *words, **env):
        """Runs a command of root beside the containers; returns the finished process."""
        return subprocess.run(["nsenter", "--target", str(self.inner), "--mount", "--pid", *words],
                              env=dict({"PATH": os.environ["PATH"]}, **env), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)

    def words(self, *arguments):
        """A command of podman, by the runtime that works here."""
        storage = "/run/user/%d" % UID if self.is_rootless else "/run/root"
        become = (["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
                  if self.is_rootless else [])
        # An empty working folder that each user may enter.
        return ["nsenter", "--target", str(self.inner), "--mount", "--pid", "--wd=/run", *become, "env",
                "HOME=/run/home", "XDG_RUNTIME_DIR=/run/user/%d" % UID, self.podman,
                "--root", storage + "/storage", "--runroot", storage + "/run", "--tmpdir",
                storage + "/tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                "--log-level", "error", "--runtime", self.runtime or RUNTIMES[-1], *arguments]

    def podman_run(self, *arguments):
        return subprocess.run(self.words(*arguments), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)

    def ok(self, *arguments):
        """What a command of podman prints, which has to succeed."""
        done = self.podman_run(*arguments)
        assert done.returncode == 0, "%s: %s" % (" ".join(arguments), done.stdout + done.stderr)
        return done.stdout

    def load(self, name, folder):
        """Makes an image of a folder."""
        path = "%s/%s.tar" % (self.folder, name.partition(":")[0])
        subprocess.run(["tar", "-C", folder, "-cf", path, "."], check=True)
        self.ok("import", "-q", path, "localhost/" + name)
        self.prepare(name)

    def prepare(self, name):
        """Makes an image that the storage has usable here."""
        if not self.is_rootless:
            # runc may look for the root as a user of the container.
            self.enter("chmod", "711", "/run/root", "/run/root/storage", "/run/root/storage/vfs",
                       "/run/root/storage/vfs/dir")
        if not self.runtime:
            self.choose_runtime(name)

    def build(self, dockerfile, base, archive, path):
        """Builds an image from the source as `docker build' does, and saves it in `path'.

        `archive' is the image that it is based on.
        """
        self.ok("import", "-q", archive, base)
        # The network of the machine, without a runtime of containers: the packages come from there.
        done = subprocess.run(self.words(
            "build", "--isolation", "chroot", "--network", "host", "--pull=never", "--layers=false",
            "--tag", "localhost/built", "--file", dockerfile, harness.ROOT), capture_output=True,
            text=True, stdin=subprocess.DEVNULL, timeout=BUILD_S, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        self.ok("save", "-q", "--output", path, "localhost/built")

    def load_saved(self, name, path):
        self.ok("load", "-q", "--input", path)
        self.ok("tag", "localhost/built", "localhost/" + name)
        self.prepare(name)

    def choose_runtime(self, name):
        """The first runtime that runs a container here: crun refuses machines with both cgroups."""
        said = ""
        for runtime in RUNTIMES:
            self.runtime = runtime
            # A shell is in the image that is loaded first.
            done = self.run(name, "/bin/sh", "-c", "echo runs")
            if done.stdout == "runs\n":
                return
            said += "%s: %s" % (runtime, done.stderr)
        raise Skip("podman runs no container here: " + said)

    def run_words(self, name, *words, options=()):
        return self.words("run", "--rm", "--network", "none", *LIMITS, *options, "localhost/" + name,
                          *words)

    def run(self, name, *words, options=()):
        """Runs a container; returns the finished process."""
        return subprocess.run(self.run_words(name, *words, options=options), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)

    def popen(self, name, *words, options=()):
        return subprocess.Popen(self.run_words(name, *words, options=options), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
