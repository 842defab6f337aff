# SPDX-License-Identifier: Apache-2.0
"""A service for clusters of Python processes: Ray and Dask (packages.py), and a private network.

    with python_cluster.Cluster() as cluster:
        cluster.start_process("scheduler", "dask", "scheduler", "--host", "127.0.0.1")
        print(cluster.run_example("dask/shares.py"))
"""

import ctypes
import fcntl
import functools
import os
import socket
import struct
import subprocess

import harness
import mps
import packages
import suite
from harness import Skip, equal

EXAMPLES = os.path.join(harness.ROOT, "docs", "clusters")
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP, IFF_RUNNING = 1, 64


@functools.cache
def programs():
    """The folder of the installed packages' programs, such as python and ray."""
    made = suite.Suite(packages.__file__, False, os.path.join(harness.BUILD, "cluster"))
    made.install_wheels()
    return os.path.dirname(made.python)


@functools.cache
def enter_private_network():
    """From now on, this process and its children have the loopback interface only.

    The ports of a cluster are then closed to other machines and never in use.
    """
    harness.need_root()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise Skip("this machine allows no network namespace: %s" % os.strerror(ctypes.get_errno()))
    with socket.socket() as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING))


class Cluster(mps.Service):
    """A service whose processes find mps-run, mps-control and the installed Python."""

    # The longest time of a step: on a busy machine, the processes take minutes to start.
    SECONDS = 600

    def __init__(self):
        # The installation needs the network.
        path = programs()
        enter_private_network()
        super().__init__()
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        self.env.update(HOME=home, PATH=os.pathsep.join(
            (path, os.path.join(harness.BUILD, "bin"), self.env["PATH"])), PYTHONUNBUFFERED="1")
        # Compiled modules save half of the time that each process takes to start.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    def start_process(self, name, *words, **env):
        """Starts a process of the cluster, whose output is the file NAME.out."""
        with open(os.path.join(self.folder, name + ".out"), "ab") as out:
            process = subprocess.Popen(words, env=dict(self.env, **env), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, cwd=self.folder)
        self.started.append(process)
        return process

    def end_process(self, process):
        """Ends a process of the cluster, which ends its children."""
        process.terminate()
        process.wait(self.SECONDS)

    def run_example(self, name, **env):
        """The output of an example of docs/clusters, which is not a client itself."""
        done = subprocess.run(["python", os.path.join(EXAMPLES, name)], env=dict(self.env, **env),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=self.SECONDS, cwd=self.folder, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr[-5000:])
        return done.stdout

    def wait_for_text(self, name, text, process):
        """Waits until the process has written the text into the file."""
        harness.wait_for("%r in %s" % (text, name), lambda: text in self.read(name) or
                         process.poll() is not None, self.SECONDS)
        equal(process.poll(), None, self.read(name)[-5000:])

    def wait_for_no_clients(self):
        harness.wait_for("the end of the clients",
                         lambda: not any(map(self.clients, self.servers())), self.SECONDS)
