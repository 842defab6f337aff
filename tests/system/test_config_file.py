#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""The configuration file: what each key does, what a reload changes, and how errors are told.

What settings come to, and what a reload changes of them: tests/unit/daemon/test_settings_rules.c.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness
import mps
from harness import Skip, contains, equal, need_root, wait_for
from test_commands import document, running

ALICE, BOB = 12345, 12346
HANGS = {"SOFTGPU_LAUNCH_US": "60000000"}
REFUSED = "nothing has changed, as %s has an error: mend it and reload again\n"


class Service(mps.Service):
    """A service with a configuration file; `unset' are variables to remove from the daemon's."""

    def __init__(self, text, settings=None, unset=(), options=(), **more):
        super().__init__(settings, **more)
        self.path = os.path.join(self.folder, "mps.conf")
        self.options = ["-c", self.path, *options]
        self.write(text)
        for name in unset:
            del self.daemon_env[name]

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path, 0o644)

    def said(self, line):
        return self.command(*line.split()).stdout

    def reload(self, text=None):
        """The reply without its last line, which says that the file is applied."""
        if text is not None:
            self.write(text)
        reply = self.said("reload")
        assert reply.endswith("Applied %s\n" % self.path), reply
        return reply[:-len("Applied %s\n" % self.path)]

    def hang_up(self):
        """SIGHUP; what control.log has from then on."""
        before = self.control_log()
        os.kill(self.daemon_pid(), signal.SIGHUP)
        wait_for("the logs to be reopened",
                 lambda: "Reopened the logs" in self.control_log()[len(before):])
        result = r"\] Reload: (Applied|There is no|nothing has changed|the file has not changed)"
        wait_for("the reload", lambda: re.search(result, self.control_log()[len(before):]))
        return self.control_log()[len(before):]

    def device(self):
        """The UUID of the GPU, by which the daemon keeps limits once it knows the GPUs."""
        return json.loads(self.said("device_query --json"))["default"][0]["uuid"]

    def client(self, env=None, **who):
        return running(self, env=env, **who)

    def limits(self, process):
        """SMs, memory, priority and group that `ps -l' shows for the client."""
        for line in self.said("ps -l").splitlines()[1:]:
            words = line.split()
            if words[0] == str(process.pid):
                return " ".join(words[5:9])
        raise AssertionError("ps does not show %d" % process.pid)


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def environment_of(pid):
    with open("/proc/%d/environ" % pid, encoding="utf-8") as file:
        return dict(part.split("=", 1) for part in file.read().split("\0") if part)


def control(*words, env=None):
    """The front end, without a service's environment."""
    return subprocess.run([mps.CONTROL, *words], env=dict(mps.clean_environment(), **(env or {})),
                          capture_output=True, text=True, timeout=30 * mps.SLOW,
                          stdin=subprocess.DEVNULL, check=False)


# ---- keys of [daemon]

def test_directories():
    """The daemon, its servers and the front end find the directories of the file."""
    service = Service("", unset=("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"))
    service.write("[daemon]\npipe_directory = %s/\nlog_directory = %s\n"
                  % (service.pipe, service.log))
    with service:
        service.run_ok("process1")
        equal(environment_of(service.server())["CUDA_MPS_PIPE_DIRECTORY"], service.pipe)
        contains(service.control_log(), "Using the configuration file %s\n" % service.path)
        found = control("-c", service.path, "get_server_list")
        equal(found.stdout, "%d\n" % service.server(), found.stderr)
        # A relative path, and an error that does not concern the front end.
        service.write("[daemon]\npipe_directory = %s\nidle_s = x\n" % service.pipe)
        found = control("-c", os.path.relpath(service.path), "get_server_list")
        equal((found.stdout, found.stderr), ("%d\n" % service.server(), ""))


