#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1500 s
"""mps-everywhere: the loader's configuration makes programs clients, beside packages of a driver."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
import test_deb  # pylint: disable=wrong-import-position
from debian_root import PATH, Root  # pylint: disable=wrong-import-position
from driver_packages import LIBRARIES, DebianDriver, PlainDriver  # pylint: disable=wrong-import-position
from harness import contains, equal  # pylint: disable=wrong-import-position

# With the static runtime, which opens libcuda.so.1; and linked with it.
PROGRAMS = ("process1", "driver")
USER = 1000
FOLDER = "/usr/lib/mps/everywhere"
OURS = ("mps", "libmpsclient", "mps-everywhere")
SUBPROCESS = "import subprocess; subprocess.run(['/opt/driver'], env={}, check=True)"
OPEN = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cuInit(0))"
CUDA_ERROR_NO_DEVICE = "100"


class MachineRoot(Root):
    """No variable tells its programs anything about the service or the driver."""

    def environment(self, **more):
        return dict({"PATH": "/usr/local/bin:" + PATH, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}, **more)

    def put_machine(self):
        for name in PROGRAMS:
            self.put(mps.program_path(name), "/opt/" + name)
        self.put(mps.program_path("driver"), "/opt/setuid")
        os.chmod(self.path + "/opt/setuid", 0o4755)
        with open(self.path + "/etc/passwd", "a", encoding="utf-8") as file:
            file.write("user:x:%d:%d::/tmp:/bin/sh\n" % (USER, USER))
        with open(self.path + "/etc/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost %s\n" % os.uname().nodename)

    def loader_cache(self):
        """The bytes of the loader's cache."""
        with open(self.path + "/etc/ld.so.cache", "rb") as file:
            return file.read()

    def found(self, name="libcuda.so.1"):
        """The folders where the loader finds a library, in its order."""
        said = self.run("ldconfig", "-p")
        return [os.path.dirname(path) for path in
                re.findall(r"^\t%s \(.*\) => (.*)$" % re.escape(name), said, re.M)]

    def clients(self):
        """The users of all clients so far."""
        path = self.path + "/var/log/nvidia-mps/control.log"
        with open(path, encoding="utf-8") as file:
            return [int(uid) for uid in re.findall(r"NEW CLIENT \d+ from user (\d+): ", file.read())]


def run(root, *words, wanted, said=None, uid=None, **env):
    """Runs a program, which prints nothing more than `said' and is a client of the users `wanted'."""
    before = len(root.clients()) if wanted is not None else 0
    out = root.run(*words, uid=uid, **env)
    equal(out, said or words[-1].rpartition("/")[2] + ": ok\n", words)
    if wanted is not None:
        equal(root.clients()[before:], wanted, words)


def check_native(root):
    """Without a daemon the driver does the work, and nobody notices."""
    for name in PROGRAMS:
        run(root, "env", "-i", "/opt/" + name, wanted=None)
    equal(root.run("python3", "-c", OPEN, "libcuda.so"), "0\n")


def check_clients(root):
    """With a daemon each program is a client, however it starts; the daemon's server is none."""
    root.run("env", "-i", "PATH=/usr/local/bin:" + PATH, "mps-control", "-d")
    for name in PROGRAMS:
        run(root, "env", "-i", "/opt/" + name, wanted=[0])
        run(root, "/opt/" + name, uid=USER, wanted=[USER])
    run(root, "sudo", "-u", "user", "/opt/driver", wanted=[USER])
    run(root, "env", "-i", "HOME=/", "LOGNAME=root", "PATH=/usr/bin:/bin", "SHELL=/bin/sh", "/bin/sh",
        "-c", "/opt/driver", wanted=[0])
    run(root, "python3", "-c", SUBPROCESS, wanted=[0], said="driver: ok\n")
    run(root, "/opt/setuid", uid=USER, wanted=[0], said="driver: ok\n")
    for name in ("libcuda.so.1", "libcuda.so"):
        run(root, "python3", "-c", OPEN, name, wanted=[0], said="0\n")
    check_others(root)
    root.run("mps-control", "quit")


def check_others(root):
    """What stays native beside a daemon."""
    run(root, "python3", "-c", OPEN, LIBRARIES + "/libcuda.so.1", wanted=[], said="0\n")
    run(root, "/opt/driver", wanted=[], MPS_DISABLE="client")
    run(root, "/opt/driver", wanted=[], LD_LIBRARY_PATH=LIBRARIES)


def check_reports(root):
    """mps-run --check knows that no program needs a variable."""
    root.run("mps-control", "-d")
    note = "programs of this machine need no mps-run"
    contains(root.run("mps-run", "--check"), note)
    contains(root.run("mps-run", "--check", "/opt/setuid", uid=USER), note)
    assert "LD_PRELOAD" not in root.run("mps-run", "--check", "env", "-i", "/opt/driver", status=None)
    # Elsewhere, this machine's loader has no say.
    shutil.copy(root.path + "/bin/true", root.path + "/opt/ssh")
    contains(root.run("mps-run", "--check", "/opt/ssh", status=1), "without the LD_PRELOAD of mps-run")
    root.run("mps-control", "quit")


