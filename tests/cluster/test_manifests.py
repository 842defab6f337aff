#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 900 s
"""The manifests of docs/kubernetes: what they say is whole, and their containers do what they are for.

No cluster runs here: podman runs each container with the manifest's command, variables, mounts,
user and capabilities.
"""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import contained  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
import podman_engine  # pylint: disable=wrong-import-position
from harness import Skip, contains, equal, wait_for  # pylint: disable=wrong-import-position
from podman_engine import Engine  # pylint: disable=wrong-import-position

sys.path.insert(0, os.path.join(harness.ROOT, "build", "cluster", "python"))

try:
    import yaml
except ImportError:
    yaml = None

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
OWN_USERS = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")


def documents(name):
    if not yaml:
        raise Skip("PyYAML is not installed: tests/setup --cluster")
    with open("%s/docs/kubernetes/%s" % (harness.ROOT, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def find(name, kind):
    found, = [document for document in documents(name) if document["kind"] == kind]
    return found


def check_container(container, volumes):
    assert NAME.fullmatch(container["name"]), container["name"]
    assert container["image"].endswith(":local") and container["command"], container
    equal(len({pair["name"] for pair in container.get("env", ())}), len(container.get("env", ())))
    for pair in container.get("env", ()):
        equal((set(pair), type(pair["value"])), ({"name", "value"}, str), pair)
    for mount in container["volumeMounts"]:
        assert set(mount) <= {"name", "mountPath", "readOnly"} and mount["name"] in volumes, mount
    for probe in "startupProbe", "readinessProbe", "livenessProbe":
        if probe in container:
            equal(container[probe]["exec"]["command"], ["mps-control", "get_server_list"])
            assert container[probe]["timeoutSeconds"] > 15, "the front end takes that long"


def check_pod(spec):
    for name in "hostPID", "hostIPC", "hostNetwork":
        assert not spec.get(name), name
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    containers = spec.get("initContainers", []) + spec["containers"]
    for container in containers:
        check_container(container, volumes)
        assert not container.get("securityContext", {}).get("privileged"), container["name"]
    equal({mount["name"] for each in containers for mount in each["volumeMounts"]}, set(volumes))


def test_contents():
    """Each document has its kind's parts, and selectors, labels, volumes and names fit together."""
    equal([document["kind"] for document in documents("daemonset.yaml")], ["Namespace", "DaemonSet"])
    daemons = find("daemonset.yaml", "DaemonSet")
    equal(daemons["apiVersion"], "apps/v1")
    equal(daemons["metadata"]["namespace"], find("daemonset.yaml", "Namespace")["metadata"]["name"])
    template = daemons["spec"]["template"]
    equal(daemons["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])
    assert set(daemons["spec"]) <= {"selector", "updateStrategy", "template"}
    check_pod(template["spec"])
    pod = find("client.yaml", "Pod")
    equal(pod["apiVersion"], "v1")
    assert NAME.fullmatch(pod["metadata"]["name"])
    check_pod(pod["spec"])
    equal(host_paths(pod["spec"]), {path for path in host_paths(template["spec"])})


def host_paths(spec):
    return {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}


# ---- run by podman

def options_of(container, spec, folder):
    """What of the manifest podman knows; `folder' is the host."""
    options = []
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        path = volumes[mount["name"]].get("hostPath", {}).get("path", "/empty/" + mount["name"])
        if volumes[mount["name"]].get("hostPath", {}).get("type") != "Directory":
            os.makedirs(folder + path, exist_ok=True)
        options += ["--volume", folder + path + ":" + mount["mountPath"] +
                    (":ro" if mount.get("readOnly") else "")]
    for pair in container.get("env", ()):
        options += ["--env", pair["name"] + "=" + pair["value"]]
    context = container.get("securityContext", {})
    for option, key in ("--cap-drop", "drop"), ("--cap-add", "add"):
        for name in context.get("capabilities", {}).get(key, ()):
            options += [option, name.lower() if name == "ALL" else name]
    if "runAsUser" in context:
        options += ["--user", str(context["runAsUser"])]
    if context.get("allowPrivilegeEscalation") is False:
        options += ["--security-opt", "no-new-privileges"]
    return options + list(OWN_USERS if spec.get("hostUsers") is False else ())


def load_images(engine):
    """The image of the packages, with the software GPU as the driver; and a program's image."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "mps-control", "mps-server":
            contained.copy_program(mps.BUILD + "/bin/" + name, folder)
        for name in "sh", "cp":
            contained.copy_program(shutil.which(name), folder)
        contained.copy_program(mps.SOFTGPU, folder, "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        shutil.copytree(os.path.dirname(mps.LIBRARY), folder + "/usr/lib/mps", symlinks=True)
        os.makedirs(folder + "/var/log")
        os.chmod(folder, 0o755)
        engine.load("mps:local", folder)
    with tempfile.TemporaryDirectory() as folder:
        contained.copy_program(mps.program("process1"), folder, "/bin/program")
        os.chmod(folder, 0o755)
        engine.load("cuda-program:local", folder)


class Node:
    """The pods of the manifests on one machine, whose files are below the engine's folder."""

    def __init__(self, engine):
        self.engine = engine
        self.daemon = find("daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"]
        self.client = find("client.yaml", "Pod")["spec"]

    def start_daemon(self):
        for container in self.daemon["initContainers"]:
            done = self.engine.run(container["image"], *container["command"], options=options_of(
                container, self.daemon, self.engine.folder))
            equal((done.returncode, done.stdout, done.stderr), (0, "", ""))
        container, = self.daemon["containers"]
        self.engine.ok("run", "--detach", "--name", "daemon", "--network", "none",
                       *podman_engine.LIMITS, *options_of(container, self.daemon, self.engine.folder),
                       "localhost/" + container["image"], *container["command"])
        for probe in "startupProbe", "readinessProbe", "livenessProbe":
            command = container[probe]["exec"]["command"]
            wait_for("the " + probe, lambda command=command: self.ask(*command).returncode == 0, 60)

    def ask(self, *command):
        return self.engine.podman_run("exec", "daemon", *command)

    def stop_daemon(self):
        self.engine.ok("stop", "--time", str(self.daemon["terminationGracePeriodSeconds"]), "daemon")
        equal(self.engine.ok("inspect", "--format", "{{.State.ExitCode}}", "daemon"), "0\n")
        self.engine.ok("rm", "daemon")

    def start_client(self, *arguments):
        container, = self.client["containers"]
        return self.engine.popen(container["image"], *container["command"], *arguments,
                                 options=options_of(container, self.client, self.engine.folder))

    def rows(self):
        done = self.ask("mps-control", "ps", "-l")
        equal(done.returncode, 0, done.stderr)
        return [line.split() for line in done.stdout.splitlines()[1:]]


def test_pods():
    """The daemon's pod starts, passes its probes, serves clients within their shares, and ends."""
    with Engine() as engine:
        node = Node(engine)
        load_images(engine)
        for _ in range(2):
            node.start_daemon()
            done = node.start_client()
            out, err = done.communicate(timeout=120)
            equal((done.returncode, out), (0, "process1: ok\n"), err)
            client = node.start_client("--seconds", "300")
            wait_for("its work", lambda: client.poll() is not None or node.rows(), 60)
            assert client.poll() is None, client.communicate()
            row, = node.rows()
            equal((row[0], row[5], row[6]), ("0", "32", "4G"))
            node.stop_daemon()
            out, err = client.communicate(timeout=120)
            equal(client.returncode, 1, out + err)
            contains(out + err, "(806)")


if __name__ == "__main__":
    harness.main(globals())
