#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1500 s
"""docs/looking.md, From a package to a graph: a booted root of Debian executes exactly these lines."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
import test_deb  # pylint: disable=wrong-import-position
from harness import Skip, contains, equal, wait_for  # pylint: disable=wrong-import-position
from systemd_root import SystemdRoot  # pylint: disable=wrong-import-position
from test_systemd import SERVICE, SOFTGPU  # pylint: disable=wrong-import-position

LINES_MAX = 10
FOLDER = "/root/newcomer"
PROGRAMS = ("process1", "matmul")
# What the test replaces in the text: the newcomer's programs, and the browser.
REPLACED = {
    "./my-program": "./process1 --seconds 1000",
    "./my-other-program": "./matmul --seconds 1000",
    "xdg-open": "true",
}
# apt asks nothing, and a package that the text does not need stays away.
APT_SETTINGS = 'APT::Get::Assume-Yes "true";\n'
APT_PREFERENCES = "Package: prometheus-node-exporter\nPin: release *\nPin-Priority: -1\n"


def lines():
    """The lines of the section's code block."""
    with open(harness.ROOT + "/docs/looking.md", encoding="utf-8") as file:
        section = file.read().split("\n## From a package to a graph\n")[1].split("\n## ")[0]
    return re.findall(r"^    (.+)$", section, re.M)


def url_of(line):
    return urllib.parse.urlsplit(line.split("'")[1])


class NewcomerRoot(SystemdRoot):
    """A booted root with the packages and the programs in a folder, and nothing installed."""

    def start(self):
        for path in test_deb.packages().values():
            self.put(path, "%s/%s" % (FOLDER, os.path.basename(path)))
        for name in PROGRAMS:
            self.put(mps.program_path(name), "%s/%s" % (FOLDER, name))
        self.put_programs()
        self.write("/etc/systemd/system/%s.d/softgpu.conf" % SERVICE, SOFTGPU)
        # debootstrap writes none.
        self.write("/etc/hosts", "127.0.0.1 localhost\n")
        self.write("/etc/apt/apt.conf.d/test", APT_SETTINGS)
        self.write("/etc/apt/preferences.d/test", APT_PREFERENCES)
        self.download()
        super().start()

    def download(self):
        """Fetches what the first line installs: the booted root has no network."""
        shutil.copy("/etc/resolv.conf", self.path + "/etc/resolv.conf")
        install = lines()[0].replace("apt install", "apt-get install --download-only")
        done = subprocess.run(
            ["chroot", self.path, "sh", "-c",
             "cd %s && apt-get update && %s" % (FOLDER, install)],
            env=dict(os.environ, **self.environment()), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise Skip("apt-get cannot download Prometheus: " + done.stderr[-1000:])


def units(root):
    """What the journal has about both units."""
    return root.journal("-n", "80", "-u", SERVICE, "-u", "prometheus")


def walk(root):
    """Executes the lines; the programs continue in the background."""
    text = "\n".join(lines())
    for said, instead in REPLACED.items():
        equal(text.count(said), 1, said)
        text = text.replace(said, instead)
    root.write(FOLDER + "/lines", text + "\n")
    said = root.run("bash", "-c", "cd %s; bash -ex ./lines >log 2>&1; echo $?" % FOLDER, timeout=600)
    # nsenter's way into the root may make the shell complain before.
    equal(said.split()[-1], "0", root.run("cat", FOLDER + "/log") + units(root))


def ask_prometheus(root, query):
    """[(labels, value)]; empty until Prometheus is ready."""
    url = url_of(lines()[-1])
    said = root.run("promtool", "query", "instant", "--format=json",
                    "%s://%s" % (url.scheme, url.netloc), query, status=None)
    if not said.startswith("["):
        return []
    return [(each["metric"], float(each["value"][1])) for each in json.loads(said)]


def test_ten_lines():
    """The graph of the last line has a series for each of both programs, which run as clients."""
    assert 0 < len(lines()) <= LINES_MAX, lines()
    contains(lines()[0], "apt install ./mps_*.deb")
    query, = urllib.parse.parse_qs(url_of(lines()[-1]).query)["g0.expr"]
    with NewcomerRoot() as root:
        walk(root)
        pids = {root.run("pgrep", "-x", name).strip() for name in PROGRAMS}
        equal(len(pids), len(PROGRAMS), pids)
        try:
            wait_for("a series for each program", lambda: pids == {
                labels["pid"] for labels, value in ask_prometheus(root, query) if value > 0}, 180)
        except AssertionError:
            print("    up: %s\n%s" % (ask_prometheus(root, "up"), units(root)))
            raise
        clients = root.run("mps-control", "ps")
        for pid in pids:
            assert re.search(r"^ *%s " % pid, clients, re.M), clients


if __name__ == "__main__":
    harness.main(globals())