def check_daemon_of_user(root):
    """The daemon of another user makes no client, and no message."""
    folder = root.path + "/tmp/nvidia-mps"
    shutil.rmtree(folder)
    root.run("mps-control", "-d", uid=USER, CUDA_MPS_LOG_DIRECTORY="/tmp/nvidia-mps")
    run(root, "/opt/driver", wanted=None)
    contains(root.run("mps-run", "/opt/driver"), "this process uses the GPU without MPS")
    root.run("mps-control", "quit", uid=USER)
    shutil.rmtree(folder)


def check_no_driver(root):
    """Programs find no GPU, as on a machine without one, and no message says more."""
    equal(root.run("python3", "-c", OPEN, "libcuda.so.1"), CUDA_ERROR_NO_DEVICE + "\n")


def story(driver):
    """A machine with a driver gets the package; then the driver changes, goes and comes again."""
    with MachineRoot() as root:
        root.put_machine()
        driver.install(root, "535.1")
        before, cache = root.files(), root.loader_cache()
        check_native(root)
        test_deb.install(root, test_deb.packages(), *OURS)
        equal(root.found()[0], FOLDER)
        equal(root.found("libcuda.so")[0], FOLDER)
        check_native(root)
        check_clients(root)
        check_reports(root)
        check_daemon_of_user(root)

        # An upgrade, as far as files are concerned.
        root.run("dpkg", "-i", *("/opt/debs/" + os.path.basename(test_deb.packages()[name])
                                 for name in OURS))
        equal(root.found()[0], FOLDER)
        driver.install(root, "550.2")
        equal(root.found()[0], FOLDER)
        check_clients(root)
        root.run("apt-get", "purge", "-y", driver.package)
        equal(root.found(), [FOLDER])
        check_no_driver(root)
        driver.install(root, "535.1")
        check_native(root)

        root.run("apt-get", "remove", "-y", "mps-everywhere")
        equal(root.loader_cache(), cache, "the cache after the removal")
        root.run("apt-get", "purge", "-y", *OURS)
        after = root.files()
        equal({k: v for k, v in after.items() if before.get(k) != v}, {}, "left by the packages")
        equal({k: v for k, v in before.items() if after.get(k) != v}, {}, "removed by the packages")
        equal(root.loader_cache(), cache, "the cache after the purge")
        check_native(root)


def test_debian_driver():
    with tempfile.TemporaryDirectory() as folder:
        story(DebianDriver(folder))


def test_plain_driver():
    with tempfile.TemporaryDirectory() as folder:
        story(PlainDriver(folder))


def test_before_the_driver():
    """The package comes first, and the driver goes first."""
    with MachineRoot() as root, tempfile.TemporaryDirectory() as folder:
        root.put_machine()
        before, cache = root.files(), root.loader_cache()
        test_deb.install(root, test_deb.packages(), *OURS)
        driver = DebianDriver(folder)
        driver.install(root, "535.1")
        equal(root.found()[0], FOLDER)
        check_clients(root)
        root.run("apt-get", "purge", "-y", driver.package)
        check_no_driver(root)
        root.run("apt-get", "purge", "-y", *OURS)
        assert not [path for path in root.files() if path not in before and "mps" in path]
        assert b"libcuda" not in root.loader_cache() and b"libcuda" not in cache


def test_make():
    """make install-everywhere and make uninstall, by another prefix."""
    with MachineRoot() as root, tempfile.TemporaryDirectory() as folder:
        def make(*words):
            subprocess.run(["make", "-s", "-C", harness.ROOT, "BUILD=" + harness.BUILD,
                            "PREFIX=/usr/local", *words], check=True)

        root.put_machine()
        PlainDriver(folder).install(root, "535.1")
        before, cache = root.files(), root.loader_cache()
        script = root.put(harness.ROOT + "/daemon/dist/install-everywhere", "/opt/install-everywhere")
        contains(root.run(script, "", "/usr/local", status=1), "install mps first")
        make("install", "DESTDIR=" + root.path)
        root.run(script, "", "/usr/local")
        equal(root.found()[0], "/usr/local/lib/mps/everywhere")
        check_clients(root)
        root.run(script, "", "/usr", "uninstall")
        equal(root.found()[0], "/usr/local/lib/mps/everywhere")
        root.run(script, "", "/usr/local", "uninstall")
        equal(root.loader_cache(), cache)
        make("install-everywhere", "DESTDIR=" + root.path)
        make("uninstall", "DESTDIR=" + root.path)
        left = {path for path in root.files() if path not in before and "mps" in path}
        equal({path for path in left if not re.match("/(tmp|var/log)/nvidia-mps", path)}, set())


if __name__ == "__main__":
    harness.main(globals())
