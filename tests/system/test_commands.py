#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""The commands: replies of NVIDIA's daemon and of this one, permissions, and effects."""

import glob
import json
import os
import pwd
import re
import socket
import subprocess

import harness
import mps
from harness import Skip, contains, equal, need_root, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
UUID = "GPU-536f6674-4750-5580-8001-000000000000"
GUESTS = (7001, 7002)

# ---- the replay

LIST = "the devices are 0 (0000:01:00.0, %s)" % UUID
PERCENTAGE = ('"%s" is not a percentage: set_default_active_thread_percentage takes a number of '
              "percent above 0, at most 100, such as 25 or 12.5")
SIZE = ('"%s" is not a size: set_default_device_pinned_mem_limit takes a whole number with K, KB, '
        "M, MB, G or GB, such as 512M or 2G, or none")
INVALID = "an invalid value changes nothing, and the reply says which values are valid"

# Differences from the transcript: the command, the reply of this daemon, the reason. The
# same table is in docs/compat/vendor.md.
DIFFERENCES = (
    ("help", ["{HELP}"], "NVIDIA's daemon has no such command"),
    ("get_device_client_list", ["[0] 01:00.0, {NAME}", "{OLD}.1", "{NEW}.1"],
     "prints the GPU's PCI id instead of zeros"),
    ("get_device_client_list {SERVER}", ["[0] 01:00.0, {NAME}", "{OLD}.1", "{NEW}.1"],
     "prints the GPU's PCI id instead of zeros"),
    ("ps -p {NEW}", ["Server {NEW} not found"], "says so once instead of twice"),
    ("set_default_active_thread_percentage 0", [PERCENTAGE % "0"], INVALID),
    ("set_default_active_thread_percentage 101", [PERCENTAGE % "101"], INVALID),
    ("set_default_active_thread_percentage abc", [PERCENTAGE % "abc"], INVALID),
    ("set_default_active_thread_percentage", [PERCENTAGE % ""], INVALID),
    ("get_default_device_pinned_mem_limit 0", ["1044M"], "returns the value that was set"),
    ("set_default_device_pinned_mem_limit 0 1T", [SIZE % "1T"], INVALID),
    ("set_default_device_pinned_mem_limit 0 1.5G", [SIZE % "1.5G"], INVALID),
    ("set_default_client_priority 7", ["Invalid priority value - must be 0, 1 or 2!"],
     "2 is for background work"),
    ("get_server_list", ["{SERVER}", "{OTHER}"],
     "each user has a server, and `start_server -uid 1000` has started one"),
    ("$ get_server_list", ["{SERVER}", "{OTHER}"],
     "the front end takes a command as its arguments"),
    ("get_server_list, get_client_list {SERVER}", ["{SERVER}", "{OTHER}", "{OLD}", "{NEW}"],
     "each user has a server, and `start_server -uid 1000` has started one"),
)


class Step:
    """Lines of standard input, or the arguments of a run; the reply and the exit status."""

    def __init__(self):
        self.lines, self.arguments = [], None
        self.has_newline = True
        self.reply, self.status = [], None

    def name(self):
        return "$ " + self.arguments if self.arguments is not None else ", ".join(self.lines)


