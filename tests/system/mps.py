# SPDX-License-Identifier: Apache-2.0
"""A separate service for a test: daemon, server and clients in a private folder.

    with mps.Service() as service:
        done = service.run("process1")
        service.command("get_server_list")

Servers use the software GPU. At the end the daemon is told to quit. A process that
still lives then is found by its environment and ended by its PID, and counts as a
failure. So does a sanitizer report in a log.
"""

import collections
import contextlib
import glob
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile

from harness import BUILD, SLOW, Skip, contains, equal, wait_for
from open_build import for_everybody

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVERYWHERE = "everywhere"
PROGRAM_FOLDERS = ("runtime", "driver_api", "gpu_only")
CONTROL = os.path.join(BUILD, "bin", "mps-control")
LIBRARY = os.path.join(BUILD, "lib", "libmpsclient.so")
SOFTGPU = os.path.join(BUILD, "softgpu", "libcuda.so.1")
# The sizes that a server loads for itself (server/copy/copy_kernel.c), once per GPU.
OWN_LIBRARIES = 1
SANITIZER = re.compile(r"(ERROR|WARNING): \w+Sanitizer|runtime error:")


def program_path(name):
    return os.path.join(BUILD, "bin", "examples", name)


def program(name):
    """The path of an example program, which exists and which every user can run."""
    path = program_path(name)
    assert os.path.exists(path), "%s is not built" % path
    return for_everybody(path)


def program_sources():
    """The paths of the example programs' sources, in the order of the programs' names."""
    return sorted((path for folder in PROGRAM_FOLDERS for end in (".c", ".cu") for path in
                   glob.glob(os.path.join(ROOT, "tests", "programs", folder, "*" + end))),
                  key=os.path.basename)


def programs(*kinds):
    """Names of the example programs of these kinds, which their sources state (tests/programs)."""
    found = []
    for path in program_sources():
        with open(path, encoding="utf-8") as file:
            said = re.search(r"^ \* Runs: (.*)$", file.read(4096), re.M)
        if (said.group(1) if said else EVERYWHERE) in kinds:
            found.append(os.path.splitext(os.path.basename(path))[0])
    return tuple(found)


def programs_that(pattern):
    """Names of the example programs whose sources match."""
    found = []
    for path in program_sources():
        with open(path, encoding="utf-8") as file:
            if re.search(pattern, file.read()):
                found.append(os.path.splitext(os.path.basename(path))[0])
    return tuple(found)


# Programs that end by themselves with `NAME: ok'.
PROGRAMS = programs(EVERYWHERE, "alone")
# ... but for one that takes longer than all others together: test_sync.py runs it in every way.
PROGRAMS_ONCE = tuple(name for name in PROGRAMS if name != "sync_matrix")
# ... those that measure shared state, which a second program would change.
ALONE = programs("alone")
# ... those that need more than the software GPU: NVIDIA's libraries, whose kernels are not PTX.
GPU_PROGRAMS = programs("on a GPU")


def sanitizer_preload():
    """The libraries to load before a sanitized library in a program that is not sanitized."""
    if "address" not in os.environ.get("MPS_SAN", ""):
        return []
    found = subprocess.run([os.environ.get("CC", "gcc"), "-print-file-name=libasan.so"],
                           capture_output=True, text=True, check=True).stdout.strip()
    return [os.path.realpath(found)]


def clean_environment(real=False):
    """This environment without variables that lead a program to another service or another GPU."""
    foreign = ("CUDA_MPS_", "MPS_", "SOFTGPU_", "LD_PRELOAD") + (
        () if real else ("CUDA_", "LD_LIBRARY_PATH"))
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(foreign) or k == "MPS_TEST_SEED"}
    # The program that owns the client library's memory was not built for a leak check.
    env["ASAN_OPTIONS"] = "detect_leaks=0:detect_odr_violation=0:handle_segv=0"
    return env


def is_alive(pid):
    """Whether the process runs; a zombie does not.

    The main thread of a killed process may end before its other threads, which have its files open.
    """
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            is_over = file.read().rpartition(")")[2].split()[0] in ("Z", "X")
        return not is_over or len(os.listdir("/proc/%d/task" % pid)) > 1
    except OSError:
        return False


