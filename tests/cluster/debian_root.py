# SPDX-License-Identifier: Apache-2.0
"""A fresh root of Debian for a test: its own processes, mounts and /tmp, made by debootstrap.

    with debian_root.Root() as root:
        root.run("apt-get", "--version")

The first root is kept as an archive under the build folder, which later roots are unpacked from.
ReleaseRoot() is a root of another release, in which this source can be built.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import zlib

import harness
import mps
from harness import Skip, wait_for

# What the packages depend on, and what the example programs and the software GPU need.
INCLUDED = ("libuv1", "liblz4-1", "libzstd1", "libjansson4", "libncursesw6", "libstdc++6", "procps",
            "bash-completion", "systemd")
# What tests/setup would install, and what the tests need.
BUILDING = ("ca-certificates", "gcc", "g++", "libc6-dev", "make", "binutils", "python3", "python3-pip",
            "libuv1-dev", "libmicrohttpd-dev", "libcmocka-dev", "liblz4-dev", "libzstd-dev",
            "libjansson-dev", "libncurses-dev", "libsystemd-dev", "socat", "procps", "util-linux", "mount")
# PID 1 of the root: waits for children that others have left.
INIT = "trap : TERM; while :; do sleep 600 & wait $!; done"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SOURCE = ("Makefile", "README.md", "LICENSE", "client", "daemon", "docs", "include", "proto", "server",
          "tests")


def codename():
    with open("/etc/os-release", encoding="utf-8") as file:
        found = re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M)
    if not found:
        raise Skip("this machine's distribution has no code name, so debootstrap cannot make its root")
    return found.group(1)


def cache_of(release, included):
    return os.path.join(harness.BUILD, "cluster", "root-%s-%08x.tar" % (
        release, zlib.crc32(repr(included).encode())))


def make_archive(release, included):
    debootstrap = shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin")
    if not debootstrap:
        raise Skip("debootstrap is not installed")
    cache = cache_of(release, included)
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([debootstrap, "--variant=minbase", "--include=" + ",".join(included),
                               release, folder + "/root"], capture_output=True, text=True,
                              timeout=900, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        subprocess.run(["tar", "-C", folder + "/root", "-cf", cache + ".new", "."], check=True)
    os.rename(cache + ".new", cache)


class Root:
    """The folder `path' is the root. Processes in it end with the test."""

    def __init__(self, release=None, included=INCLUDED):
        harness.need_root()
        if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False,
                          capture_output=True).returncode != 0:
            raise Skip("this machine allows no mount and PID namespaces")
        release = release or codename()
        self.cache = cache_of(release, included)
        if not os.path.exists(self.cache):
            make_archive(release, included)
        self.path = tempfile.mkdtemp(prefix="mps-root-")
        self.outer = self.inner = None

    def __enter__(self):
        try:
            os.chmod(self.path, 0o755)
            subprocess.run(["tar", "-C", self.path, "-xf", self.cache], check=True)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        # unshare itself complains when its child is killed.
        script = ('exec 2>&1; mount --make-rprivate / && mount -t proc proc "$0/proc" && '
                  'mount -t devpts -o ptmxmode=666 devpts "$0/dev/pts" && '
                  'exec chroot "$0" /bin/sh -c "$1"')
        self.outer = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "sh", "-c",
                                       script, self.path, INIT], stdin=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        children = "/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid)

        def child():
            with open(children, encoding="ascii") as file:
                return file.read().split()

        self.inner = int(wait_for("the root's first process", child)[0])
        wait_for("the root", lambda: os.readlink("/proc/%d/root" % self.inner) == self.path)

    def __exit__(self, *_):
        if self.inner:
            os.kill(self.inner, signal.SIGKILL)
        if self.outer:
            self.outer.wait()
        shutil.rmtree(self.path, ignore_errors=True)

    def command(self, *words, uid=None):
        """The command that runs words in the root."""
        become = ["--userspec=%d:%d" % (uid, uid)] if uid else []
        return ["nsenter", "--target", str(self.inner), "--mount", "--pid", "chroot", *become,
                self.path, *words]

    def environment(self, **more):
        return dict({"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8",
                     "DEBIAN_FRONTEND": "noninteractive", "MPS_CUDA_LIBRARY": "/opt/libcuda.so.1"},
                    **more)

    def run(self, *words, status=0, uid=None, timeout=120, **env):
        """The output of a command in the root, standard error included."""
        done = subprocess.run(self.command(*words, uid=uid), env=self.environment(**env),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
        if status is not None:
            harness.equal(done.returncode, status, " ".join(words) + ": " + done.stdout)
        return done.stdout

    def popen(self, *words, uid=None, **env):
        return subprocess.Popen(self.command(*words, uid=uid), env=self.environment(**env),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def put(self, source, target):
        """Copies a file into the root."""
        path = self.path + target
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(source, path)
        return target

    def put_programs(self, *names):
        """The software GPU as the machine's driver, and example programs in /opt."""
        self.put(mps.SOFTGPU, "/opt/libcuda.so.1")
        for name in names:
            self.put(mps.program_path(name), "/opt/" + name)

    def files(self):
        """Every path of the root with its kind or its link's target, without what dpkg and apt keep."""
        skipped = ("/proc", "/dev", "/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log/dpkg.log",
                   "/var/log/apt", "/opt")
        found = {}
        for where, folders, names in os.walk(self.path):
            inner = where[len(self.path):]
            folders[:] = [name for name in folders if inner + "/" + name not in skipped]
            for name in folders + names:
                path = where + "/" + name
                if inner + "/" + name not in skipped:
                    found[inner + "/" + name] = (os.readlink(path) if os.path.islink(path) else
                                                 "folder" if os.path.isdir(path) else "file")
        return found


# A root that is a mount, so that its programs can make namespaces; the network is the machine's.
PIVOT = r"""
mount --make-rprivate /
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -sf pts/ptmx dev/ptmx
mkdir -p dev/shm .before usr/local/cuda
mount -t tmpfs -o mode=1777 shm dev/shm
mount --bind "$2" usr/local/cuda
cp /etc/resolv.conf etc/resolv.conf
# pip finds packages as it does on the machine.
for file in pip.conf ssl/certs/ca-certificates.crt; do
	[ ! -e /etc/$file ] || cp /etc/$file etc/$file
done
pivot_root . .before
umount -l /.before
touch /.is-release
exec sh -c "$1"
"""


class ReleaseRoot(Root):
    """A root of a release, with this source in /src, and with CUDA."""

    def __init__(self, release):
        super().__init__(release, BUILDING)

    def start(self):
        source = subprocess.run([harness.ROOT + "/tests/setup", "--cuda"], capture_output=True,
                                text=True, check=True).stdout.strip()
        # The user of the transcript of NVIDIA's daemon.
        with open(self.path + "/etc/passwd", "a", encoding="utf-8") as file:
            file.write("user:x:1000:1000::/home/user:/bin/sh\n")
        os.mkdir(self.path + "/src")
        subprocess.run(["cp", "-a", *(harness.ROOT + "/" + name for name in SOURCE), self.path + "/src"],
                       check=True)
        self.outer = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", PIVOT, self.path, INIT,
             os.path.join(harness.ROOT, source)], stdin=subprocess.DEVNULL)
        children = "/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid)

        def inner():
            assert self.outer.poll() is None, "it has ended"
            with open(children, encoding="ascii") as file:
                found = file.read().split()
            return int(found[0]) if found and os.path.exists("/proc/%s/root/.is-release" % found[0]) else 0

        self.inner = wait_for("the root", inner)

    def command(self, *words, uid=None):
        assert uid is None
        return ["nsenter", "--target", str(self.inner), "--mount", "--pid", *words]

    def environment(self, **more):
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return dict({"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8",
                     "CUDA_HOME": "/usr/local/cuda"}, **pip, **more)
