# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of one node, with the scripts and settings of docs/clusters/slurm.

    with slurm.Slurm() as cluster:
        job = cluster.srun("daemon", "process1", "--seconds", "3", gres="mps:50")

Slurm's daemons listen on the loopback interface and keep their files in a private folder. The
prolog starts the daemon of the service, on two GPUs of the software GPU.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess

import harness
import mps
from harness import Skip, equal, wait_for
from open_build import for_everybody

EXAMPLES = os.path.join(harness.ROOT, "docs", "clusters", "slurm")
RUN = os.path.join(harness.BUILD, "bin", "mps-run")
HOST = socket.gethostname().partition(".")[0]
# Every Debian system has these users.
ONE, TWO = "daemon", "games"
GPUS = 2
NO_PIPE = "/nonexistent"
# The lines of slurm.conf that the examples lack.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
ReturnToService=2
KillWait=1
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(number):
    """Ports of the loopback interface that are free now."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def need(*names):
    """The tools of Debian's packages of Slurm."""
    harness.need_root()
    for name in names:
        if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin"):
            raise Skip("%s is not installed" % name)


class Slurm(mps.Service):
    """`settings' replace values of docs/clusters/slurm/settings."""

    def __init__(self, **settings):
        need("munged", "slurmctld", "slurmd", "srun", "sbatch")
        super().__init__({"SOFTGPU_DEVICES": str(GPUS)})
        self.scripts = self.make_folder("mps")
        self.names = self.make_folder("names")
        self.run_folder = os.path.join(self.folder, "run")
        self.settings = dict(settings, bin=self.names, run=self.run_folder,
                             log=os.path.join(self.folder, "log"))
        self.conf = os.path.join(self.folder, "slurm.conf")
        self.daemons = []
        self.use_gpu(0)

    def make_folder(self, name):
        """A folder that every user can read."""
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chmod(path, 0o755)
        return path

    def write(self, name, text):
        """Writes a file of the private folder; returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def use_gpu(self, gpu):
        """The operator's commands go to the daemon of that GPU."""
        self.pipe = os.path.join(self.run_folder, "gpu-%d" % gpu)
        self.env["CUDA_MPS_PIPE_DIRECTORY"] = self.pipe

    # ---- configuration

    def change(self, text):
        """An example with the paths and the node of this cluster."""
        text = text.replace("/etc/slurm/mps", self.scripts)
        text = text.replace("/dev/nvidia", self.folder + "/dev/nvidia")
        return re.sub(r"^NodeName=\S+", "NodeName=%s NodeAddr=127.0.0.1" % HOST, text, flags=re.M)

    def write_settings(self, **more):
        """The example's settings with other values, and the environment of the daemon."""
        with open(os.path.join(EXAMPLES, "settings"), encoding="utf-8") as file:
            text = file.read()
        for name, value in dict(self.settings, **more).items():
            text, n = re.subn(r"^%s=.*$" % name, "%s='%s'" % (name, value), text, flags=re.M)
            equal(n, 1, name)
        text += "".join("export %s='%s'\n" % item for item in self.daemon_env.items()
                        if item[0].startswith(("SOFTGPU_", "MPS_")))
        self.write("mps/settings", text)

    def install(self):
        """Executes the lines of docs/clusters.md that install the scripts."""
        with open(harness.ROOT + "/docs/clusters.md", encoding="utf-8") as file:
            lines = re.findall(r"^    ((?:mkdir|install) .*)$", file.read(), re.M)
        assert len(lines) >= 3, lines
        subprocess.run(["sh", "-ec", "\n".join(lines).replace("/etc/slurm/mps", self.scripts)],
                       cwd=harness.ROOT, check=True)

    def write_files(self):
        self.install()
        shutil.copy(os.path.join(EXAMPLES, "job"), self.scripts)
        for name in ("control", "server"):
            os.symlink(for_everybody(os.path.join(harness.BUILD, "bin", "mps-" + name)),
                       os.path.join(self.names, "nvidia-cuda-mps-" + name))
        self.write_settings()
        own = CONFIGURATION.format(host=HOST, ports=free_ports(2), folder=self.folder)
        with open(os.path.join(EXAMPLES, "slurm.conf"), encoding="utf-8") as file:
            self.write("slurm.conf", self.change(file.read()) + own)
        with open(os.path.join(EXAMPLES, "gres.conf"), encoding="utf-8") as file:
            self.write("gres.conf", self.change(file.read()))
        # No daemon of these tests uses cgroups, but slurmd reads the file.
        self.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        for name in ("dev", "state", "spool"):
            self.make_folder(name)
        for gpu in range(GPUS):
            self.make_device("dev/nvidia%d" % gpu)

    def make_device(self, name):
        """Slurm wants a character device, which nobody opens."""
        try:
            os.mknod(os.path.join(self.folder, name), 0o020666, os.makedev(1, 3))
        except OSError as error:
            raise Skip("this machine allows no device nodes: %s" % error) from None

    # ---- Slurm's daemons

    def start(self):
        self.write_files()
        folder = self.make_folder("munge")
        with open(folder + "/key", "wb") as file:
            os.chmod(folder + "/key", 0o400)
            file.write(os.urandom(1024))
        self.start_daemon("munged", "--foreground", "--force", "--num-threads=2", *(
            "--%s=%s/%s" % (option, folder, name) for option, name in (
                ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"),
                ("log-file", "log"), ("seed-file", "seed"))))
        wait_for("munged", lambda: os.path.exists(folder + "/socket"))
        self.start_daemon("slurmctld", "-D", "-f", self.conf)
        self.start_daemon("slurmd", "-D", "-f", self.conf)
        wait_for("the node", lambda: self.node("%t") == "idle", 60)

    def start_daemon(self, name, *words):
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(os.path.join(self.folder, name + ".out"), "ab") as out:
            self.daemons.append(subprocess.Popen([path, *words], env=self.slurm_env(), cwd="/",
                                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def slurm_env(self, **more):
        """Without a service: the scripts of the cluster lead to it."""
        env = {k: v for k, v in self.daemon_env.items()
               if not k.startswith(("SLURM_", "CUDA_MPS_")) and k != "SOFTGPU_STATS"}
        env.update(SLURM_CONF=self.conf, CUDA_MPS_PIPE_DIRECTORY=NO_PIPE,
                   PATH="%s:%s" % (os.path.dirname(for_everybody(RUN)), env["PATH"]))
        return dict(env, **more)

    def slurm(self, *words):
        """The output of one of Slurm's commands."""
        done = subprocess.run(words, env=self.slurm_env(), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def node(self, field):
        """What sinfo says of the node."""
        done = subprocess.run(["sinfo", "-h", "-N", "-o", field], env=self.slurm_env(), text=True,
                              capture_output=True, timeout=60, check=False)
        return done.stdout.strip()

    def jobs(self):
        """The states of the jobs, such as R (running) and PD (pending), the oldest first."""
        return self.slurm("squeue", "-h", "--sort=i", "-o", "%t").split()

    def stop(self):
        if len(self.daemons) == 3:
            for user in (ONE, TWO):
                self.slurm("scancel", "--user", user)
            wait_for("the end of the jobs", lambda: not self.jobs(), 60)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(60)
        for gpu in range(GPUS):
            self.use_gpu(gpu)
            self.command("quit", "-t", "2", check=False)
        return super().stop()

    def processes(self):
        """Live processes of the cluster, and of the service on every GPU."""
        found = mps.processes_with("SLURM_CONF", self.conf)
        for gpu in range(GPUS):
            found += mps.processes_with("CUDA_MPS_PIPE_DIRECTORY",
                                        os.path.join(self.run_folder, "gpu-%d" % gpu))
        return sorted(set(found))

    def end_everything(self):
        super().end_everything()
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()

    def show_logs(self):
        names = ["%s.out" % name for name in ("munged", "slurmctld", "slurmd")]
        names += ["log/gpu-%d/%s.log" % (gpu, name) for gpu in range(GPUS)
                  for name in ("control", "server")]
        for name in names:
            print("    --- %s" % name)
            print("".join("    %s\n" % line for line in self.read(name).splitlines()[-40:]), end="")

    # ---- jobs

    def submit(self, user, words, stdin=subprocess.DEVNULL, **env):
        """Starts one of Slurm's commands as that user."""
        of = pwd.getpwnam(user)
        process = subprocess.Popen(words, env=self.slurm_env(**env), cwd="/", stdin=stdin,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   user=of.pw_uid, group=of.pw_gid, extra_groups=[])
        self.started.append(process)
        return process

    def srun(self, user, name, *args, gres, options=(), runner=("mps-run",), **env):
        """Starts an example program as a job with a share of a GPU, or with whole GPUs."""
        return self.submit(user, ["srun", "--gres=" + gres, *options, *runner, mps.program(name),
                                  *args], **env)

    def srun_ok(self, user, name, *args, **more):
        """Runs an example program as a job that has to succeed; returns its output and errors."""
        code, out, err = self.finish(self.srun(user, name, *args, **more), 120)
        equal(code, 0, out + err)
        harness.contains(out, name + ": ok", err)
        return out, err

    def has_daemon(self, gpu):
        """Whether the service runs on that GPU."""
        self.use_gpu(gpu)
        return self.answers()

    def servers(self):
        """Slurm calls a job running before its prolog has started the daemon."""
        return super().servers() if self.answers() else []
