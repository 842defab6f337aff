# SPDX-License-Identifier: Apache-2.0
"""A fresh root of Debian for a test: its own processes, mounts and /tmp, made by debootstrap.

    with debian_root.Root() as root:
        root.run("apt-get", "--version")

The first root is kept as an archive under the build folder, which later roots are unpacked from.
BareRoot() is a root of another release that has this source and nothing that builds it.
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
# PID 1 of the root: waits for children that others have left.
INIT = "trap : TERM; while :; do sleep 600 & wait $!; done"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
USER = 1000
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


def archive(release, included):
    """The archive of a root, which is made if there is none yet."""
    if not os.path.exists(cache_of(release, included)):
        make_archive(release, included)
    return cache_of(release, included)


def make_archive(release, included):
    debootstrap = shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin")
    if not debootstrap:
        raise Skip("debootstrap is not installed")
    cache = cache_of(release, included)
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        include = ["--include=" + ",".join(included)] if included else []
        done = subprocess.run([debootstrap, "--variant=minbase", *include, release, folder + "/root"],
                              capture_output=True, text=True, timeout=900, check=False)
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
        self.cache = archive(release or codename(), included)
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
mkdir -p dev/shm .before
mount -t tmpfs -o mode=1777 shm dev/shm
cp /etc/resolv.conf etc/resolv.conf
# pip finds packages as it does on the machine.
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf etc/pip.conf
[ ! -e "$2" ] || cp "$2" etc/certificates-of-the-machine
pivot_root . .before
umount -l /.before
touch /.is-release
exec sh -c "$1"
"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# apt asks nothing.
APT_SETTINGS = 'APT::Get::Assume-Yes "true";\n'


class BareRoot(Root):
    """A root of a release as debootstrap makes it, with this source in /src and a user."""

    def __init__(self, release):
        super().__init__(release, ())

    def start(self):
        # The user of the transcript of NVIDIA's daemon.
        with open(self.path + "/etc/passwd", "a", encoding="utf-8") as file:
            file.write("user:x:%d:%d::/home/user:/bin/sh\n" % (USER, USER))
        with open(self.path + "/etc/apt/apt.conf.d/test", "w", encoding="utf-8") as file:
            file.write(APT_SETTINGS)
        os.makedirs(self.path + "/home/user")
        os.chown(self.path + "/home/user", USER, USER)
        os.mkdir(self.path + "/src")
        subprocess.run(["cp", "-a", *(harness.ROOT + "/" + name for name in SOURCE), self.path + "/src"],
                       check=True)
        self.outer = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", PIVOT,
                                       self.path, INIT, CERTIFICATES], stdin=subprocess.DEVNULL)
        children = "/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid)

        def inner():
            assert self.outer.poll() is None, "it has ended"
            with open(children, encoding="ascii") as file:
                found = file.read().split()
            return int(found[0]) if found and os.path.exists("/proc/%s/root/.is-release" % found[0]) else 0

        self.inner = wait_for("the root", inner)

    def command(self, *words, uid=None):
        become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []
        return ["nsenter", "--target", str(self.inner), "--mount", "--pid", *become, *words]

    def environment(self, **more):
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip.update(PIP_CERT="/etc/certificates-of-the-machine", PIP_FIND_LINKS="")
        return dict({"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8",
                     "DEBIAN_FRONTEND": "noninteractive"}, **pip, **more)
