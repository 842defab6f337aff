#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 60 s
"""The manifests of docs/kubernetes agree with each other, with mps-control cdi and with the page.

tests/cluster/test_manifests.py reads them as YAML, and runs their containers.
"""

import glob
import json
import os
import re
import subprocess

import harness
import mps
import properties
from harness import contains, equal

FOLDER = os.path.join(harness.ROOT, "docs", "kubernetes")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def manifest(name):
    return read(os.path.join(FOLDER, name))


def test_lines():
    """Spaces only, an even indent, and every document has a kind."""
    for path in glob.glob(FOLDER + "/*.yaml"):
        text = read(path)
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n") and text.endswith("\n"), path
        for number, line in enumerate(text.splitlines(), 1):
            where = "%s:%d" % (path, number)
            assert "\t" not in line and line == line.rstrip() and len(line) <= 100, where
            equal((len(line) - len(line.lstrip())) % 2, 0, where)
        for document in text.split("\n---\n"):
            equal(len(re.findall(r"^apiVersion: \S+$", document, re.M)), 1, path)
            equal(len(re.findall(r"^kind: \w+$", document, re.M)), 1, path)
        for forbidden in "hostIPC", "hostPID", "hostNetwork", "privileged: true":
            assert forbidden not in text, "%s: %s" % (path, forbidden)


def test_client():
    """The pod has what the device of the specification would give it."""
    done = subprocess.run([mps.CONTROL, "cdi"], capture_output=True, text=True, check=True)
    edits = json.loads(done.stdout)["devices"][0]["containerEdits"]
    text = manifest("client.yaml")
    given = dict(re.findall(r"^ +- name: (\w+)\n +value: \"?([^\"\n]+)\"?$", text, re.M))
    for pair in edits["env"]:
        name, _, value = pair.partition("=")
        equal(given.get(name), value, name)
    equal(sorted(re.findall(r"mountPath: (\S+)\n +readOnly: true$", text, re.M)),
          sorted(mount["containerPath"] for mount in edits["mounts"]))


def test_same_folders():
    """The client mounts what the DaemonSet provides; the page names the files and those paths."""
    paths = [set(re.findall(r"hostPath:\n +path: (\S+)$", manifest(name), re.M))
             for name in ("daemonset.yaml", "client.yaml")]
    equal(paths[0], paths[1])
    page = read(os.path.join(harness.ROOT, "docs", "kubernetes.md"))
    for path in glob.glob(FOLDER + "/*"):
        contains(page, "(kubernetes/%s)" % os.path.basename(path))
    for name in "`/tmp/nvidia-mps`", "`/usr/lib/mps`", "`/usr/lib/mps/libmpsclient.so`":
        contains(page, name)


def test_sms_of_replicas():
    """The page's table, on the software GPU, which has the SMs and the groups of an H200."""
    page = read(os.path.join(harness.ROOT, "docs", "kubernetes.md"))
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| (\d+) \| (\d+) \|$", page, re.M)
    assert len(rows) > 5, page
    with mps.Service() as service:
        for replicas, percentage, sms, unused in rows:
            given = properties.read(service.run_ok(
                "properties", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": percentage})[0])
            equal(given["attribute.MULTIPROCESSOR_COUNT"], sms, percentage)
            equal(132 - int(replicas) * int(sms), int(unused), percentage)


if __name__ == "__main__":
    harness.main(globals())