def test_servers_environment():
    """Servers get what the file says, and what the variables that it names say."""
    service = Service("[daemon]\ngrace_ms = 777\nclient_host_mib = 333\nserver_env = MINE, "
                      "SOFTGPU_DIR,SOFTGPU_DEVICES\nvisible_devices = 1\ndevice_order = PCI_BUS_ID\n"
                      "cuda_library = %s\n" % mps.for_everybody(mps.SOFTGPU),
                      unset=("MPS_CUDA_LIBRARY", "MPS_SERVER_ENV"))
    service.daemon_env.update(MINE="1", SOFTGPU_DEVICES="2")
    service.daemon_env.pop("MPS_GRACE_MS", None)
    with service:
        contains(service.said("device_query"), "0               0000:02.00.00")
        equal(service.said("device_query").count("Software GPU"), 1)
        service.run_ok("process1")
        env = environment_of(service.server())
        for name, value in (("MPS_GRACE_MS", "777"), ("MPS_CLIENT_HOST_MIB", "333"), ("MINE", "1"),
                            ("CUDA_VISIBLE_DEVICES", "1"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")):
            equal(env[name], value, name)


def test_grace():
    """A kernel that outlives its client costs the server after the file's grace, not the default's.

    A reload is for the next server.
    """
    with Service("[daemon]\ngrace_ms = 200\n", HANGS) as service:
        if "MPS_GRACE_MS" in service.daemon_env:
            raise harness.Skip("the environment sets the grace")
        _, server = service.leave_a_kernel()
        service.wait_for_log("(MPS_GRACE_MS)", timeout_s=8)
        wait_for("the end of the server", lambda: server not in service.servers())
        equal(service.reload("[daemon]\ngrace_ms = 300000\n"),
              "grace_ms: 300000 (was 200), for servers that start from now on\n")
        process = service.popen("process1")
        wait_for("the next server", service.servers)
        equal(environment_of(service.server())["MPS_GRACE_MS"], "300000")
        process.kill()


def test_at_once():
    """idle_s, log_level, log_max_mib and servers_max have effect without a restart."""
    with Service("") as service:
        equal(service.reload("[daemon]\nidle_s = 1\nlog_level = debug\nlog_max_mib = 1\n"
                             "servers_max = 1\n"),
              "log_max_mib: 1 (was 100)\nlog_level: debug (was info)\nidle_s: 1 (was 3600)\n"
              "servers_max: 1 (was 64)\n")
        equal(service.said("log_level"), "debug\n")
        lines = "an unknown command with many words %s\n" % ("x" * 900) * 100
        for _ in range(20):
            subprocess.run([mps.CONTROL], env=service.env, input=lines, text=True, check=True,
                           capture_output=True, timeout=30 * mps.SLOW)
        assert (1 << 19) < os.path.getsize(service.log + "/control.log.1") <= 1 << 20
        equal(service.reload(""), "log_max_mib: 100 (was 1)\nlog_level: info (was debug)\n"
              "idle_s: 3600 (was 1)\nservers_max: 64 (was 1)\n")


def test_options_of_the_daemon():
    """multiuser_server and static_partitioning are the options -M and -S."""
    need_root()
    with Service("[daemon]\nmultiuser_server = yes\nserver_user = nobody\n") as service:
        service.run_ok("process1", **user(ALICE))
        service.run_ok("process1")
        equal(len(service.servers()), 1)
    with Service("[daemon]\nstatic_partitioning = 1\n") as service:
        assert not service.said("lspart").startswith("Unknown"), service.said("lspart")
        contains(service.said("sm_partition add 0 2"), "GPU-")


def test_groups_by_cgroup():
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        if not any(line.startswith("0::/") for line in file):
            raise harness.Skip("no cgroup of version 2")
    with Service("[daemon]\ngroup_by_cgroup = yes\n[group /]\nclient_priority = 2\n") as service:
        equal(service.limits(service.client()).split()[-2:], ["2", "/"])
        equal(service.reload("[group /]\nclient_priority = 2\n"),
              "group_by_cgroup: no (was yes)\n")
        equal(service.limits(service.client()).split()[-2:], ["0", "-"])


# ---- limits

def test_defaults():
    with Service("[default]\nactive_thread_percentage = 50\ndevice_pinned_mem_limit = 0=1G\n"
                 "client_priority = 1\n") as service:
        equal(service.said("get_default_active_thread_percentage"), "50.0\n")
        equal(service.said("get_default_device_pinned_mem_limit 0"), "1G\n")
        equal(service.said("get_default_client_priority"), "1\n")
        process = service.client()
        sms, *rest = service.limits(process).split()
        equal(rest, ["1G", "1", "-"])
        service.wait_for_log("Active Threads Percentage set to 50.0\n")
        service.wait_for_log("set to 0x40000000 bytes\n")
        service.said("set_active_thread_percentage %d 100" % service.server())
        all_sms = service.limits(service.client()).split()[0]
        assert int(sms) < int(all_sms), (sms, all_sms)


def groups(service):
    listed = json.loads(service.said("group list --json"))["groups"]
    return {one["name"]: one for one in listed}


def test_groups():
    """Sections of groups create, change and delete groups."""
    with Service("[group team/a]\ndevice_pinned_mem_limit = 0=64M\nclient_priority = 2\n"
                 "[group b]\n") as service:
        equal(sorted(groups(service)), ["b", "team/a"])
        process = service.client({"MPS_GROUP": "team/a"})
        equal(service.limits(process).split()[1:], ["64M", "2", "team/a"])
        contains(service.control_log(), "Configuration: group team/a: created\n")
        equal(service.reload("[group team/a]\ndevice_pinned_mem_limit = 0=32M\n[group c]\n"
                             "active_thread_percentage = 25\n"),
              "group b: deleted\n"
              "group team/a: device_pinned_mem_limit: GPU=32M (was GPU=64M)\n"
              "group team/a: client_priority: none (was 2)\ngroup c: created\n"
              "group c: active_thread_percentage: 25.0 (was none)\n"
              .replace("GPU", service.device()))
        # The memory of a group is limited at once; other limits are for new clients.
        equal(service.limits(process).split()[1:], ["32M", "2", "team/a"])
        equal(service.said("group get c").splitlines()[1], "active_thread_percentage 25.0")
        said = service.reload("")
        contains(said, "group team/a: stays without limits, as it has 1 clients: reload again")
        contains(said, "group c: deleted\n")
        process.kill()
        process.wait()
        wait_for("the client to be gone", lambda: groups(service)["team/a"]["clients"] == 0)
        equal(service.reload(), "group team/a: deleted\n")
        equal(groups(service), {})


# ---- reload

def test_reload_beside_clients():
    """New clients of a running server get the new limits, clients that run keep theirs."""
    with Service("[default]\nactive_thread_percentage = 100\nclient_priority = 1\n") as service:
        old = service.client()
        before = service.limits(old)
        server = service.server()
        equal(service.reload("[default]\nactive_thread_percentage = 25\n"
                             "device_pinned_mem_limit = 0=128M\n"),
              "default: active_thread_percentage: 25.0 (was 100.0)\n"
              "default: device_pinned_mem_limit: %s=128M (was none)\n"
              "default: client_priority: 0 (was 1)\n" % service.device())
        new = service.client()
        equal(service.server(), server)
        equal(service.limits(old), before)
        sms, memory, priority, _ = service.limits(new).split()
        assert int(sms) < int(before.split()[0]), (sms, before)
        equal((memory, priority), ("128M", "0"))
        for process in old, new:
            equal(process.poll(), None)
        equal(service.reload(), "")


def test_bad_file():
    """Nothing of a file with an error is applied; the reply, and control.log, have each error."""
    good = "[default]\nactive_thread_percentage = 50\n[daemon]\nidle_s = 77\n"
    with Service(good) as service:
        service.write("[default]\nactive_thread_percentage = 25\nclient_priority = 9\n[daemon]\n"
                      "idle = 5\n[group g]\n")
        errors = ('%s:3: client_priority is "9": it must be 0 (normal), 1 (below normal) or 2 '
                  "(background)\n%s:5: [daemon] has no key \"idle\": did you mean idle_s?\n"
                  % (service.path, service.path))
        done = service.command("--strict", "reload", check=False)
        equal(done.returncode, 1)
        equal(done.stdout, errors + REFUSED % service.path)
        equal(done.stderr, "mps-control: reload: " + REFUSED % service.path)
        equal(service.command("reload").returncode, 0)
        log = service.hang_up()
        for line in errors.splitlines() + [(REFUSED % service.path).rstrip()]:
            contains(log, "] Reload: %s\n" % line)
        os.unlink(service.path)
        contains(service.said("reload"), "%s: cannot be read: No such file" % service.path)
        equal(service.said("get_default_active_thread_percentage"), "50.0\n")
        equal(service.said("get_default_client_priority"), "0\n")
        equal(groups(service), {})
        equal(service.reload(good), "")


def test_hangup():
    """SIGHUP applies a file that has changed, and otherwise undoes no command."""
    with Service("[default]\nactive_thread_percentage = 50\n") as service:
        service.said("set_default_active_thread_percentage 30")
        contains(service.hang_up(), "] Reload: the file has not changed\n")
        equal(service.said("get_default_active_thread_percentage"), "30.0\n")
        service.write("[default]\nactive_thread_percentage = 20\n")
        log = service.hang_up()
        contains(log, "] Reload: default: active_thread_percentage: 20.0 (was 30.0, which a "
                 "command had set)\n")
        contains(log, "] Reload: Applied %s\n" % service.path)
        equal(service.said("get_default_active_thread_percentage"), "20.0\n")
        os.rename(service.log + "/control.log", service.log + "/control.log.1")
        service.reload()
        contains(service.control_log(), "Applied %s\n" % service.path)


def test_unknown_devices():
    """A limit for a GPU that is not there is reported once the GPUs are known."""
    with Service("[default]\ndevice_pinned_mem_limit = 3=1G\n") as service:
        service.run_ok("process1")
        contains(service.reload(), 'line 2: the limit of device "3" has no effect: the devices are '
                 "0 (0000:01:00.0, ")


# ---- check-config, and starts

def test_check_config():
    with Service("[daemon]\ngrace_ms = 5\n") as service:
        done = control("check-config", service.path)
        equal((done.returncode, done.stdout, done.stderr), (0, service.path + ": no errors\n", ""))
        equal(control("-c", service.path, "check-config").returncode, 0)
        service.write("[daemon]\ngrace_ms = soon\n[default]\nactive_threads = 5\n")
        done = control("check-config", service.path)
        equal((done.returncode, done.stdout), (1, ""))
        equal(done.stderr,
              'mps-control: %s:2: grace_ms is "soon": it takes milliseconds, a number from 0 to '
              "3600000\nmps-control: %s:4: [default] has no key \"active_threads\": did you mean "
              "active_thread_percentage?\nmps-control: %s: 2 errors\n"
              % (service.path, service.path, service.path))
        equal(control("-c", service.path, "check-config").returncode, 1)
        done = control("check-config", service.path + ".none")
        equal(done.returncode, 1)
        contains(done.stderr, "mps.conf.none: cannot be read: No such file")
        for words in (("check-config", "a", "b"), ("-c", "a", "check-config", "b")):
            done = control(*words)
            equal(done.returncode, 1)
            contains(done.stderr, "check-config takes one file")
    if not os.path.exists("/etc/mps.conf"):
        done = control("check-config")
        equal((done.returncode, done.stderr), (0, ""))
        contains(done.stdout, "/etc/mps.conf: there is no such file: the defaults apply")


def test_permissions():
    """A daemon of root refuses a file that others can write; others are warned."""
    with Service("[daemon]\nidle_s = 5\n") as service:
        is_root = os.geteuid() == 0
        os.chmod(service.path, 0o666)
        done = control("check-config", service.path)
        equal(done.returncode, int(is_root))
        contains(done.stderr, "other users can write the file (mode 0666)")
        if is_root:
            contains(service.said("reload"), REFUSED.rstrip() % service.path)
            os.chmod(service.path, 0o644)
            os.chown(service.path, ALICE, 0)
            contains(service.said("reload"), "the file belongs to UID %d" % ALICE)
            os.chown(service.path, 0, 0)
        os.chmod(service.path, 0o644)
        service.reload()


def fails_to_start(text, want, *options, **env):
    service = Service(text)
    try:
        done = control("-f", "-c", service.path, *options,
                       env=dict(service.daemon_env, **env))
        assert done.returncode == 1, done.stdout
        contains(done.stderr, want.replace("FILE", service.path))
        assert not os.path.exists(service.pipe), "the socket's directory"
    finally:
        shutil.rmtree(service.folder)


def test_starts():
    """A daemon with a wrong file does not start, and says why."""
    fails_to_start("[daemon]\nidle_s = x\n", "mps-control: FILE:2: idle_s is \"x\"")
    fails_to_start("[daemon]\nidle_s = x\n", "does not start, as FILE has an error: mend it")
    fails_to_start("x\n", "FILE:1: the line belongs to no section")
    fails_to_start("", "/none/mps.conf: cannot be read: No such file", "-c", "/none/mps.conf")
    fails_to_start("[daemon]\nmultiuser_server = yes\nserver_user = no-such-user\n",
                   'the system has no user "no-such-user"' if os.geteuid() == 0 else
                   "needs a daemon of root")
    done = control("-c", "/none/mps.conf", "get_server_list")
    equal(done.returncode, 1)
    contains(done.stderr, "/none/mps.conf: cannot be read")


# ---- documents

def keys_in_sources():
    """Names of keys: of [daemon], and of the other sections."""
    source = document("daemon/config", "config.c")
    daemon = set(re.findall(r'\[CONFIG_\w+\] = \{"(\w+)"', source))
    settings = document("daemon/config", "settings.c")
    limits = set(re.findall(r'\[SETTING_\w+\] = \{"(\w+)"', settings))
    assert len(daemon) > 10 and len(limits) == 5, (daemon, limits)
    return daemon, limits | {"uid"}


def test_documents():
    """The manual page, docs/settings.md and the example name each key; the examples are right."""
    daemon, limits = keys_in_sources()
    page = document("docs", "man", "mps.conf.5")
    equal(set(re.findall(r"^\.BI (\w+) ", page, re.M)), daemon | limits)
    example = document("daemon/dist", "mps.conf")
    equal(set(re.findall(r"^#(\w+) = ", example, re.M)), daemon | limits)
    named = set(re.findall(r"`(\w+)`", document("docs", "settings.md")))
    equal((daemon | limits) - named, set())
    with Service(example) as service:
        equal(control("check-config", service.path).returncode, 0)
        # Every key at its default, or at an example of this machine's users.
        service.write(re.sub(r"^#(\w|\[)", r"\1", example, flags=re.M).replace("alice", "root"))
        done = control("check-config", service.path)
        equal(done.returncode, 0, done.stderr)
        defaults = dict(re.findall(r"^#(\w+) = (.*)$", example, re.M))
        # In a sanitized build the tests set the grace.
        overridden = {"grace_ms"} if "MPS_GRACE_MS" in service.daemon_env else set()
        service.write("[daemon]\n" + "".join(
            "%s = %s\n" % (key, value) for key, value in defaults.items()
            if key in daemon - {"pipe_directory", "log_directory", "visible_devices",
                                "device_order", "cuda_library", "server_env", "server_user",
                                "client_host_mib", "foreground_slowdown", "background_floor",
                                "oversubscribe_host", "oversubscribe_stay"} - overridden))
        equal(service.reload(), "")
        in_page = page.partition(".SH EXAMPLE")[2].partition(".EX\n")[2].partition(".EE")[0]
        service.write(in_page.replace("alice", "root").replace("bob", "nobody"))
        done = control("check-config", service.path)
        equal(done.returncode, 0, done.stderr)


SLOW_NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
	int (*next)(const char *, struct passwd *, char *, size_t, struct passwd **);

	next = (__typeof__(next))dlsym(RTLD_NEXT, "getpwnam_r");
	for (int i = 0; i < 600 && access(getenv("SLOW_NAMES"), F_OK) == 0; i++)
		usleep(100000);
	return next(name, entry, buffer, size, found);
}
"""


@contextlib.contextmanager
def slow_names():
    """The launcher of a daemon, and a file: while it exists, no name of a user is found."""
    with tempfile.TemporaryDirectory() as folder:
        library, mark = folder + "/slow_names.so", folder + "/mark"
        subprocess.run([os.environ.get("CC", "cc"), "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", library,
                        "-ldl"], input=SLOW_NAMES, text=True, check=True)
        yield ["env", "LD_PRELOAD=" + library, "SLOW_NAMES=" + mark], mark


def test_slow_names():
    """The daemon works while the system looks for the name of a user."""
    if os.environ.get("MPS_SAN"):
        raise Skip("the sanitizer must be loaded first")
    with slow_names() as (launcher, mark), Service("", launcher=launcher) as service:
        service.run_ok("process1")
        with open(mark, "w", encoding="utf-8"):
            pass
        service.write("[user nobody]\nclient_priority = 2\n")
        first = subprocess.Popen([mps.CONTROL, "reload"], env=service.env, stdout=subprocess.PIPE, text=True)
        wait_for("the reload", lambda: "Cmd:reload" in service.control_log())
        began = time.monotonic()
        second = subprocess.Popen([mps.CONTROL, "reload"], env=service.env, stdout=subprocess.PIPE, text=True)
        service.command("get_server_list")
        service.run_ok("process1")
        assert time.monotonic() - began < 5 * mps.SLOW
        equal((first.poll(), second.poll()), (None, None))
        os.unlink(mark)
        contains(first.communicate(timeout=20 * mps.SLOW)[0], "client_priority: 2")
        contains(second.communicate(timeout=20 * mps.SLOW)[0], "Applied " + service.path)


def test_quit_beside_slow_names():
    if os.environ.get("MPS_SAN"):
        raise Skip("the sanitizer must be loaded first")
    with slow_names() as (launcher, mark), Service("", launcher=launcher) as service:
        with open(mark, "w", encoding="utf-8"):
            pass
        service.write("[user nobody]\nclient_priority = 2\n")
        reload = subprocess.Popen([mps.CONTROL, "reload"], env=service.env, stdout=subprocess.DEVNULL)
        wait_for("the reload", lambda: "Cmd:reload" in service.control_log())
        service.command("quit")
        equal(service.daemon.wait(5 * mps.SLOW), 0)
        reload.wait(20 * mps.SLOW)


if __name__ == "__main__":
    harness.main(globals())