def read_transcript():
    steps = [Step()]
    with open(os.path.join(HERE, "transcript.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            step = steps[-1]
            kind, _, rest = line.partition("> ")
            if line.startswith("#") or not line:
                continue
            if line.startswith("  rc "):
                step.status = int(line[5:])
                steps.append(Step())
            elif line.startswith("$ "):
                step.arguments = line[2:]
            elif kind in ("", "no newline"):
                step.lines.append(rest)
                step.has_newline = not kind
            else:
                assert line.startswith("  "), line
                step.reply.append(line[2:])
    return steps[:-1]


def replay_step(service, step, facts, timeout=60):
    """The reply and the exit status."""
    if step.arguments is not None:
        words, text = step.arguments.format(**facts).split(), ""
    else:
        words = []
        text = "\n".join(step.lines).format(**facts) + ("\n" if step.has_newline else "")
    done = subprocess.run([service.control, *words], env=service.daemon_env, input=text,
                          timeout=timeout, capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.returncode


def running(service, name="victim", **more):
    """A client with work on the GPU, whose context the daemon knows."""
    process = service.popen(name, **more)
    equal(process.stdout.readline(), "%s: running\n" % name)
    service.wait_for_listed(process)
    return process


def rendered(template):
    """A template in readable form."""
    return re.sub(r"\{(\w+)[^}]*\}", r"\1", template)


def documented():
    """The table in docs/compat/vendor.md: (command, reply, reason)."""
    with open(os.path.join(harness.ROOT, "docs", "compat", "vendor.md"), encoding="utf-8") as file:
        text = file.read().partition("\n## Replies that differ\n")[2].partition("\n#")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in row) for row in rows]


def test_replay():
    """The transcript of NVIDIA's daemon, line by line, and the list of differences."""
    need_root()
    try:
        pwd.getpwuid(1000)
    except KeyError:
        raise Skip("the transcript has a user 1000, whom this machine lacks") from None
    differences = {}
    for name, reply, _ in DIFFERENCES:
        differences.setdefault(name, []).append(reply)
    equal(len({name for name, _, _ in DIFFERENCES}), len(DIFFERENCES))
    used = set()
    service = mps.Service(background=True)
    facts = {"UUID": UUID, "SHORT": UUID[:22], "NAME": "Software GPU", "PCI": "0000:01.00.00"}
    steps = read_transcript()
    # Without a daemon; the daemon of the service; and a second daemon beside it.
    step = steps.pop(0)
    equal(replay_step(service, step, facts), (step.reply, step.status), step.name())
    equal((steps[0].name(), steps.pop(0).status), ("$ -d", 0))
    with service:
        while steps[0].name() != "help":
            step = steps.pop(0)
            equal(replay_step(service, step, facts), (step.reply, step.status), step.name())
        attach_two(service, facts)
        for step in steps:
            got = replay_step(service, step, facts)
            want = [line.format(**facts) for line in step.reply]
            if (want, step.status) == got:
                continue
            name = step.name()
            assert name in differences, "%s: %r, not %r" % (name, got, want)
            facts["HELP"] = "\n".join(got[0])
            facts["OTHER"] = (set(map(str, service.servers())) - {facts["SERVER"]} or {""}).pop()
            ours = "\n".join(differences[name][0]).format(**facts).split("\n")
            equal(got, (ours, step.status), name)
            used.add(name)
        equal(used, set(differences), "differences that are none")


def attach_two(service, facts):
    # The second one stays after it is terminated.
    clients = [running(service), running(service, "terminated", stdin=subprocess.PIPE)]
    facts.update(SERVER=str(service.server()), OLD=str(clients[0].pid), NEW=str(clients[1].pid),
                 OLD_PROGRAM=clients[0].args[0], NEW_PROGRAM=clients[1].args[0],
                 NS=re.search(r"\d+", os.readlink("/proc/self/ns/pid")).group())


def test_table_of_differences():
    """All users get the same list."""
    ours = [("`%s`" % rendered(name), " / ".join("`%s`" % rendered(line) for line in reply), reason)
            for name, reply, reason in DIFFERENCES]
    equal(documented(), ours)
    assert len(ours) <= 20, len(ours)


# ---- ways to give a command

def by_socket(service, text):
    """Bare text on the socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.path.join(service.pipe, "control"))
        sock.sendall(text.encode())
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


def by_input(service, text):
    done = subprocess.run([service.control], env=service.env, input=text, capture_output=True,
                          text=True, timeout=30 * mps.SLOW, check=True)
    return done.stdout


def test_three_ways():
    """Arguments, a line without its newline, and text on the socket give the same reply."""
    with mps.Service() as service:
        running(service, "victim")
        server = service.server()
        for line in ("get_server_list", "get_server_status %d" % server, "ps", "ps -l", "ps --json",
                     "get_client_list %d" % server, "get_device_client_list", "device_query",
                     "device_query %d --csv" % server, "device_query --json", "help",
                     "get_active_thread_percentage %d" % server, "get_default_client_priority",
                     "set_device_pinned_mem_limit %d 0 1M" % server, "group list --json",
                     "get_device_pinned_mem_limit %d %s" % (server, UUID[:9]), "log_level",
                     "set_default_active_thread_percentage 12.5", "nonsense"):
            answer = service.command(*line.split()).stdout
            equal(by_input(service, line), answer, line)
            equal(by_socket(service, line), answer, line)


def document(*path):
    with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def table(text, heading):
    """The first cells of the tables under a heading, without their backquotes."""
    part = text.partition("\n%s\n" % heading)[2].partition("\n## ")[0]
    return [name.replace("\\|", "|") for name in re.findall(r"^\| `([^`]+)` \|", part, re.M)]


def test_help_names_all():
    """help, -h, the manual page and docs/commands.md name the same commands."""
    usages = []
    with mps.Service() as service:
        listed = service.command("help").stdout
        contains(service.command("-h").stdout, listed.replace("\n", "\n  ").rstrip())
        # A command of protocol 3 has two words; test_v3.py checks those.
        names = [line.split()[0] for line in listed.splitlines()
                 if not re.match(r"[a-z-]+ [a-z]+( |$)", line)]
        section = document("docs", "man", "mps-control.1").partition(".SH COMMANDS")[2]
        section = section.partition(".SH ")[0]
        assert len(names) > 20 and "group" in names, names
        equal(sorted(set(re.findall(r"^\.T[PQ]\n\.BI?R? ([a-z_]+)", section, re.M))), sorted(names))
        for name in names:
            reply = service.command(name, *["x"] * 300).stdout
            contains(reply, "Usage: " + name)
            usages.append(reply.partition("Usage: ")[2].rstrip("\n"))
    equal(table(document("docs", "commands.md"), "## All commands"), usages)


def variables_in_sources():
    """The names of the service's own variables: each is a string in some program."""
    names = set()
    for program in "client", "daemon", "server", "proto":
        for path in glob.glob(os.path.join(harness.ROOT, program, "**", "*.[ch]"), recursive=True):
            names |= set(re.findall(r'"((?:CUDA_)?MPS_[A-Z_]+)"', document(path)))
    return names


def test_variables_are_documented():
    """docs/settings.md names each variable; -h and manual pages their program's."""
    text = document("docs", "settings.md")
    tables = {who: {row.partition("=")[0] for row in table(text, "## Of " + who)}
              for who in ("the daemon", "the front end", "a client")}
    daemon = tables["the daemon"] | tables["the front end"]
    every = daemon | tables["a client"]
    equal(every, variables_in_sources() | {"CUDA_VISIBLE_DEVICES"})
    for who, page in ((daemon, "mps-control.1"), (tables["a client"], "mps-run.1")):
        manual = document("docs", "man", page)
        for name in who:
            assert re.search(r"\b%s\b" % name, manual), "%s does not name %s" % (page, name)
    with mps.Service() as service:
        usage = service.command("-h").stdout.partition("\nEnvironment: ")[2]
    said = set(re.findall(r"(?:CUDA_)?MPS_[A-Z_]*[A-Z]", usage))
    equal(said, daemon - {"CUDA_VISIBLE_DEVICES"})


def test_disabled_words_are_documented():
    """docs/settings.md has each word of MPS_DISABLE, and the manual pages those of their program."""
    known = re.search('DISABLE_WORDS "(.*)"', document("include", "disable.h")).group(1).split(", ")
    rows = re.findall(r"^\| `(\w+)` \| ((?:servers|clients|, )+) \|", document("docs", "settings.md"), re.M)
    equal([word for word, _ in rows], known)
    for program, page in (("servers", "mps-control.1"), ("clients", "mps-run.1")):
        part = document("docs", "man", page).partition("\n.B MPS_DISABLE\n")[2].partition("\n.RE\n")[0]
        equal(re.findall(r"^\.B (\w+)$", part, re.M), [word for word, of in rows if program in of])


# ---- settings

def test_limits():
    """Defaults are for the next server, settings for new clients of the server or the group."""
    with mps.Service() as service:
        def said(*words):
            return service.command(*words).stdout

        equal(said("get_default_active_thread_percentage"), "100.0\n")
        equal(said("get_default_device_pinned_mem_limit", "0"), "none\n")
        equal(said("set_default_active_thread_percentage", "33.333"), "33.3\n")
        equal(said("set_default_device_pinned_mem_limit", "01:00.0", "1044M"), "")
        equal(said("set_default_client_priority", "1"), "")
        equal(said("group", "create", "team/a", "-active_thread_percentage", "25",
                   "-device_pinned_mem_limit", "0", "64M", "-priority", "2"), "")
        equal(row_of(service, running(service)), "1044M 1 -")
        server = str(service.server())
        service.wait_for_log("Active Threads Percentage set to 33.3\n")
        service.wait_for_log("Device pinned memory limit for device 0 set to 0x41400000 bytes\n")
        service.wait_for_log("Server Priority set to 1\n")
        equal(row_of(service, running(service, env={"MPS_GROUP": "team/a"})), "64M 2 team/a")

        # It may exceed the default, and affects only that server.
        equal(said("set_device_pinned_mem_limit", server, UUID, "2G"), "")
        equal(said("set_active_thread_percentage", server, "50"), "50.0\n")
        equal(said("set_client_priority", server, "0"), "")
        equal(said("get_device_pinned_mem_limit", server, UUID[4:10].upper()), "2G\n")
        equal(said("get_active_thread_percentage", server), "50.0\n")
        equal(said("get_default_device_pinned_mem_limit", "0"), "1044M\n")
        equal(said("get_default_active_thread_percentage"), "33.3\n")
        equal(row_of(service, running(service)), "2G 0 -")

        # A group's limits are lowered by those of its server.
        equal(said("set_device_pinned_mem_limit", "-group", "team/a", "0", "4G"), "")
        equal(said("set_client_priority", "-group", "team/a", "0"), "")
        equal(row_of(service, running(service, env={"MPS_GROUP": "team/a"})), "2G 0 team/a")
        equal(said("set_device_pinned_mem_limit", server, "0", "none"), "")
        equal(row_of(service, running(service, env={"MPS_GROUP": "team/a"})), "4G 0 team/a")
        equal(row_of(service, running(service)), "- 0 -")


def row_of(service, process):
    """Memory, priority and group that `ps -l' shows."""
    for line in service.command("ps", "-l").stdout.splitlines()[1:]:
        words = line.split()
        if words[0] == str(process.pid):
            equal(words[9], "ACTIVE")
            return " ".join(words[6:9])
    raise AssertionError("ps does not show %d" % process.pid)


def test_debug():
    """log_level debug reports a client's limits."""
    with mps.Service() as service:
        equal(service.command("log_level").stdout, "info\n")
        service.command("log_level", "debug")
        service.command("set_default_active_thread_percentage", "12.345")
        client = running(service, "victim")
        line = "Client %d of server %d: 12.345 %% of SMs" % (client.pid, service.server())
        contains(service.control_log(), line)
        service.command("log_level", "info")
        running(service, "victim")
        equal(service.control_log().count(" % of SMs"), 1)


def test_nonsense():
    """One sentence, also on standard error; exit status 0; and no change."""
    wrong = ("set_default_active_thread_percentage -5", "set_default_active_thread_percentage 50%",
             "set_default_device_pinned_mem_limit 0", "set_default_device_pinned_mem_limit",
             "set_default_device_pinned_mem_limit 0 0", "set_default_device_pinned_mem_limit 1 1G",
             "set_default_device_pinned_mem_limit x 1G", "get_default_device_pinned_mem_limit",
             "set_default_device_pinned_mem_limit GPU- 1G", "set_active_thread_percentage 1 50",
             "set_default_client_priority", "set_default_client_priority -1",
             "set_active_thread_percentage -group no 50", "set_active_thread_percentage -group",
             "set_client_priority x 1", "get_server_list x", "ps -p", "ps x", "device_query --x",
             "device_query 1", "log_level loud", "group", "group x y", "group create",
             "group create a*b", "group set no -priority 1", "group get no", "group delete no",
             "group create a -priority 1 -active_thread_percentage 0",
             "group create a -device_pinned_mem_limit 0", "group create a -uid x",
             "group create a -colour red", "group create a -priority", "group list x",
             "group create " + "a" * 256)
    state = ("get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0",
             "get_default_client_priority", "group list", "log_level")
    with mps.Service() as service:
        before = [service.command(*line.split()).stdout for line in state]
        for line in wrong:
            done = service.command(*line.split())
            assert done.stdout and done.stderr, line
            equal(service.command("--strict", *line.split(), check=False).returncode, 1, line)
        contains(service.command("set_default_device_pinned_mem_limit", "1", "1G").stdout, LIST)
        equal([service.command(*line.split()).stdout for line in state], before)


def test_environment():
    """The daemon's environment sets the first default; a wrong value prevents its start."""
    settings = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "12.5", "CUDA_MPS_CLIENT_PRIORITY": "2",
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G,%s=512MB" % UUID}
    service = mps.Service()
    service.daemon_env.update(settings)
    with service:
        equal(service.command("get_default_active_thread_percentage").stdout, "12.5\n")
        equal(service.command("get_default_client_priority").stdout, "2\n")
        equal(service.command("get_default_device_pinned_mem_limit", "0").stdout, "512M\n")
        equal(row_of(service, running(service)), "512M 2 -")
    for name, value in (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "0"), ("CUDA_MPS_CLIENT_PRIORITY", "3"),
                        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1T"), ("MPS_GROUP_BY_CGROUP", "on")):
        env = dict(service.daemon_env, **{name: value, "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent/x"})
        done = subprocess.run([service.control, "-f"], env=env, capture_output=True, text=True,
                              timeout=30, check=False)
        assert done.returncode != 0, name
        contains(done.stderr, '%s is "%s": it ' % (name, value))


# ---- GPUs before the first server

def test_probe():
    """A command about GPUs probes them once, and replies without a server."""
    with mps.Service({"SOFTGPU_DEVICES": "2"}) as service:
        first = service.command("device_query").stdout
        contains(first, "Default\n")
        equal(first.count("Software GPU"), 2)
        contains(service.command("set_default_device_pinned_mem_limit", "2", "1G").stdout,
                 'Device "2" not found: the devices are 0 (')
        equal(service.command("set_default_device_pinned_mem_limit", "1", "1G").stdout, "")
        contains(service.command("get_default_device_pinned_mem_limit", UUID[:20]).stdout,
                 "The UUIDs of several devices begin with")
        equal(service.control_log().count("probes for GPUs"), 1)
        equal(service.servers(), [])


def test_probe_fails():
    """Without a driver, a limit is accepted by name, and resolved when a server starts."""
    service = mps.Service()
    library = service.daemon_env["MPS_CUDA_LIBRARY"]
    link = os.path.join(service.folder, "libcuda.so.1")
    service.daemon_env["MPS_CUDA_LIBRARY"] = link
    with service:
        said = service.command("device_query").stdout
        contains(said, "The GPUs are not known: ")
        said = service.command("set_default_device_pinned_mem_limit", "0", "1G").stdout
        contains(said, 'Device "0" will be looked up when a server has started')
        equal(service.command("get_default_device_pinned_mem_limit", "0").stdout, "1G\n")
        os.symlink(library, link)
        equal(row_of(service, running(service)), "1G 0 -")
        service.wait_for_log("Device pinned memory limit for device 0 set to 0x40000000 bytes\n")
        equal(service.command("get_default_device_pinned_mem_limit", UUID).stdout, "1G\n")


def test_quit_ends_the_probe():
    """A driver that does not respond delays neither the daemon nor the operator."""
    with mps.Service() as service:
        service.switch.set(1, mps.Switch.STALL, 60000)
        asked = service.popen(service.control, "device_query", preload=False)
        service.wait_for_log("probes for GPUs", "control")
        service.command("quit", "-t", "0")
        contains(service.finish(asked)[1], "The MPS daemon is quitting")


# ---- groups

def test_groups():
    """Groups are created, changed, listed, deleted; a client can name a group of its user."""
    with mps.Service() as service:
        def said(*words):
            return service.command("group", *words).stdout

        equal(said("create", "a", "-uid", "7001"), "")
        contains(said("create", "a"), "Group a already exists")
        equal(said("create", "b", "-priority", "1"), "")
        equal(said("get", "b"), "uid any\nactive_thread_percentage -\npriority 1\nclients 0\n")
        equal(said("set", "b", "-active_thread_percentage", "12.5", "-device_pinned_mem_limit", "0",
                   "1044M"), "")
        equal(said("get", "b"), "uid any\nactive_thread_percentage 12.5\ndevice_pinned_mem_limit "
              "%s 1044M\npriority 1\nclients 0\n" % UUID)
        contains(said("set", "b", "-uid", "1"), "The UID of a group cannot change")
        client = running(service, env={"MPS_GROUP": "b"})
        equal(json.loads(said("list", "--json"))["groups"][1], {
            "name": "b", "uid": None, "active_thread_percentage": 12.5, "priority": 1, "clients": 1,
            "device_pinned_mem_limit": [{"device": UUID, "bytes": 1044 << 20}]})
        contains(said("delete", "b"), "Group b has 1 clients")

        for name, why in (("c", 'Group "c" (MPS_GROUP) does not exist'), ("a", "is for UID 7001"),
                          ("x y", "MPS_GROUP is not a valid group name")):
            code, _, err = service.run("process1", env={"MPS_GROUP": name})
            equal(code, 1, err)
            contains(err, why)
        client.kill()
        client.wait()
        wait_for("its end", lambda: said("delete", "b") == "")
        equal(said("list").splitlines()[1:], ["%-31s %-11s %-11s %-9s 0" % ("a", "7001", "-", "-")])


def test_groups_of_cgroups():
    """A client belongs to its cgroup's group, whatever its MPS_GROUP is."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        found = re.search(r"^0::(/.*)$", file.read(), re.M)
    if not found:
        raise harness.Skip("cgroups of version 2 are not there")
    service = mps.Service()
    service.daemon_env["MPS_GROUP_BY_CGROUP"] = "1"
    with service:
        service.command("group", "create", "other")
        equal(row_of(service, running(service, env={"MPS_GROUP": "other"})), "- 0 other")
        service.command("group", "create", "/", "-priority", "1")
        equal(row_of(service, running(service)), "- 1 /")
        equal(row_of(service, running(service, env={"MPS_GROUP": "other"})), "- 1 /")
        contains(service.control_log(), "stays in the group / of its cgroup")
        if re.fullmatch(r"[A-Za-z0-9._/-]{2,255}", found.group(1)):
            service.command("group", "create", found.group(1))
            equal(row_of(service, running(service)), "- 0 " + found.group(1))


# ---- permissions and visibility

def test_permissions():
    """Each command by root, by the owner of a server, and by another user."""
    need_root()
    with mps.Service() as service:
        users = [{"user": uid, "group": uid, "extra_groups": []} for uid in GUESTS]
        clients = [running(service, "victim", **user) for user in users]
        server = {pid: each for each in service.servers() for pid in service.clients(each)}
        mine = str(server[clients[0].pid])
        service.command("group", "create", "g")

        def said(user, line):
            process = service.popen(mps.CONTROL, *line.split(), preload=False, **user)
            return service.finish(process)[1]

        own = ("get_server_status S", "get_client_list S", "get_device_client_list S", "ps -p S",
               "device_query S", "set_active_thread_percentage S 50",
               "get_active_thread_percentage S", "set_device_pinned_mem_limit S 0 1G",
               "get_device_pinned_mem_limit S 0", "set_client_priority S 1",
               "get_client_priority S", "start_server -uid 7001")
        all_users = ("get_server_list", "get_server_list --json", "get_device_client_list", "ps",
                     "device_query", "get_default_active_thread_percentage",
                     "get_default_device_pinned_mem_limit 0", "get_default_client_priority", "help",
                     "group get g", "group list", "log_level",
                     "get_active_thread_percentage -group g")
        roots = ("set_default_active_thread_percentage 50", "set_default_client_priority 1",
                 "set_default_device_pinned_mem_limit 0 1G", "group create h", "group delete g",
                 "group set g -priority 1", "set_active_thread_percentage -group g 50",
                 "set_client_priority -group g 1", "set_device_pinned_mem_limit -group g 0 1G",
                 "log_level debug", "quit")
        refused = "Operation not permitted: "
        for line in own + all_users:
            assert refused not in said(users[0], line.replace("S", mine)), line
        for line in own:
            contains(said(users[1], line.replace("S", mine)), refused, line)
        for line in all_users:
            assert refused not in said(users[1], line), line
        for line in roots:
            for user in users:
                contains(said(user, line), refused, line)
        for line in own + all_users + roots[:-1]:
            assert refused not in service.command(*line.replace("S", mine).split()).stdout, line

        # Lists have only the user's own entries.
        shown = json.loads(said(users[0], "ps --json"))["clients"]
        equal([(each["pid"], each["uid"]) for each in shown], [(clients[0].pid, GUESTS[0])])
        assert str(clients[1].pid) not in said(users[0], "get_device_client_list")
        equal(len(json.loads(service.command("ps", "--json").stdout)["clients"]), 2)
        equal(len(json.loads(said(users[0], "device_query --json"))["servers"]), 1)


HOSTILE = b"evil\n1         1         \x1b[31m \xff\"\\ \xc2\x9b"


def test_hostile_names():
    """A program's name can forge neither lines nor columns nor JSON."""
    with mps.Service() as service:
        process = subprocess.Popen([HOSTILE], executable=mps.program("victim"),
                                   env=service.client_env(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        service.started.append(process)
        equal(process.stdout.readline(), b"victim: running\n")
        wait_for("its context", lambda: len(service.command("ps").stdout.splitlines()) == 2)
        row = service.command("ps").stdout.splitlines()[1].split()
        equal(len(row), 6, row)
        equal(row[5], "evil\\x0a1" + "\\x20" * 9 + "1" + "\\x20" * 9
              + "\\x1b[31m\\x20\\xff\"\\x5c\\x20\\xc2\\x9b")
        said = service.command("ps", "--json").stdout
        equal(json.loads(said)["clients"][0]["command"],
              HOSTILE.decode("utf-8", "replace"))
        equal(len(said.splitlines()), 1)
        if mps.shutil.which("jq"):
            subprocess.run(["jq", "-e", ".clients[0].pid == %d" % process.pid], input=said,
                           text=True, check=True, stdout=subprocess.DEVNULL)
        process.kill()
        process.communicate()


if __name__ == "__main__":
    harness.main(globals())
