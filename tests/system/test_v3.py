#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# mostly waits
"""Protocol 3: how the daemon starts and ends, and what a script sees of its commands."""

import os
import re
import shutil
import socket
import subprocess
import tempfile

import harness
import mps
from harness import contains, equal, need_root, wait_for
from test_daemon import Daemon

SAYS = "To connect CUDA applications to this daemon, set CUDA_MPS_PIPE_DIRECTORY=%s\n"
UID = os.getuid()


# ---- start and end

def test_start():
    """By the option or the variable: one line on standard output. -q ends the daemon."""
    for words, variable in ((["-d", "-p", "3"], ""), (["--daemon", "--protocol=3"], ""), (["-d"], "3"),
                            (["-p", "2", "-d"], "3")):
        with Daemon(start=False) as daemon:
            done = daemon.run(*words, environment={"CUDA_MPS_PROTOCOL_VERSION": variable})
            equal((done.returncode, done.stdout, done.stderr), (0, SAYS % daemon.pipe, ""), words)
            contains(daemon.read("control"), SAYS % daemon.pipe)
            # Later invocations follow the daemon, whatever they are told.
            for prefix in [], ["-p", "3"], ["-p", "2"]:
                equal(daemon.run(*prefix, "server", "list", "--format=csv,noheader").stdout, "")
                equal(daemon.run(*prefix, "get_server_list").returncode, 0)
            done = daemon.run("-p", "3", "--quit")
            equal((done.returncode, done.stdout), (0, ""))
            wait_for("its end", lambda daemon=daemon: daemon.pid() is None)


def test_quit_without_daemon():
    with Daemon(start=False) as daemon:
        equal(daemon.run("-q").returncode, 1)
        equal(daemon.run("server", "list").returncode, 1)


def test_one_server_for_all():
    """-m has no value with protocol 3, and metrics have an option of their own."""
    need_root()
    for words in (["-d", "-p", "3", "-m"], ["-m", "-d", "--protocol", "3"], ["-p3", "-dm"],
                  ["-d", "-p", "3", "--multiuser"], ["-d", "-p", "3", "-multiuser-server"]):
        with Daemon(start=False, environment={"MPS_SERVER_USER": "nobody"}) as daemon:
            equal(daemon.run(*words).returncode, 0, words)
            daemon.run("start_server", "-uid", "0")
            contains(daemon.run("server", "list").stdout, "65534")
            daemon.quit()
    with Daemon(start=False) as daemon:
        equal(daemon.run("-p", "3", "-d", "--metrics", "off").returncode, 0)
        daemon.quit()


def foreground(daemon, **more):
    process = subprocess.Popen([daemon.control, "-p", "3", "-f"], env=daemon.environment,
                               stdout=subprocess.DEVNULL, **more)
    wait_for("the daemon", lambda: os.path.exists(daemon.pipe + "/control"))
    return process


def test_standard_input():
    """A line `quit', or the end of a pipe, ends a daemon in the foreground; /dev/null does not."""
    with Daemon(start=False) as daemon:
        with foreground(daemon, stdin=subprocess.PIPE, text=True) as process:
            process.stdin.write("nope\nquit\n")
            process.stdin.flush()
            equal(process.wait(20), 0)
        contains(daemon.read("control"), "Standard input takes quit only")
        with foreground(daemon, stdin=subprocess.PIPE) as process:
            process.stdin.close()
            equal(process.wait(20), 0)
        one, other = socket.socketpair()
        with foreground(daemon, stdin=other) as process:
            other.close()
            one.send(b"quit")
            one.close()
            equal(process.wait(20), 0)
        with foreground(daemon, stdin=subprocess.DEVNULL) as process:
            equal(daemon.run("server", "list").returncode, 0)
            daemon.ask("quit")
            equal(process.wait(20), 0)


def test_long_path():
    """The message has the length, and the limit."""
    with Daemon(start=False) as daemon:
        path = daemon.root + "/" + "x" * 117
        done = daemon.run("-p", "3", "-d", environment={"CUDA_MPS_PIPE_DIRECTORY": path})
        equal(done.returncode, 1)
        contains(done.stderr, "has %d bytes, more than the system's limit of 107" % len(path + "/control"))


# ---- named servers and namespaces

