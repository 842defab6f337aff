#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""mps-control cdi: the specification's shape, its file, and a client that is made by it.

tests/cluster/test_podman.py has a container engine that reads the specification.
"""

import json
import os
import re
import stat
import subprocess
import tempfile

import harness
import mps
from contained import Image
from harness import contains, equal

PIPE = "/tmp/nvidia-mps"
LIBRARY = "/usr/lib/mps"


def cdi(*arguments, status=0, env=None, control=mps.CONTROL):
    """(standard output, standard error)"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_MPS_")}
    done = subprocess.run([control, *arguments], env=dict(clean, **(env or {})), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=30 * mps.SLOW,
                          check=False)
    equal(done.returncode, status, done.stdout + done.stderr)
    return done.stdout, done.stderr


def check_mount(mount):
    equal(set(mount), {"hostPath", "containerPath", "options"})
    for name in "hostPath", "containerPath":
        assert mount[name].startswith("/") and not mount[name].endswith("/"), mount
    assert {"ro", "nosuid", "nodev", "bind"} <= set(mount["options"]), mount


def check_shape(spec):
    """The rules of CDI 0.5.0, and the names that its parser accepts."""
    equal(set(spec), {"cdiVersion", "kind", "devices"})
    equal(spec["cdiVersion"], "0.5.0")
    vendor, slash, kind = spec["kind"].partition("/")
    assert slash and re.fullmatch(r"[A-Za-z]([-\w.]*[A-Za-z0-9])?", vendor), vendor
    assert re.fullmatch(r"[A-Za-z]([-\w]*[A-Za-z0-9])?", kind), kind
    names = [device["name"] for device in spec["devices"]]
    assert names and len(set(names)) == len(names), names
    for device in spec["devices"]:
        equal(set(device), {"name", "containerEdits"})
        assert re.fullmatch(r"[A-Za-z0-9]([-\w.:]*[A-Za-z0-9])?", device["name"]), device["name"]
        edits = device["containerEdits"]
        equal(set(edits), {"env", "mounts"})
        for pair in edits["env"]:
            assert re.fullmatch(r"[A-Z_]+=[^\0]+", pair), pair
        for mount in edits["mounts"]:
            check_mount(mount)


def test_shape():
    """By default, with the directories of this build and without a daemon."""
    spec = json.loads(cdi("cdi")[0])
    check_shape(spec)
    equal((spec["kind"], [device["name"] for device in spec["devices"]]), ("mps.io/client", ["all"]))
    edits = spec["devices"][0]["containerEdits"]
    equal({mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]},
          {PIPE: PIPE, LIBRARY: os.path.realpath(os.path.dirname(mps.LIBRARY))})
    equal(edits["env"], ["CUDA_MPS_PIPE_DIRECTORY=" + PIPE,
                         "LD_PRELOAD=" + LIBRARY + "/libmpsclient.so", "MPS_CLIENT_REQUIRE=1"])


def host_path(text, target):
    mounts = json.loads(text)["devices"][0]["containerEdits"]["mounts"]
    found, = [mount["hostPath"] for mount in mounts if mount["containerPath"] == target]
    return found


def test_directories():
    """The daemon's directory, by the environment or the configuration file; another library."""
    with tempfile.TemporaryDirectory() as folder:
        equal(host_path(cdi("cdi", env={"CUDA_MPS_PIPE_DIRECTORY": folder + "/a b\"/"})[0], PIPE),
              folder + "/a b\"")
        config = folder + "/mps.conf"
        with open(config, "w", encoding="utf-8") as file:
            file.write("[daemon]\npipe_directory = %s/conf\n" % folder)
        equal(host_path(cdi("-c", config, "cdi")[0], PIPE), folder + "/conf")
        _, err = cdi("cdi", "--library", folder, status=1)
        equal(err, "mps-control: %s/libmpsclient.so: No such file or directory\n" % folder)
        with open(folder + "/libmpsclient.so", "w", encoding="utf-8"):
            pass
        equal(host_path(cdi("cdi", "--library", folder + "/")[0], LIBRARY), os.path.realpath(folder))


def test_installed():
    """Found from the program's own place, whatever the link's; without the library it says so."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        for name in "bin", "lib/mps", "links":
            os.makedirs(os.path.join(folder, name))
        control, link = folder + "/bin/mps-control", folder + "/links/nvidia-cuda-mps-control"
        os.symlink(control, link)
        with open(mps.CONTROL, "rb") as file, open(control, "wb") as copy:
            copy.write(file.read())
        os.chmod(control, 0o755)
        _, err = cdi("cdi", control=link, status=1)
        contains(err, "cannot find libmpsclient.so in %s/bin/../lib/mps: install it" % folder)
        with open(folder + "/lib/mps/libmpsclient.so", "w", encoding="utf-8"):
            pass
        equal(host_path(cdi("cdi", control=link)[0], LIBRARY), folder + "/lib/mps")


def test_file():
    """--output replaces a file as a whole, for every user to read, or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/mps.json"
        with open(path, "w", encoding="utf-8") as file:
            file.write("x" * 100000)
        before = os.umask(0o077)
        try:
            equal(cdi("cdi", "--output", path), ("", ""))
        finally:
            os.umask(before)
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o644)
        equal(os.listdir(folder), ["mps.json"])
        with open(path, encoding="utf-8") as file:
            equal(file.read(), cdi("cdi")[0])
        os.mkdir(folder + "/taken")
        for name, why in ("/none/mps.json", "No such file or directory"), ("/taken", "Is a directory"):
            _, err = cdi("cdi", "--output", folder + name, status=1)
            equal(err, "mps-control: cannot write %s%s: %s\n" % (folder, name, why))
        equal(sorted(os.listdir(folder)), ["mps.json", "taken"])
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([mps.CONTROL, "cdi"], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)
    equal((done.returncode, done.stderr),
          (1, "mps-control: cannot write standard output: No space left on device\n"))


def test_usage():
    usage = "mps-control: cdi takes options only: cdi [--output FILE] [--library FOLDER]\n"
    for words in ("all",), ("--output",), ("--output", "/tmp/x", "--library"), ("--json", "x"):
        equal(cdi("cdi", *words, status=1), ("", usage))
    contains(cdi("-h")[0], "  cdi [--output FILE] [--library FOLDER]  ")


def test_client():
    """A container with the environment and the mounts of the specification is a client."""
    with mps.Service() as service, Image(service, "process1") as image:
        control = mps.for_everybody(mps.CONTROL)
        spec = json.loads(cdi("cdi", env=service.env, control=control)[0])
        edits = spec["devices"][0]["containerEdits"]
        code, out, err = image.run("process1", env=edits["env"], mounts=[
            mount["hostPath"] + ":" + mount["containerPath"] for mount in edits["mounts"]])
        equal((code, out, err), (0, "process1: ok\n", ""))
        contains(service.control_log(), "NEW CLIENT")
        # It is found as libcuda.so.1, too.
        assert os.path.exists(edits["mounts"][1]["hostPath"] + "/libcuda.so.1")


if __name__ == "__main__":
    harness.main(globals())
