#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1500 s
"""The Debian packages: built without nvcc, accepted by lintian, installed in a fresh root."""

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
from debian_root import SOURCE, Root  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position

PACKAGES = ("libmpsclient", "mps", "mps-compat", "mps-doc", "mps-softgpu")
PIPE = "/tmp/nvidia-mps"


def headers():
    """A folder that has only CUDA's headers."""
    home = subprocess.run([harness.ROOT + "/tests/setup", "--headers"], capture_output=True,
                          text=True, check=True).stdout.strip()
    folder = os.path.join(harness.BUILD, "cluster", "headers")
    os.makedirs(folder, exist_ok=True)
    link = folder + "/include"
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.abspath(os.path.join(harness.ROOT, home, "include")), link)
    return folder


def build(source, version, folder):
    """Builds the packages from a source, without a compiler of CUDA; returns name -> path."""
    path = ":".join(part for part in os.environ["PATH"].split(":")
                    if not os.path.exists(part + "/nvcc"))
    # Python from the distribution, on which the packages depend.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run([source + "/daemon/dist/build-deb", version, folder],
                          env=dict(env, CUDA_HOME=headers(), PATH=path), capture_output=True,
                          text=True, timeout=900, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    return {os.path.basename(line).partition("_")[0]: line for line in done.stdout.splitlines()}


@functools.cache
def packages():
    """The packages of this source."""
    return build(harness.ROOT, "1.0", os.path.join(harness.BUILD, "cluster", "deb"))


@functools.cache
def old_packages():
    """Packages of an earlier version, whose programs do not understand those of this source."""
    source = os.path.join(harness.BUILD, "cluster", "old-source")
    shutil.rmtree(source, ignore_errors=True)
    os.makedirs(source)
    for name in SOURCE:
        subprocess.run(["cp", "-a", os.path.join(harness.ROOT, name), source], check=True)
    header = source + "/include/frame.h"
    with open(header, encoding="utf-8") as file:
        text = file.read()
    changed = re.sub(r"(#define FRAME_VERSION) \d+", r"\1 77", text)
    assert changed != text
    with open(header, "w", encoding="utf-8") as file:
        file.write(changed)
    return build(source, "0.9", os.path.join(harness.BUILD, "cluster", "old-deb"))


def later_packages(folder):
    """This source's packages with the same programs and a higher version."""
    found = {}
    for name in PACKAGES:
        tree = os.path.join(folder, name)
        subprocess.run(["dpkg-deb", "-R", packages()[name], tree], check=True)
        with open(tree + "/DEBIAN/control", encoding="utf-8") as file:
            text = file.read()
        with open(tree + "/DEBIAN/control", "w", encoding="utf-8") as file:
            file.write(text.replace("Version: 1.0\n", "Version: 1.1\n").replace("= 1.0)", "= 1.1)"))
        found[name] = tree + ".deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, found[name]], check=True,
                       stdout=subprocess.DEVNULL)
    return found


def install(root, debs, *names, status=0):
    """apt-get install of package files, without a network."""
    paths = [root.put(debs[name], "/opt/debs/" + os.path.basename(debs[name])) for name in names]
    return root.run("apt-get", "install", "-y", "--no-install-recommends", *paths,
                    status=status)


def daemon(root):
    """The PID of the running daemon, in the root."""
    return int(root.run("cat", PIPE + "/nvidia-cuda-mps-control.pid"))


def servers(root):
    return root.run("mps-control", "get_server_list", status=None).split()


def client(root, seconds):
    """Starts a program as a client, and waits until it uses the GPU."""
    process = root.popen("mps-run", "/opt/process1", "--seconds", str(seconds))
    wait_for("a client", lambda: "process1" in root.run("mps-control", "ps", status=None))
    return process


def finish(process, status=0):
    out, _ = process.communicate(timeout=180)
    equal(process.returncode, status, out)
    return out