def command_line(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def processes_with(variable, value):
    """Other live processes with that value of the variable in their environment."""
    found = []
    mark = b"%s=%s\0" % (variable.encode(), value.encode())
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if mark in file.read() and is_alive(int(name)):
                    found.append(int(name))
        except OSError:
            pass
    return found


def status_of(pid, key):
    """That line of /proc/PID/status; empty if the process has ended."""
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8") as file:
            return re.search(r"^%s:\s*(.*)$" % key, file.read(), re.M)[1]
    except OSError:
        return ""


def is_receiver(pid):
    return status_of(pid, "Name") == "mps-receiver"


def parent_of(pid):
    return int(status_of(pid, "PPid") or 0)


def open_files(pid):
    """The targets of the process's open descriptors."""
    found = []
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                found.append(os.readlink("/proc/%d/fd/%s" % (pid, name)))
            except OSError:
                pass
    except OSError:
        pass
    return found


def thread_names(pid):
    names = []
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError), open("/proc/%d/task/%s/comm" % (pid, task),
                                                encoding="utf-8") as file:
            names.append(file.read().strip())
    return names


def workers(pid):
    """The number of a server's threads that serve a client."""
    return thread_names(pid).count("mps-worker")


def thread_count(pid):
    """Without threads that close descriptors, which start and end at any time."""
    return sum(name != "mps-close" for name in thread_names(pid))


