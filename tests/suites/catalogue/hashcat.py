# SPDX-License-Identifier: Apache-2.0
"""hashcat, of Debian's packages, finds passwords (hashcat_modes.py). It compiles by NVRTC."""

import glob
import os
import shutil
import subprocess
import tempfile

TITLE = "hashcat 6.2.6"
DISTRIBUTION = ""
PACKAGE = "nvidia"
REQUIREMENTS = ["nvidia-cuda-nvrtc==13.0.88"]
# Unpacked, not installed: the packages would also want an OpenCL driver.
DEBIAN = "hashcat hashcat-data libminizip1 libxxhash0".split()
# A test compiles for up to a minute beside other work, and says nothing meanwhile.
STALL_S = 300
SHORT = ("md",)
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                      "hashcat_modes.py")


def download(folder):
    """Debian's packages, from lists that may have to be fetched first."""
    words = ["apt-get", "-q", "download", *DEBIAN]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    if done.returncode != 0:
        subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
        subprocess.run(words, cwd=folder, capture_output=True, check=True)
    return glob.glob(os.path.join(folder, "*.deb"))


def prepare(site, _):
    """The layout in which hashcat finds its files beside itself."""
    root = os.path.join(site, "hashcat")
    with tempfile.TemporaryDirectory() as folder:
        for package in download(folder):
            subprocess.run(["dpkg-deb", "-x", package, folder], capture_output=True, check=True)
        usr = os.path.join(folder, "usr")
        shutil.move(os.path.join(usr, "share", "hashcat"), root)
        os.unlink(os.path.join(root, "modules"))  # a link, which would dangle
        shutil.move(os.path.join(usr, "lib", "hashcat", "modules"), root)
        shutil.move(os.path.join(usr, "bin", "hashcat"), root)
        os.mkdir(os.path.join(root, "lib"))
        for path in glob.glob(os.path.join(usr, "lib", "*-linux-gnu", "*.so.*")):
            shutil.move(path, os.path.join(root, "lib"))
    nvrtc = glob.glob(os.path.join(site, "nvidia", "cu13", "lib", "libnvrtc.so.*"))
    os.symlink(os.path.abspath(nvrtc[0]), os.path.join(root, "lib", "libnvrtc.so"))


def units(_):
    """The groups of hashcat_modes.py."""
    return ["md", "sha", "other", "salted", "slow", "attacks"]


def command(site, unit):
    """What Python runs for a unit."""
    return [SCRIPT, os.path.join(site, "hashcat"), unit]
