# SPDX-License-Identifier: Apache-2.0
"""Programs in containers of container.py, as clients of a service of mps.py.

    with mps.Service() as service, contained.Image(service, "process1") as image:
        image.run("process1", uid=1000)

Of the host, a container has the pipe directory in PIPE and the client library's folder in LIBRARY.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import mps
from container import REFUSED
from harness import ROOT, Skip, contains, equal

PIPE, LIBRARY = "/run/mps", "/opt/mps"
SCRIPT = os.path.join(ROOT, "tests", "system", "container.py")
# What mps-run sets.
PRELOAD = ("LD_PRELOAD=" + LIBRARY + "/libmpsclient.so", "LD_LIBRARY_PATH=" + LIBRARY)


def pod_share():
    """What a pod shares with the host: its users. An ordinary user can make no such container."""
    return ("user",) if os.geteuid() == 0 else ()


def copy_program(path, folder, target=None):
    """Copies a program or library, and the libraries that it needs, into a root."""
    target = folder + (target or "/bin/" + os.path.basename(path))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(path, target)
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    for word in listed.split():
        if word.startswith("/") and not os.path.exists(folder + word):
            os.makedirs(os.path.dirname(folder + word), exist_ok=True)
            shutil.copy(word, folder + word)


class Image:
    """A root with example programs (or any paths) and the libraries that they need, nothing else.

    Without a service, the caller names the mounts and runs the words itself.
    """

    def __init__(self, service, *programs):
        if os.environ.get("MPS_SAN"):
            raise Skip("the image lacks the sanitizers' libraries")
        self.service = service
        self.path = tempfile.mkdtemp(prefix="mps-image-")
        os.chmod(self.path, 0o755)
        for name in programs:
            copy_program(name if "/" in name else mps.program(name), self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def words(self, program, *arguments, uid=0, share=(), env=PRELOAD, mounts=None, options=()):
        """The command that runs a program in a container."""
        if mounts is None:
            library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
            mounts = (self.service.pipe + ":" + PIPE, library + ":" + LIBRARY)
        words = [sys.executable, SCRIPT, "--root", self.path, "--uid", str(uid),
                 "--env", "CUDA_MPS_PIPE_DIRECTORY=" + PIPE, "--env", "MPS_CLIENT_REQUIRE=1"]
        for option, values in (("--share", share), ("--mount", mounts), ("--env", env)):
            for value in values:
                words += [option, value]
        return [*words, *options, "/bin/" + program, *arguments]

    def popen(self, program, *arguments, **more):
        process = subprocess.Popen(self.words(program, *arguments, **more), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.service.started.append(process)
        return process

    def run(self, program, *arguments, **more):
        """(exit code, stdout, stderr)"""
        code, out, err = self.service.finish(self.popen(program, *arguments, **more))
        if code == REFUSED:
            raise Skip("this machine allows no containers: " + err.strip())
        return code, out, err

    def run_ok(self, program, *arguments, **more):
        code, out, err = self.run(program, *arguments, **more)
        equal((code, err), (0, ""), out)
        contains(out, "%s: ok" % program)
