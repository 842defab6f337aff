#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Jobs of Slurm with shares of a GPU (gres/mps) are clients, by the scripts of docs/clusters."""

import os
import pwd
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import mpi  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from slurm import ONE, TWO, Slurm  # pylint: disable=wrong-import-position
from test_active_threads import sms_of  # pylint: disable=wrong-import-position
from test_memory_limits import MIB, OUT_OF_MEMORY, numbers  # pylint: disable=wrong-import-position

HOUR = ("--seconds", "3600")


def test_shares_of_two_users():
    """Two jobs at once: one daemon, a server for each user; Slurm's percentages are in force."""
    with Slurm() as cluster:
        go = os.path.join(cluster.folder, "go")
        jobs = [cluster.srun(user, "smids", "--wait", go, gres="mps:%d" % share)
                for user, share in ((ONE, 50), (TWO, 25))]
        for job in jobs:
            equal(job.stdout.readline(), "ready\n", job.poll())
        equal(len(cluster.servers()), 2)
        owners = {os.stat("/proc/%d" % pid).st_uid for pid in
                  (pid for server in cluster.servers() for pid in cluster.clients(server))}
        equal(owners, {pwd.getpwnam(user).pw_uid for user in (ONE, TWO)})
        cluster.write("go", "")
        found = []
        for job in jobs:
            ways = iter(job.stdout.readline, "done\n")
            found.append({len(sms_of(line)) for line in ways})
        equal(found, [{64}, {32}])
        os.unlink(go)
        for job in jobs:
            equal(cluster.finish(job)[:2], (0, "smids: ok\n"))
        wait_for("the end of the clients",
                 lambda: not any(map(cluster.clients, cluster.servers())))


def test_more_than_a_gpu():
    """A job waits in Slurm until the GPU has enough shares left."""
    with Slurm() as cluster:
        first = cluster.srun(ONE, "process1", *HOUR, gres="mps:60")
        wait_for("the first job", lambda: cluster.jobs() == ["R"])
        second = cluster.srun(TWO, "sm_share", "--sms", "64", gres="mps:50")
        wait_for("the second job", lambda: cluster.jobs() == ["R", "PD"])
        server = wait_for("a server", cluster.servers)[0]
        wait_for("a client", lambda: cluster.clients(server))
        # Slurm kills the first job.
        cluster.slurm("scancel", "--user", ONE)
        assert cluster.finish(first)[0] != 0
        code, out, err = cluster.finish(second)
        equal((code, out), (0, "sm_share: ok\n"), err)
        wait_for("the end of the clients",
                 lambda: not any(map(cluster.clients, cluster.servers())))


def test_whole_gpus():
    """A job with whole GPUs has no daemon; the next job with a share has one again."""
    with Slurm() as cluster:
        cluster.srun_ok(ONE, "sm_share", "--sms", "32", gres="mps:25")
        assert cluster.has_daemon(0)
        _, err = cluster.srun_ok(TWO, "process1", gres="gpu:2")
        contains(err, "this process uses the GPU without MPS")
        assert not cluster.has_daemon(0)
        cluster.srun_ok(TWO, "sm_share", "--sms", "32", gres="mps:25")
        assert cluster.has_daemon(0)


def test_second_gpu():
    """While a job has the first GPU, jobs share the second one."""
    with Slurm() as cluster:
        cluster.srun_ok(ONE, "sm_share", "--sms", "32", gres="mps:25")
        whole = cluster.srun(ONE, "process1", *HOUR, gres="gpu:1")
        wait_for("the first job", lambda: cluster.jobs() == ["R"])
        cluster.srun_ok(TWO, "sm_share", "--sms", "96", gres="mps:75")
        assert not cluster.has_daemon(0)
        assert cluster.has_daemon(1)
        server = cluster.server()
        equal(re.findall(r"^\d+ .*0000:(\w+)", cluster.command("device_query", str(server)).stdout,
                         re.M), ["02"])
        equal(whole.poll(), None)


def test_memory_of_a_job():
    """The processes of a job together get the part of the memory that the job has of the GPU."""
    with Slurm(memory_mib=1024) as cluster:
        out, _ = cluster.srun_ok(ONE, "limited_memory", "plain", str(MIB), gres="mps:25")
        equal(numbers(out, "plain")[0][0], 256 * MIB, out)
        # Two processes, until their standard input ends.
        job = cluster.srun(ONE, "limited_memory", "hold", str(160 * MIB), gres="mps:25",
                           options=("-n2",), stdin=subprocess.PIPE)
        lines = iter(job.stdout.readline, "")
        results = sorted(next(line for line in lines if re.match(r"hold: \d", line))
                         for _ in range(2))
        equal(results, ["hold: 0\n", "hold: %d\n" % OUT_OF_MEMORY])
        equal(cluster.finish(job)[0], 0)
        wait_for("the end of the groups",
                 lambda: "slurm-" not in cluster.command("group", "list").stdout)


def test_programs_without_mps_run():
    """The task prolog can make every program of a job a client."""
    with Slurm(library=mps.for_everybody(mps.LIBRARY)) as cluster:
        cluster.srun_ok(ONE, "sm_share", "--sms", "64", gres="mps:50", runner=())


def test_job_file():
    with Slurm() as cluster:
        out = cluster.write("job.out", "")
        os.chmod(out, 0o666)
        job = cluster.submit(ONE, ["sbatch", "--wait", "--output=" + out, cluster.scripts + "/job",
                                   mps.program("sm_share"), "--sms", "32"])
        code, _, err = cluster.finish(job)
        equal((code, cluster.read("job.out")), (0, "sm_share: ok\n"), err)


def test_daemon_that_was_killed():
    """The prolog of the next job starts another one."""
    with Slurm() as cluster:
        cluster.srun_ok(ONE, "process1", gres="mps:50")
        os.kill(cluster.daemon_pid(), 9)
        cluster.srun_ok(TWO, "process1", gres="mps:50")
        assert cluster.has_daemon(0)


def test_prolog_that_fails():
    """Slurm drains a node on which the daemon does not start."""
    with Slurm() as cluster:
        cluster.write_settings(log="/proc/nowhere")
        cluster.srun(ONE, "process1", gres="mps:50")
        wait_for("the end of the node", lambda: cluster.node("%t").startswith("dr"))
        contains(cluster.node("%E"), "Prolog error")


def test_mpi():
    """srun starts the ranks of an Open MPI program, which share a job's part of the GPU."""
    mpi.need()
    with Slurm() as cluster:
        if "pmix" not in cluster.slurm("srun", "--mpi=list").split():
            raise harness.Skip("this Slurm is built without PMIx")
        job = cluster.srun(ONE, "halo", gres="mps:100", options=("--mpi=pmix", "-n4"),
                           OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1",
                           OMPI_MCA_oob_tcp_if_include="lo")
        most = 0
        while job.poll() is None:
            if cluster.answers():
                most = max([most] + [len(cluster.clients(pid)) for pid in cluster.servers()])
        equal(mpi.check(*cluster.finish(job))["ranks"], 4)
        equal(most, 4)
        equal(len(cluster.servers()), 1)


if __name__ == "__main__":
    harness.main(globals())