def test_lintian():
    """Without errors and warnings; overrides state their reasons."""
    lintian = mps.need_program("lintian")
    changes, = glob.glob(os.path.dirname(packages()["mps"]) + "/*.changes")
    done = subprocess.run([lintian, "--allow-root", "--fail-on", "error,warning", changes],
                          capture_output=True, text=True, timeout=600, check=False)
    equal((done.returncode, done.stdout), (0, ""), done.stderr)
    for path in glob.glob(harness.ROOT + "/daemon/dist/debian/*.lintian-overrides"):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for before, line in zip([""] + lines, lines):
            assert line.startswith("#") or before.startswith("#"), "%s: no reason for %s" % (path, line)


def test_contents():
    """Which package has what; the library needs no newer libc, and no package provides libcuda."""
    wanted = {
        "mps": ("/usr/bin/mps-control", "/usr/bin/mps-run", "/usr/bin/mps-server", "/usr/bin/mps-top", "/usr/bin/mps-exporter",
                "systemd/system/mps-control.service", "systemd/system/mps-control.socket",
                "/usr/lib/tmpfiles.d/mps-control.conf", "/usr/lib/sysusers.d/mps-control.conf",
                "/usr/share/man/man1/mps-control.1.gz", "/usr/share/man/man1/mps-top.1.gz",
                "/usr/share/man/man8/mps-server.8.gz",
                "/bash-completion/completions/mps-control", "/_mps-control"),
        "libmpsclient": ("/usr/lib/mps/libmpsclient.so", "/usr/lib/mps/libcuda.so.1",
                         "/usr/lib/mps/mps-check", "/man7/libmpsclient.7.gz", "/pkgconfig/mps.pc"),
        "mps-compat": ("/usr/bin/nvidia-cuda-mps-control", "/usr/bin/nvidia-cuda-mps-server"),
        "mps-everywhere": ("/usr/lib/mps/everywhere/libcuda.so.1", "/usr/lib/mps/everywhere/libcuda.so ",
                           "/etc/ld.so.conf.d/0000-mps-everywhere.conf"),
        "mps-softgpu": ("/usr/lib/mps/softgpu/libcuda.so.1",),
        "mps-doc": ("/usr/share/doc/mps/docs/settings.md", "/usr/share/mps/fleet/alerts.yml",
                    "/usr/share/mps/fleet/dashboard.json")}
    for name, parts in wanted.items():
        listing = subprocess.run(["dpkg-deb", "-c", packages()[name]], capture_output=True, text=True,
                                 check=True).stdout
        for part in parts:
            contains(listing, part, name)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "-R", packages()[name], folder], check=True)
            assert not os.path.exists(folder + "/DEBIAN/shlibs"), name
            if name == "libmpsclient":
                text = subprocess.run(["readelf", "-V", folder + "/usr/lib/mps/libmpsclient.so"],
                                      capture_output=True, text=True, check=True).stdout
                versions = [tuple(map(int, v)) for v in re.findall(r"GLIBC_(\d+)\.(\d+)", text)]
                assert versions and max(versions) <= (2, 17), max(versions)


def test_no_nvcc():
    """The packages are built without CUDA's compiler."""
    with open(os.path.join(os.path.dirname(packages()["mps"]), "log"), encoding="utf-8") as file:
        log = file.read()
    contains(log, "mps-server")
    assert "nvcc" not in log, re.search(r".*nvcc.*", log).group(0)