def csv(service, *words):
    return service.command(*words, "--format=csv,noheader").stdout


def refused(service, said, *words):
    done = service.command(*words, check=False)
    equal(done.returncode, 1, words)
    contains(done.stdout, said)


def run_in(service, *names, program="process1", **more):
    env = dict(service.client_env(), CUDA_MPS_PIPE_DIRECTORY="/".join((service.pipe, *names)), **more)
    return service.popen(program, "--seconds", "20", env=env)


def wait_listed(service, process):
    """`ps' has it when it has opened a GPU."""
    wait_for("the client", lambda: "\n%d " % process.pid in service.command("ps").stdout)


def test_named_servers():
    """Several at once; a client chooses by its directory; a wrong one is an error."""
    with mps.Service({"SOFTGPU_DEVICES": "2"}) as service:
        uuids = re.findall(r"GPU-[-0-9a-f]{36}", csv(service, "device", "list"))
        service.command("server", "create", "training", "--allowed-devices=1")
        service.command("server", "create", "serving", "--allowed-devices=0")
        lines = csv(service, "server", "list").splitlines()
        equal(len(lines), 2)
        contains(lines, "training,%d,%s,Ready,%s/training,%s,-" % (
            UID, service.command("server", "get", "training", "pid").stdout.strip(), service.pipe, uuids[1]))
        refused(service, "already exists", "server", "create", "training")
        said = service.command("server", "create", "x", "--allowed-devices=7", check=False).stdout
        for number, uuid in enumerate(uuids):
            assert re.search(r"\b%d \([^)]*%s" % (number, uuid), said), said
        refused(service, "not a name", "server", "create", "Training-2")
        refused(service, "is taken", "server", "create", "uid_5")
        equal(len(csv(service, "server", "list").splitlines()), 2)

        first, other = run_in(service, "training"), run_in(service, "serving", "default")
        for process, name in (first, "training"), (other, "serving"):
            wait_listed(service, process)
            equal(service.command("client", "get", str(process.pid), "server").stdout, name + "\n")
            equal(service.command("client", "get", str(process.pid), "maws-ns").stdout, name + "/default (0)\n")
        equal(service.command("client", "get", str(first.pid), "device").stdout, uuids[1] + "\n")
        refused(service, "has 1 client", "server", "delete", "training")
        service.command("server", "delete", "training", "--force")
        equal(os.path.exists(service.pipe + "/training"), False)
        contains(str(service.finish(first)), "process1")
        refused(service, "not found", "server", "list", "training")

        out = str(service.finish(run_in(service, "training")))
        contains(out, "no server and no namespace at %s/training/control" % service.pipe)
        contains(out, "805")
        out = str(service.finish(run_in(service, "serving", "small")))
        contains(out, "no server and no namespace at %s/serving/small/control" % service.pipe)
        service.command("client", "terminate", str(other.pid))
        service.finish(other)
        wait_for("its end", lambda: csv(service, "client", "list") == "")
        service.command("server", "delete", "serving")
        equal(csv(service, "server", "list"), "")


def test_namespaces():
    """Limits bind; memory at once, also for clients that are there."""
    with mps.Service() as service:
        service.command("server", "create", "pool")
        service.command("namespace", "create", "small", "--server=pool")
        service.command("namespace", "create", "large", "--server=pool")
        refused(service, "already exists", "namespace", "create", "small", "--server=pool")
        service.command("namespace", "set", "small", "--server=pool", "--pinned-memory-limit=64M",
                        "--active-thread-percentage=50")
        service.command("server", "set", "pool", "--active-thread-percentage=25")
        equal(csv(service, "namespace", "list", "--server=pool"),
              "large,pool,Ready,unlimited,100.00,0,%s/pool/large\n"
              "small,pool,Ready,64M,50.00,0,%s/pool/small\n"
              "default,pool,Ready,unlimited,25.00,0,%s/pool/default\n" % ((service.pipe,) * 3))
        equal(service.command("namespace", "get", "small", "pool", "pipe-directory").stdout,
              service.pipe + "/pool/small\n")
        equal(service.command("namespace", "get", "small", "pool", "pinned_memory_limit").stdout, "64M\n")
        refused(service, "needs a limit", "namespace", "set", "small", "--server=pool")
        process = run_in(service, "pool", "small")
        wait_listed(service, process)
        row = [line for line in service.command("ps", "-l").stdout.splitlines() if str(process.pid) in line][0]
        contains(row, "pool/small")
        contains(row, "64M")
        refused(service, "has 1 client", "namespace", "delete", "small", "--server=pool")
        service.command("namespace", "set", "small", "--server=pool", "--pinned-memory-limit=128M")

        service.restart_killed()
        wait_for("the server's return",
                 lambda: "small,pool,Ready,128M,50.00,0," in csv(service, "namespace", "list"))
        wait_listed(service, process)
        again = run_in(service, "pool", "large")
        wait_listed(service, again)
        service.command("namespace", "delete", "small", "--server=pool", "--force")
        contains(str(service.finish(process)), "810")
        equal(os.path.exists(service.pipe + "/pool/small"), False)
        service.command("server", "delete", "pool", "--force")


