#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 5400 s
"""The manifests of docs/kubernetes: what they say is whole, and their containers do what they are for.

No cluster runs here: podman builds the image of docs/kubernetes/Dockerfile, and runs each container with
the manifest's command, variables, mounts, user and capabilities. The software GPU is mounted into the
image as a runtime of NVIDIA would mount the driver.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import contained  # pylint: disable=wrong-import-position
import debian_root  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
import podman_engine  # pylint: disable=wrong-import-position
from harness import Skip, contains, equal, wait_for  # pylint: disable=wrong-import-position
from podman_engine import Engine  # pylint: disable=wrong-import-position

sys.path.insert(0, os.path.join(harness.ROOT, "build", "cluster", "python"))

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = yaml = None

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
OWN_USERS = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")


def documents(name):
    if not yaml:
        raise Skip("PyYAML and kubernetes-validate are not installed: tests/setup --cluster")
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


def test_schemas():
    """Each document is valid for the first Kubernetes that has hostUsers, and for the newest one known."""
    for name in "daemonset.yaml", "client.yaml":
        for document in documents(name):
            for version in "1.25", kubernetes_validate.latest_version():
                kubernetes_validate.validate(document, version, strict=True)


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


# Of the Dockerfile's base image, which cannot be pulled here.
BASE, RELEASE = "docker.io/library/debian:13-slim", "trixie"
AUTHORITIES = "usr/local/share/ca-certificates"
DRIVER = ("--volume", mps.SOFTGPU + ":/usr/lib/x86_64-linux-gnu/libcuda.so.1:ro")


@functools.cache
def image():
    """The image of the Dockerfile, as an archive; building it takes minutes."""
    path = os.path.join(harness.BUILD, "cluster", "image.tar")
    if os.path.exists(path):
        os.unlink(path)
    with Engine() as engine:
        base = shutil.copy(debian_root.archive(RELEASE, ()), engine.folder + "/base.tar")
        # pip trusts what the machine trusts.
        if os.path.isdir("/" + AUTHORITIES):
            subprocess.run(["tar", "-C", "/", "-rf", base, "./" + AUTHORITIES], check=True)
        engine.build(harness.ROOT + "/docs/kubernetes/Dockerfile", BASE, base, path)
    return path


def load_images(engine):
    """The image of the Dockerfile, and a program's image."""
    engine.load_saved("mps:local", image())
    load_program(engine, "cuda-program:local")


def load_program(engine, name, *libraries):
    with tempfile.TemporaryDirectory() as folder:
        contained.copy_program(mps.program("process1"), folder, "/bin/program")
        for path in (shutil.which("sh"), *libraries):
            contained.copy_program(path, folder)
        os.chmod(folder, 0o755)
        engine.load(name, folder)


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
                       *podman_engine.LIMITS, *DRIVER,
                       *options_of(container, self.daemon, self.engine.folder),
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


# ---- the manifests of AWS's virtual GPU device plugin

VGPU_PIPE = "/tmp/nvidia-mps"
VGPU_PODS = 3


class VgpuNode:
    """A node as that plugin's manifests have it: the pods share IPC and one folder of the host, read-write.

    The daemon's container has no command, and a percentage for all clients. The GPU is in
    EXCLUSIVE_PROCESS.
    """

    def __init__(self, engine):
        self.engine = engine
        self.host = engine.folder + VGPU_PIPE
        os.makedirs(self.host)
        # The lock of the GPU is on the node.
        gpu = engine.folder + "/gpu"
        os.makedirs(gpu)
        self.shared = ("--ipc", "host", "--volume", self.host + ":" + VGPU_PIPE, "--volume", gpu + ":/gpu",
                       "--env", "SOFTGPU_DIR=/gpu", "--env", "SOFTGPU_COMPUTE_MODE=exclusive", *DRIVER)

    def start_daemon(self):
        self.engine.ok("run", "--detach", "--name", "vgpu", "--network", "none", *podman_engine.LIMITS,
                       *self.shared, "--env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10",
                       "--env", "MPS_SERVER_ENV=SOFTGPU_DIR,SOFTGPU_COMPUTE_MODE", "localhost/mps:local")
        wait_for("the daemon", lambda: self.ask("get_server_list").returncode == 0, 60)

    def ask(self, *command):
        """By NVIDIA's name, which scripts for the plugin use."""
        return self.engine.podman_run("exec", "vgpu", "nvidia-cuda-mps-control", *command)

    def start_client(self, *arguments, env=()):
        return self.engine.popen("vgpu-program:local", "/bin/program", *arguments,
                                 options=(*self.shared, *env))

    def rows(self):
        return [line.split() for line in self.ask("ps", "-l").stdout.splitlines()[1:]]


def test_vgpu_plugin():
    """The image without a command serves pods whose only addition is the variable that the page names."""
    with open(harness.ROOT + "/docs/kubernetes.md", encoding="utf-8") as file:
        preload, = re.findall(r"`(LD_PRELOAD)` `(/tmp/nvidia-mps/lib/\S+)`", file.read())
    env = ("--env", "=".join(preload))
    with Engine() as engine:
        load_images(engine)
        # The driver that is mounted needs libraries, and a program without the variable needs the driver.
        load_program(engine, "vgpu-program:local", mps.SOFTGPU)
        node = VgpuNode(engine)
        node.start_daemon()
        clients = [node.start_client("--seconds", "60", env=env) for _ in range(VGPU_PODS)]
        wait_for("the pods", lambda: len(node.rows()) == VGPU_PODS or
                 any(client.poll() is not None for client in clients), 60)
        equal([(row[5], row[9]) for row in node.rows()], [("8", "ACTIVE")] * VGPU_PODS)
        # The GPU belongs to the server: a pod that does not load the library cannot use it.
        out, err = node.start_client().communicate(timeout=120)
        contains(out + err, "(46)")
        for client in clients:
            out, err = client.communicate(timeout=180)
            equal((client.returncode, out), (0, "process1: ok\n"), err)
        engine.ok("stop", "--time", "30", "vgpu")
        equal(engine.ok("inspect", "--format", "{{.State.ExitCode}}", "vgpu"), "0\n")


if __name__ == "__main__":
    harness.main(globals())