def test_install_and_purge():
    """Installed, used, removed and purged; afterwards the root is as before."""
    debs = packages()
    with Root() as root:
        root.put_programs("process1")
        before = root.files()
        install(root, debs, *PACKAGES)
        assert "libcuda" not in root.run("ldconfig", "-p")
        contains(root.run("mps-run", "--check", "/opt/process1", status=1), "no daemon listens at")
        root.run("mps-control", "-d")
        contains(root.run("mps-run", "--check", "/opt/process1"), "would be a client")
        contains(root.run("mps-run", "--check", status=1, CUDA_MPS_PIPE_DIRECTORY="/nowhere"),
                 "(one listens in %s)" % PIPE)
        contains(root.run("mps-run", "/opt/process1"), "process1: ok")
        equal(root.run("nvidia-cuda-mps-control", "get_server_list").split(), servers(root))
        assert servers(root), "the program was no client"
        contains(root.run("bash", "-ic", "source /usr/share/bash-completion/completions/mps-control; "
                          "complete -p nvidia-cuda-mps-control"), "_mps_control")
        root.run("mps-control", "quit")

        # A second installation of the same packages, then removal beside a running client.
        install(root, debs, *PACKAGES)
        root.run("mps-control", "-d")
        running = client(root, 120)
        pid = daemon(root)
        said = root.run("apt-get", "remove", "-y", "mps", "libmpsclient", "mps-compat", "mps-doc",
                        "mps-softgpu")
        contains(said, "mps: ending the daemon and its servers")
        out, _ = running.communicate(timeout=60)
        assert running.returncode == 1 and re.search(r"process1: .*(MPS|806)", out), out
        assert not os.path.exists("%s/proc/%d" % (root.path, pid))
        assert "mps-server" not in root.run("ps", "-e")
        assert os.path.exists(root.path + "/var/log/nvidia-mps/control.log"), "logs stay until purge"

        root.run("apt-get", "purge", "-y", *PACKAGES)
        after = root.files()
        equal({k: v for k, v in after.items() if before.get(k) != v}, {}, "left by the packages")
        equal({k: v for k, v in before.items() if after.get(k) != v}, {}, "removed by the packages")


def test_purge_spares_others():
    """Files of others in the same folders stay, and links in /tmp are not followed."""
    with Root() as root:
        install(root, packages(), "mps", "libmpsclient")
        for path in ("/var/log/nvidia-mps/other.log", "/srv/control_lock"):
            os.makedirs(os.path.dirname(root.path + path), exist_ok=True)
            with open(root.path + path, "w", encoding="utf-8"):
                pass
        shutil.rmtree(root.path + PIPE, ignore_errors=True)
        os.symlink("/srv", root.path + PIPE)
        root.run("apt-get", "purge", "-y", "mps", "libmpsclient")
        for path in ("/var/log/nvidia-mps/other.log", "/srv/control_lock", PIPE):
            assert os.path.lexists(root.path + path), path


def upgrade(root, debs):
    """Upgrades beside a running client and replaces the daemon as the package says."""
    running = client(root, 40)
    old_daemon, old_servers = daemon(root), servers(root)
    said = install(root, debs, *PACKAGES)
    hint = re.search(r"kill -KILL (\d+) && mps-control -d", said)
    assert hint and int(hint.group(1)) == old_daemon, said
    equal(running.poll(), None, "the client after the upgrade")
    root.run("sh", "-c", hint.group(0))
    assert daemon(root) != old_daemon
    contains(root.run("mps-run", "/opt/process1"), "process1: ok")
    return running, old_servers


def test_upgrade_same_protocol():
    """The next daemon adopts the servers, and old and new clients share one."""
    with Root() as root, tempfile.TemporaryDirectory() as folder:
        root.put_programs("process1")
        install(root, packages(), *PACKAGES)
        root.run("mps-control", "-d")
        running, old_servers = upgrade(root, later_packages(folder))
        equal(servers(root), old_servers, "adopted")
        contains(finish(running), "process1: ok")
        root.run("mps-control", "quit")


def test_upgrade_other_protocol():
    """Old clients keep their server until they end; new clients get a new one."""
    with Root() as root:
        root.put_programs("process1")
        install(root, old_packages(), *PACKAGES)
        root.run("mps-control", "-d")
        running, old_servers = upgrade(root, packages())
        equal(running.poll(), None, "the old client beside a new one")
        assert not set(servers(root)) & set(old_servers), "a server of the old version is adopted"
        contains(finish(running), "process1: ok")
        wait_for("the end of the old server", lambda: not os.path.exists(
            "%s/proc/%s" % (root.path, old_servers[0])), 60)
        contains(root.run("mps-run", "--check", "/opt/process1"), "would be a client")
        root.run("mps-control", "quit")


if __name__ == "__main__":
    harness.main(globals())