def memory_kib(pid):
    """Resident memory without shared memory, such as clients' pages."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return int(re.search(r"^RssAnon:\s+(\d+)", file.read(), re.M).group(1))


def stacks(pid):
    """The stacks of a process, if there is a debugger."""
    if not shutil.which("gdb"):
        return ""
    words = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 16"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "gdb does not end\n"
    lines = [line for line in done.stdout.splitlines() if re.match(r"Thread|#", line)]
    return "--- threads of %d, %s\n%s\n" % (pid, command_line(pid), "\n".join(lines))


class Switch:
    """Makes calls of the software GPU fail while it runs (struct softgpu_switch)."""

    SHAPE = struct.Struct("=QQII64s64s")
    RESULT, KILL, STALL, WAIT = range(4)

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(self.SHAPE.size))
        os.chmod(path, 0o666)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.SHAPE.size)

    def set(self, nth, what=RESULT, arg=0, only=""):
        """Selects the nth driver call from now on, or the nth of one function; 0: none."""
        self.memory[:] = self.SHAPE.pack(0, 0, what, arg, b"", only.encode())
        self.memory[0:8] = struct.pack("=Q", nth)

    def seen(self):
        return self.SHAPE.unpack(self.memory)[1]

    def name(self):
        """The name of that call, or ""."""
        return self.SHAPE.unpack(self.memory)[4].rstrip(b"\0").decode()


class Service:
    """A daemon in a separate folder. `settings' are SOFTGPU_* and others for the server.

    `library' is the libcuda that servers open; None: the machine's own, on a real GPU.
    `launcher' is a command that runs the daemon's command, `options' are further options of the
    daemon. Every user can run all programs and libraries.
    """

    def __init__(self, settings=None, background=False, library=SOFTGPU, uid=None, launcher=(),
                 options=()):
        self.folder = tempfile.mkdtemp(prefix="mps-test-")
        os.chmod(self.folder, 0o755)
        self.pipe = os.path.join(self.folder, "pipe")
        self.log = os.path.join(self.folder, "log")
        self.stats_path = os.path.join(self.folder, "stats.%p")
        self.background = background
        self.uid = uid
        self.control = for_everybody(CONTROL)
        self.launcher = list(launcher)
        self.options = list(options)
        self.daemon = None
        self.started = []  # clients and other processes to end
        settings = dict(settings or {})
        if library:
            self.switch = Switch(os.path.join(self.folder, "switch"))
            for device in range(int(settings.get("SOFTGPU_DEVICES", 1))):
                # Servers of other users lock it, and could not create it.
                self.make_readable(os.path.join(self.folder, "softgpu-%d.lock" % device))
            settings.update(SOFTGPU_STATS=self.stats_path, SOFTGPU_DIR=self.folder,
                            SOFTGPU_SWITCH=self.switch.path)
        if "address" in os.environ.get("MPS_SAN", ""):
            settings["ASAN_OPTIONS"] = "handle_segv=0:detect_leaks=0"
        # tests/coverage: where servers write their counters.
        settings.update({k: v for k, v in os.environ.items() if k.startswith("GCOV_")})
        if SLOW > 1:
            # The end of a client waits for the software GPU's only lock, with all others.
            settings.setdefault("MPS_GRACE_MS", str(10000 * SLOW))
        self.env = dict(clean_environment(not library), CUDA_MPS_PIPE_DIRECTORY=self.pipe,
                        CUDA_MPS_LOG_DIRECTORY=self.log)
        if library:
            self.env["MPS_CUDA_LIBRARY"] = for_everybody(library)
        if settings:
            self.env["MPS_SERVER_ENV"] = ",".join(settings)
        self.daemon_env = dict(self.env, **settings)
        if uid is not None:
            os.chown(self.folder, uid, uid)

    @staticmethod
    def make_readable(path):
        """Creates an empty file that every user can open."""
        with open(path, "w", encoding="ascii"):
            os.chmod(path, 0o644)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.end_everything()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            left, complaints = self.stop()
        finally:
            if kind:
                self.show_logs()
            shutil.rmtree(self.folder, ignore_errors=True)
        if not kind:
            assert not left, "left after quit: %s" % left
            assert not complaints, complaints

    # ---- the daemon

    def start(self):
        become = ({"user": self.uid, "group": self.uid, "extra_groups": []}
                  if self.uid is not None else {})
        out = open(os.path.join(self.folder, "daemon.out"), "ab")
        with out:
            self.daemon = subprocess.Popen(
                [*self.launcher, self.control, "-d" if self.background else "-f", *self.options],
                env=self.daemon_env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, **become)
        if self.background:
            equal(self.daemon.wait(60 * SLOW), 0, self.read("daemon.out"))
        wait_for("the daemon's socket", self.answers)

    def restart_killed(self):
        """Kills the daemon; the next one adopts the servers."""
        servers = self.servers()
        self.daemon.kill()
        self.daemon.wait()
        self.start()
        equal(self.servers(), servers)
        for server in servers:
            wait_for("the server's connection", lambda server=server: "Adopted server %s" % server
                     in self.control_log())

    def answers(self):
        return self.command("get_server_list", check=False).returncode == 0

    def daemon_pid(self):
        with open(os.path.join(self.pipe, "nvidia-cuda-mps-control.pid"), encoding="utf-8") as file:
            return int(file.read())

    def stop(self):
        """Ends everything; returns the processes that were left, and sanitizer reports."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        try:
            self.command("quit", "-t", "2", check=False, timeout=40)
        except subprocess.TimeoutExpired:
            pass
        if self.daemon and not self.background:
            try:
                self.daemon.wait(30 * SLOW)
            except subprocess.TimeoutExpired:
                pass
        with contextlib.suppress(AssertionError):
            wait_for("the end of all", lambda: not self.processes())
        left = [command_line(pid) for pid in self.processes()]
        self.end_everything()
        complaints = [line for name in ("log/server.log", "daemon.out")
                      for line in self.read(name).splitlines() if SANITIZER.search(line)]
        return left, complaints

    def processes(self):
        """Live processes with this pipe directory in their environment.

        A receiver counts only if the server that it belongs to has ended.
        """
        found = processes_with("CUDA_MPS_PIPE_DIRECTORY", self.pipe)
        return [pid for pid in found if not (is_receiver(pid) and parent_of(pid) in found)]

    def end_everything(self):
        for process in self.started + ([self.daemon] if self.daemon else []):
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # ---- the operator

    def command(self, *words, check=True, timeout=30):
        """One command as arguments of the front end."""
        env = self.env
        if self.uid is not None:
            env = dict(env, MPS_TRUST_UID=str(self.uid))
        done = subprocess.run([CONTROL, *words], env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout * SLOW, check=False)
        if check:
            equal(done.returncode, 0, done.stdout + done.stderr)
        return done

    def servers(self):
        return [int(pid) for pid in self.command("get_server_list").stdout.split()]

    def server(self):
        """The PID of the only server, once it exists."""
        servers = wait_for("a server", self.servers)
        equal(len(servers), 1, servers)
        return servers[0]

    def leave_a_kernel(self):
        """Kills a program while its kernel runs; returns its PID and its server's."""
        process = self.popen("process1")
        wait_for("a launch", lambda: self.servers() and self.stats(self.server())["launches"] > 0)
        process.kill()
        process.wait()
        return process.pid, self.server()

    def clients(self, server=None):
        text = self.command("get_client_list", str(server or self.server())).stdout
        return [int(pid) for pid in text.split()]

    def stats(self, server):
        """The software GPU's live objects in that server; 0 of each before its start."""
        if not os.path.exists(self.stats_path.replace("%p", str(server))):
            return collections.Counter()
        with open(self.stats_path.replace("%p", str(server)), encoding="utf-8") as file:
            lines = (line.split() for line in file if line.strip(" \0\n"))
            return collections.Counter({name: int(value) for name, value in lines})

    # ---- programs

    def client_env(self, preload=True, **more):
        env = dict(self.env)
        if preload:
            env["LD_PRELOAD"] = ":".join(sanitizer_preload() + [for_everybody(LIBRARY)])
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def popen(self, name, *args, preload=True, env=None, stdin=subprocess.DEVNULL, **more):
        """Starts an example program (or any path) as a client."""
        path = for_everybody(name) if "/" in name else program(name)
        process = subprocess.Popen(
            [path, *args], env=self.client_env(preload, **(env or {})), stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.started.append(process)
        return process

    def popen_going_round(self, name, seconds):
        """Starts a program that repeats its work for so long, and waits until it has done all of it
        once.

        All its code is loaded then: loading waits while a stream is blocked. On a busy machine, the
        time may be over before that; the program then gets more.
        """
        trace = os.path.join(self.folder, "trace.%p")

        def launches(process):
            return self.read(trace.replace("%p", str(process.pid))).count("Launch")

        once = self.popen(name, env={"MPS_CLIENT_TRACE": trace})
        equal(self.finish(once)[0], 0)
        while True:
            process = self.popen(name, "--seconds", str(seconds), env={"MPS_CLIENT_TRACE": trace})
            wait_for("%s to go round, or its end" % name, lambda process=process:
                     launches(process) > launches(once) or process.poll() is not None, 60 * SLOW)
            if process.poll() is None:
                return process
            equal(self.finish(process)[0], 0)
            assert seconds < 100, "%s does not go round" % name
            seconds *= 3

    def finish(self, process, timeout=60):
        """Waits for the process; returns (exit code, stdout, stderr)."""
        try:
            out, err = process.communicate(timeout=timeout * SLOW)
        except subprocess.TimeoutExpired:
            # Without the daemon, because the daemon may be the cause.
            for pid in self.processes():
                if pid == process.pid or "mps-server" in command_line(pid):
                    print(stacks(pid), end="", flush=True)
            process.kill()
            out, err = process.communicate()
            raise AssertionError("%s not done after %d s: %s%s"
                                 % (process.args[0], timeout * SLOW, out, err)) from None
        return process.returncode, out, err

    def run(self, name, *args, timeout=60, **more):
        return self.finish(self.popen(name, *args, **more), timeout)

    def run_ok(self, name, *args, **more):
        """Runs an example program that has to succeed."""
        code, out, err = self.run(name, *args, **more)
        equal(code, 0, out + err)
        contains(out, "%s: ok" % os.path.basename(name))
        return out, err

    # ---- logs

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def server_log(self):
        return self.read("log/server.log")

    def control_log(self):
        return self.read("log/control.log")

    def wait_for_log(self, text, name="server", timeout_s=20):
        wait_for("%r in %s.log" % (text, name),
                 lambda: text in self.read("log/%s.log" % name), timeout_s * SLOW)

    def was_active(self, process, server):
        """Whether that server has opened a GPU for the client."""
        return re.search(r"Server +%d\] Status of client \{PID: %d, .* is ACTIVE"
                         % (server, process.pid), self.server_log())

    def wait_for_active(self, process):
        """Waits until the client has used a GPU: it then fails with its server.

        The log tells of the GPU before the client has its answer. Until then, another server may
        take the client over.
        """
        self.wait_for_log("Status of client {PID: %d, " % process.pid)
        wait_for("memory of client %d" % process.pid, lambda: process.poll() is not None or
                 any(gpu["memory_peak"] for client in self.counters()
                     if client["pid"] == process.pid for gpu in client["gpus"]))

    def counters(self):
        """The objects of all clients in `stats --json`."""
        return json.loads(self.command("stats", "--json").stdout)["clients"]

    def wait_for_listed(self, process):
        """Waits until `ps` lists the client: the daemon learns of it after the log has told of it."""
        self.wait_for_active(process)
        wait_for("client %d in ps" % process.pid, lambda: str(process.pid) in
                 [line.split()[0] for line in self.command("ps").stdout.splitlines()[1:]])

    def show_logs(self):
        for name in ("daemon.out", "log/control.log", "log/server.log"):
            lines = self.read(name).splitlines()[-60:]
            print("    --- %s" % name)
            print("".join("    %s\n" % line for line in lines), end="")


def need_program(name):
    """The path of another tool that a test needs."""
    found = shutil.which(name)
    if not found:
        raise Skip("%s is not installed" % name)
    return found