# ---- the file of -a

FILE = """
schema_version = "1.0"
[servers.shared]
allowed_devices = "0"
active_thread_percentage = "10"
locality_domains = false
[[servers.shared.devices]]
uuid = "0"
[[servers.shared.devices.sm_partitions]]
name = "large"
chunks = 2
[[servers.shared.devices.sm_partitions]]
name = "rest"
chunks = 1
max_chunks = 2
include_remainder = false
shareable = true
[servers.shared.namespaces.tenant1]
active_thread_percentage = "40"
pinned_memory_limit = "24G"
[[servers.shared.namespaces.tenant1.devices]]
uuid = "GPU-536f6674"
sm_partition = "large"
[servers.empty]
[compute_policy]
timeslice = "default"
[features.memacct]
enabled = false
audit_log = true
[features.context-share]
enabled = true
default_socket = "off"
"""


def file_of(folder, text):
    path = os.path.join(folder, "mps.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def need_toml(folder):
    tried = subprocess.run([mps.CONTROL, "-f", "-a", file_of(folder, "x=")], capture_output=True, text=True,
                           check=False)
    if "built without" in tried.stderr:
        raise harness.Skip("without libtomlplusplus-dev")


def test_file():
    """Its servers and namespaces are there when the daemon is; commands of others wait for them."""
    folder = tempfile.mkdtemp(prefix="mps-")
    need_toml(folder)
    for background in True, False:
        with mps.Service(options=["-p", "3", "-a", file_of(folder, FILE)], background=background) as service:
            equal(csv(service, "namespace", "list"),
                  "default,empty,Ready,unlimited,100.00,0,%s/empty/default\n"
                  "tenant1,shared,Ready,24G,40.00,0,%s/shared/tenant1\n"
                  "default,shared,Ready,unlimited,10.00,0,%s/shared/default\n" % ((service.pipe,) * 3))
            lines = [line.split(",") for line in csv(service, "sm-partition", "list", "--long").splitlines()]
            equal([line[2:7] + line[8:] for line in lines], [
                ["large", "2", "16", "false", "created", "0", "false", "0", "shared/tenant1"],
                ["rest", "1", "8", "false", "created", "2", "true", "0", "-"],
                ["-", "13", "108", "true", "unallocated", "-", "-", "-", "-"]])
            equal(csv(service, "feature", "describe", "memacct"), "memacct,disabled,memacct,-\n")
            contains(csv(service, "context-share", "describe"), "default_socket,off\n")
            service.wait_for_log(" %s] shared: Server has started" %
                                 service.command("server", "get", "shared", "pid").stdout.strip())
    shutil.rmtree(folder)


def test_file_again():
    """A daemon that follows one that has died applies its file to what is there, and keeps the clients."""
    folder = tempfile.mkdtemp(prefix="mps-")
    need_toml(folder)
    path = file_of(folder, FILE)
    with mps.Service(options=["-p", "3", "-a", path]) as service:
        process = run_in(service, "shared", "tenant1")
        wait_listed(service, process)
        listed = [csv(service, *words) for words in (("namespace", "list"), ("sm-partition", "list", "--long"))]
        service.command("namespace", "create", "other", "--server=empty")
        service.restart_killed()
        contains(csv(service, "namespace", "list"), "other,empty,")
        service.command("namespace", "delete", "other", "--server=empty")
        wait_listed(service, process)
        equal([csv(service, *words) for words in (("namespace", "list"), ("sm-partition", "list", "--long"))], listed)
        contains(service.control_log(), "Server 'shared' stays as the previous daemon had it")
        # The file has changed meanwhile, and is wrong: clients do not end for that.
        file_of(folder, FILE.replace("chunks = 1", "chunks = 99").replace('name = "rest"', 'name = "more"'))
        service.restart_killed()
        contains(service.control_log(), "The daemon goes on, for the servers of the previous one")
        wait_listed(service, process)
        service.command("client", "terminate", str(process.pid))
        contains(str(service.finish(process)), "810")
    shutil.rmtree(folder)


def test_wrong_file():
    """An unknown key, with its line and the nearest one; and what a command refuses: no daemon starts."""
    with Daemon(start=False) as daemon:
        for text, said in (("[servers.a]\nuid = 0\nallowed_device = '0'\n",
                            "line 3: unknown key allowed_device of a: did you mean allowed_devices?"),
                           ("[server.a]\n", "line 1: unknown key server: did you mean servers?"),
                           ("x = \n", "line 1: "), ("[servers.A]\n", "A is not a name of a server"),
                           ("servers = 5\n", "servers is not a table"),
                           ("[servers.a]\nuid = 1.5\n", "line 2: uid is neither a word nor a number"),
                           ("[servers.a]\nuid = true\n", "line 2: uid is neither"),
                           ("[servers.a]\nallowed_devices = 'a b'\n", "line 2: allowed_devices is neither"),
                           ("[servers.a.namespaces.b]\ncgroup = 'x'\n",
                            'namespace set b --server=a --cgroup=x: "x" is not the path'),
                           ("[servers.a.devices]\nuuid = '0'\n", "line 1: devices is not an array of tables"),
                           ("[[servers.a.devices]]\nuid = '0'\n",
                            "line 2: unknown key uid of devices: did you mean uuid?"),
                           ("[[servers.a.devices]]\n", "line 1: uuid is missing"),
                           ("[[servers.a.devices]]\nuuid = 5\n", "line 2: uuid is not a word"),
                           ("[[servers.a.devices]]\nuuid = '0'\n[[servers.a.devices.sm_partitions]]\nname = 'x'\n"
                            "chunks = true\n", "line 5: chunks is neither a word nor a number"),
                           ("[[servers.a.devices]]\nuuid = '0'\n[[servers.a.devices.sm_partitions]]\nname = 'x'\n"
                            "shareable = 1\n", "line 5: shareable is neither true nor false"),
                           ("[[servers.a.devices]]\nuuid = '0'\n[[servers.a.devices.sm_partitions]]\nname = 'x'\n"
                            "chunks = 1000\n",
                            'sm-partition create x --server=a --device=0 --chunks=1000: "1000" is not'),
                           ("[[servers.a.namespaces.b.devices]]\nuuid = '0'\nsm_partition = 'none'\n",
                            "SM partition 'none' not found"),
                           ("[servers.a]\nlocality_domains = true\n", "line 2: locality_domains cannot be true"),
                           ("[servers.a]\ntimeslice_pct = '50'\n", "line 2: timeslice_pct is not served"),
                           ("[compute_policy]\ntimeslice = 'long'\n", "line 2: timeslice is not served"),
                           ("[compute_policy]\ntimeslice_yield_level = 2\n",
                            "line 2: timeslice_yield_level is not served"),
                           ("[features.context-share]\nenabled = false\n", "line 2: enabled cannot be false"),
                           ("[features.context-share]\ndefault_socket = 'no'\n",
                            "line 2: default_socket is neither on nor off"),
                           ("[features.memacct]\nenabled = 'no'\n", "line 2: enabled is neither true nor false"),
                           ("schema_version = '2.0'\n", 'schema_version is not "1.0"'),
                           ("[servers.a]\nallowed_devices = '7'\n",
                            'server create a --allowed_devices=7: Device "7" not'),
                           ("[servers.a]\nactive_thread_percentage = '101'\n", '"101" is not a percentage')):
            done = daemon.run("-d", "-p", "3", "-a", file_of(daemon.root, text))
            if "built without" in done.stderr:
                raise harness.Skip("without libtomlplusplus-dev")
            equal(done.returncode, 1, text)
            contains(done.stderr, said, text)
            wait_for("its end", lambda: daemon.pid() is None)
        contains(daemon.run("-d", "-a", "/none/x.toml").stderr, "/none/x.toml: No such file")
        contains(daemon.run("-a", "x", "server", "list").stderr, "apply to the daemon")


# ---- commands

def test_exit_status():
    """A refusal or an absent name is status 1, with the reason on both streams."""
    with Daemon() as daemon:
        for words, said in (("server list nope", "Server 'nope' not found"),
                            ("server get nope pid", "Server 'nope' not found"),
                            ("server nope", 'Unknown verb "nope" of server'),
                            ("client terminate 1", "Client 1 not found"),
                            ("client list --server", "--server needs a value")):
            done = daemon.run("-p", "3", *words.split())
            equal(done.returncode, 1, words)
            contains(done.stdout, said)
            contains(done.stderr, said)
        for words in ("server list", "client list --all", "server help", "client get --help"):
            done = daemon.run("-p", "3", *words.split())
            equal((done.returncode, done.stderr), (0, ""), words)
        equal(daemon.run("-p", "3", "servr", "list").returncode, 1)
        # A failed command of protocol 2 is status 0, as ever.
        equal(daemon.run("-p", "3", "get_client_list", "1").returncode, 0)
        contains(daemon.run("-p", "3", "-h").stdout, "\n  server list ")


def test_lists():
    """A client in all lists: of servers, clients and devices."""
    with mps.Service() as service:
        name = "uid_%d" % UID
        process = service.popen("process1", "--seconds", "20")
        wait_for("the client", lambda: str(process.pid) in service.command("ps").stdout)
        server = str(service.server())

        uuid = re.search(r"GPU-[-0-9a-f]{36}", csv(service, "device", "list"))[0]
        contains(csv(service, "server", "list"), "%s,%d,%s,Ready," % (name, UID, server))
        contains(csv(service, "device", "list", "--server=" + name), "0,%s," % name)
        # One GPU of the service's is in use.
        contains(csv(service, "client", "list"), "%d,%s,%s,%s/default (0)," % (process.pid, name, uuid, name))
        lines = service.command("client", "list").stdout.splitlines()
        equal(lines[0].split(), ["PID", "SERVER", "DEVICE", "MAWS", "NS", "CMD"])
        equal(lines[1].split()[0], str(process.pid))
        for field, value in (("pid", str(process.pid)), ("server", name), ("device", uuid)):
            equal(service.command("client", "get", str(process.pid), field).stdout, value + "\n")
        equal(service.command("server", "get", name, "pid").stdout, server + "\n")
        service.command("client", "terminate", str(process.pid))
        contains(str(service.finish(process)), "810")


def test_help_names_all():
    """The table of commands, help, the manual page and docs/v3.md name the same commands."""
    def read(*path):
        with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
            return file.read()

    names = set(re.findall(r'^\t\{"([a-z-]+ [a-z]+)",', read("daemon", "command", "command.c"), re.M))
    assert len(names) > 5, names
    listed = subprocess.run([mps.CONTROL, "-h"], capture_output=True, text=True, check=True).stdout
    usages = {usage for usage in re.findall(r"^  (\S.*?)  ", listed, re.M)
              if " ".join(usage.split()[:2]) in names}
    equal({" ".join(usage.split()[:2]) for usage in usages}, names)
    page = read("docs", "v3.md").partition("\n## Commands\n")[2].partition("\n## ")[0]
    equal({cell.replace("\\|", "|") for cell in re.findall(r"^\| `([^`]+)` \|", page, re.M)}, usages)
    section = read("docs", "man", "mps-control.1").partition(".SH COMMANDS OF PROTOCOL 3")[2].partition(".SH ")[0]
    said = {re.sub(r"\\f.|\"|\\(?=-)", "", term).replace("  ", " ")
            for term in re.findall(r"^\.T[PQ]\n\.BI (.*)", section, re.M)}
    equal({term.replace(" ", "") for term in said}, {usage.replace(" ", "") for usage in usages})


if __name__ == "__main__":
    harness.main(globals())
