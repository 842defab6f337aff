# SPDX-License-Identifier: Apache-2.0
"""Jobs of Open MPI on this machine only: loopback and shared memory, with a time limit."""

import os
import re
import tempfile

import mps
from harness import Skip, contains, equal


def need():
    """The path of mpirun; halo must be built."""
    mpirun = mps.need_program("mpirun")
    if not os.path.exists(mps.program_path("halo")):
        raise Skip("halo is not built: Open MPI came later; make examples")
    return mpirun


def command(ranks, *args, preload=None, runner=(), timeout=60):
    """`halo ARGS' as a job; mpirun itself is not a client, its ranks have `preload' or a `runner'."""
    words = [need(), "-n", str(ranks), "--oversubscribe", "--timeout", str(timeout * mps.SLOW)]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    for name, value in (("pml", "ob1"), ("btl", "self,vader"), ("plm", "isolated"),
                        ("oob_tcp_if_include", "lo")):
        words += ["--mca", name, value]
    if preload:
        words += ["-x", "LD_PRELOAD=" + preload]
    return words + [*runner, mps.program("halo"), *args]


def start(service, *args, ranks=4, timeout=60):
    """The job's ranks are clients. Two jobs that start at once in one folder fail there."""
    preload = service.client_env()["LD_PRELOAD"]
    words = command(ranks, *args, preload=preload, timeout=timeout)
    return service.popen(*words, preload=False, env={
        "TMPDIR": tempfile.mkdtemp(dir=service.folder)})


def check(code, out, err):
    """Checks that the job succeeded; returns its numbers."""
    equal(code, 0, out + err)
    contains(out, "halo: ok\n", err)
    return {k: float(v) for k, v in re.findall(r"^(\w+)=([\d.]+)$", out, re.M)}


def finish(service, process, timeout=90):
    return check(*service.finish(process, timeout))
