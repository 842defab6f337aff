# SPDX-License-Identifier: Apache-2.0
"""Packages with a driver for a root of Debian: the software GPU in the files of a driver.

    DebianDriver(folder).install(root, "535.1")

DebianDriver is Debian's own libcuda1 with all that it depends on, from non-free: its alternatives,
maintainer scripts and triggers, with another file as its library. PlainDriver has the layout of
Ubuntu's packages and of NVIDIA's later ones: the library and its links beside other libraries.
"""

import glob
import os
import re
import shutil
import subprocess

import debian_root
import harness
import mps
from harness import Skip

# Beside the driver, what the test runs in the root.
DOWNLOADED = ("libcuda1", "python3", "sudo")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

CONTROL = """Package: libnvidia-compute
Version: %s
Architecture: amd64
Maintainer: The tests <tests@mps.invalid>
Description: the software GPU in the place of a driver
"""


def download(folder):
    """Fetches the packages, which the machine's own apt need not know."""
    with debian_root.Root() as root:
        shutil.copy("/etc/resolv.conf", root.path + "/etc/resolv.conf")
        with open(root.path + "/etc/apt/sources.list", "r+", encoding="utf-8") as file:
            text = file.read()
            file.seek(0)
            file.write(text.replace(" main", " main contrib non-free"))
        said = root.run("sh", "-c", "apt-get clean && apt-get update && apt-get install -y "
                        "--no-install-recommends --download-only " + " ".join(DOWNLOADED),
                        status=None, timeout=600)
        found = glob.glob(root.path + "/var/cache/apt/archives/*.deb")
        if not any("/libcuda1_" in path for path in found):
            raise Skip("apt-get cannot download Debian's driver: " + said[-1000:])
        shutil.rmtree(folder + ".new", ignore_errors=True)
        os.makedirs(folder + ".new")
        for path in found:
            shutil.copy(path, folder + ".new")
    os.rename(folder + ".new", folder)


def downloaded():
    """The files of the packages, kept for later runs."""
    folder = os.path.join(harness.BUILD, "cluster", "driver-" + debian_root.codename())
    if not os.path.isdir(folder):
        download(folder)
    return glob.glob(folder + "/*.deb")


def put_library(folder, version):
    """The library of a driver's version with its links."""
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(folder + "/libcuda.so*"):
        os.unlink(path)
    shutil.copy(mps.SOFTGPU, "%s/libcuda.so.%s" % (folder, version))
    os.symlink("libcuda.so." + version, folder + "/libcuda.so.1")
    os.symlink("libcuda.so.1", folder + "/libcuda.so")


class Driver:
    """`package' is the one with the library; `others' are files of packages that it needs."""

    package = None

    def __init__(self, folder):
        self.folder = folder
        self.others = [path for path in downloaded() if not self.is_replaced(os.path.basename(path))]

    def install(self, root, version):
        tree = "%s/%s-%s" % (self.folder, self.package, version)
        if not os.path.exists(tree + ".deb"):
            self.make(tree, version)
            subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, tree + ".deb"],
                           check=True, stdout=subprocess.DEVNULL)
        names = [root.put(path, "/opt/debs/" + os.path.basename(path))
                 for path in self.others + [tree + ".deb"]]
        root.run("apt-get", "install", "-y", "--no-install-recommends", *names, timeout=600)


class DebianDriver(Driver):
    package = "libcuda1"

    @staticmethod
    def is_replaced(name):
        return name.startswith("libcuda1_")

    @staticmethod
    def make(tree, version):
        original, = [path for path in downloaded() if "/libcuda1_" in path]
        subprocess.run(["dpkg-deb", "-R", original, tree], check=True)
        put_library(tree + LIBRARIES + "/nvidia/current", version)
        with open(tree + "/DEBIAN/control", "r+", encoding="utf-8") as file:
            text = re.sub(r"(?m)^Version: .*", "Version: " + version, file.read())
            file.seek(0)
            file.truncate()
            file.write(text)
        os.unlink(tree + "/DEBIAN/md5sums")


class PlainDriver(Driver):
    package = "libnvidia-compute"

    @staticmethod
    def is_replaced(name):
        return re.match("libcuda1_|libnvidia|nvidia|glx|update-glx", name)

    @staticmethod
    def make(tree, version):
        put_library(tree + LIBRARIES, version)
        os.makedirs(tree + "/DEBIAN")
        for name, text in (("control", CONTROL % version), ("triggers", "activate-noawait ldconfig\n")):
            with open(tree + "/DEBIAN/" + name, "w", encoding="utf-8") as file:
                file.write(text)
