# SPDX-License-Identifier: Apache-2.0
"""A root of Debian with systemd as its first process: debian_root.Root, booted.

    with systemd_root.SystemdRoot() as root:
        root.systemctl("start", "mps-control")

The first way of these that works boots it, and is printed:

- systemd-nspawn of a machine that systemd runs
- systemd-nspawn in control groups of its own, on a machine without systemd
- unshare: namespaces and file systems made here, as a container engine makes them
"""

import contextlib
import os
import shutil
import signal
import subprocess

import debian_root
from harness import Skip, wait_for

BOOT_S = 120
NSPAWN = ["systemd-nspawn", "--quiet", "--register=no", "--boot", "--private-network",
          "--link-journal=no", "--resolv-conf=off", "--timezone=off"]

# Without systemd on the machine: a name in each hierarchy that systemd uses, and a /run of its own,
# because systemd-nspawn leaves folders there. Then the words.
OWN_GROUPS = """
set -e
for at in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	if [ -e $at/cgroup.procs ]; then
		mkdir $at/$1
		echo $$ >$at/$1/cgroup.procs
	fi
done
shift
"""
OWN_RUN = "mount --make-rprivate / && mount -t tmpfs mps-test /run\n"

# What systemd needs of a container: /proc, /sys, /dev, control groups, and a root that is a mount.
BOOT = r"""
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t tmpfs -o mode=755 dev dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 dev/${node%:*} c 1 ${node#*:}
done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 shm dev/shm
# systemd changes owner and mode of its console, so that is no mount of the machine's /dev/null.
mknod -m 600 dev/console c 1 3
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
	mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
	mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
	# Otherwise systemd would mount the other hierarchies, and use the machine's groups there.
	mount -o remount,ro sys/fs/cgroup
fi
mkdir -p .before
pivot_root . .before
umount -l /.before
exec env -i container=mps-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


def is_first(pid):
    """Whether it is systemd as the first process of a PID namespace other than this one's."""
    with contextlib.suppress(OSError):
        with open("/proc/%d/status" % pid, encoding="utf-8") as file:
            fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        return fields["Name"].strip() == "systemd" and fields["NSpid"].split()[1:] == ["1"]
    return False


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child] + descendants(child)
    return found


class SystemdRoot(debian_root.Root):
    """Its processes end with the test, whatever they are."""

    def start(self):
        self.name = "mps-test-%d" % os.getpid()
        # They would hold the lock of apt at a time of their own.
        for timer in ("apt-daily.timer", "apt-daily-upgrade.timer"):
            os.symlink("/dev/null", self.path + "/etc/systemd/system/" + timer)
        failures = []
        for way, words in self.ways():
            try:
                self.boot(words)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failures.append("%s: %s%s" % (way, error, self.console()))
                self.end_processes()
            else:
                print("    systemd %s, booted by %s" % (self.version(), way), flush=True)
                return
        raise Skip("this machine boots no systemd in a root: %s" % "; ".join(failures))

    def ways(self):
        nspawn = NSPAWN + ["--machine=" + self.name, "--directory=" + self.path]
        grouped = ["sh", "-c", OWN_GROUPS + 'exec "$@"', "sh", self.name]
        found = shutil.which("systemd-nspawn")
        if found and os.path.isdir("/run/systemd/system"):
            yield "systemd-nspawn", nspawn
        elif found:
            yield ("systemd-nspawn --keep-unit", grouped + [
                "unshare", "--mount", "sh", "-c", OWN_RUN + 'exec "$@"', "sh", *nspawn, "--keep-unit"])
        spaces = ["unshare", "--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net", "--fork"]
        yield "unshare", grouped + spaces + ["sh", "-ec", "root=%s\n%s" % (self.path, BOOT)]

    def boot(self, words):
        with open(self.path + ".console", "wb") as console:
            self.outer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=console,
                                          stderr=console)

        def first():
            assert self.outer.poll() is None, "ended with %s" % self.outer.returncode
            return [pid for pid in descendants(self.outer.pid) if is_first(pid)]

        self.inner = wait_for("systemd", first, BOOT_S)[0]
        # Units of Debian that need more than a container has may fail.
        wait_for("its boot", lambda: self.run("systemctl", "is-system-running", status=None).strip()
                 in ("running", "degraded"), BOOT_S)

    def console(self):
        with open(self.path + ".console", encoding="utf-8", errors="replace") as file:
            return "\n" + file.read()[-2000:]

    def end_processes(self):
        """The end of the first process is that of all others of its namespace."""
        for pid in [self.inner] if self.inner else descendants(self.outer.pid) if self.outer else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.outer:
            try:
                self.outer.wait(20)
            except subprocess.TimeoutExpired:
                self.outer.kill()
                self.outer.wait()
        self.inner = self.outer = None
        wait_for("the end of the control groups", self.remove_groups)

    def remove_groups(self):
        """Whether none of those of OWN_GROUPS is left."""
        tops = [os.path.join("/sys/fs/cgroup", hierarchy, self.name)
                for hierarchy in ("systemd", "unified", "")]
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not any(map(os.path.exists, tops))

    def __exit__(self, *_):
        try:
            self.end_processes()
        finally:
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(self.path + ".console")

    def command(self, *words, uid=None):
        become = ["--setuid", str(uid), "--setgid", str(uid)] if uid else []
        return ["nsenter", "--target", str(self.inner), "--mount", "--pid", "--ipc", "--uts", "--net",
                "--root", "--wd=/", *become, "--", *words]

    # ---- systemd

    def version(self):
        return self.run("systemctl", "--version").split()[1]

    def systemctl(self, *words, status=0, timeout=60):
        return self.run("systemctl", "--no-pager", *words, status=status, timeout=timeout)

    def show(self, unit, name):
        """A property of a unit."""
        return self.systemctl("show", "--property=" + name, "--value", unit).strip()

    def wait_for_state(self, unit, state, timeout_s=40):
        wait_for("%s to be %s" % (unit, state),
                 lambda: self.show(unit, "ActiveState") == state, timeout_s)

    def journal(self, *words):
        """What the journal has, complete up to now."""
        self.run("journalctl", "--sync", status=None)
        return self.run("journalctl", "--no-pager", *words, status=None)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.path + path), exist_ok=True)
        with open(self.path + path, "w", encoding="utf-8") as file:
            file.write(text)

    def drop_in(self, unit, name, text):
        """Changes a unit, or with an empty text changes it back."""
        path = "/etc/systemd/system/%s.d/%s.conf" % (unit, name)
        if text:
            self.write(path, text)
        elif os.path.exists(self.path + path):
            os.unlink(self.path + path)
        self.systemctl("daemon-reload")

