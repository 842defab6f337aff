#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 900 s
"""The nth call of each system call, and each allocation, fails: in client, server and daemon.

No process crashes or hangs. A failing process reports what it lacks and leaves nothing
behind, and the next client is served.
"""

import itertools
import os
import shutil
import signal
import subprocess

import breaking
import harness
import mps
from breaking import ERRORS
from harness import equal, wait_for
from test_kill import holds, settle

PROGRAM = "patient"
IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
# Programs with kinds of objects that PROGRAM does not have. So many allocations of each fail.
ALLOCATING = ("events", "virtual_memory", "graph_clone", "green_contexts", "ipc_memory", "arrays")
if IS_LONG:
    ALLOCATING += ("pool_ipc", "ipc_event", "graph_nodes", "graph_update", "graph_host", "link",
                   "jit", "registered", "registered_private", "managed_module", "memory_ops",
                   "symbols", "context_events", "stream_alloc", "surface", "texture_linear", "boxes")
ALLOCATIONS_MAX = 30 if IS_LONG else 8


def ended(service, process, about):
    """The program succeeded, or printed an error; it did not crash or hang."""
    try:
        code, out, err = service.finish(process, 40)
    except AssertionError as error:
        raise AssertionError("%s: %s" % (about, error)) from None
    assert code in (0, 1), "%s: exit code %d: %s%s" % (about, code, out, err)
    assert code == 0 or (out + err).strip(), "%s: it said nothing" % about
    return code, out + err


def counted(broken, name, run):
    """The number of calls in a run."""
    broken.set(name)
    run()
    seen = broken.seen()
    broken.set("")
    return seen


def moments(name, seen):
    """Selects some of many similar calls."""
    return range(1, seen + 1, max(1, seen // (20 if os.environ.get("MPS_TEST_LONG") else 6)))


def after_idle(service, server, before, about):
    """All clients have left: the server is the same and holds what it held before."""
    equal(service.servers(), [server], about + ": the server ended")
    try:
        wait_for("", lambda: not service.clients(server) and holds(service, server) == before)
    except AssertionError:
        now = holds(service, server)
        raise AssertionError("%s: left %s" % (about, {
            k: now[k] - before[k] for k in now if now[k] != before[k]})) from None


def sweep(where, check_client):
    """Each call of each function fails while a client connects, works and leaves."""
    with breaking.Service() as service:
        broken = service.broken[where]
        for _ in range(2):
            service.run_ok(PROGRAM)
        server = service.server()
        before = settle(service, server)
        total = failed = 0
        for name, errors in ERRORS.items():
            seen = counted(broken, name, lambda: service.run_ok(PROGRAM))
            settle(service, server)
            for error in errors:
                for n in moments(name, seen):
                    about = "%s %d of %d in the %s fails with %d" % (name, n, seen, where, error)
                    broken.set(name, n, error)
                    code, text = ended(service, service.popen(PROGRAM), about)
                    broken.set("")
                    total += 1
                    failed += code
                    check_client(name, error, code, about + ": " + text)
                    after_idle(service, server, before, about + ": " + text)
        service.run_ok("process2")
        print("    %s: %d failures, %d told to the program" % (where, total, failed))
        assert total > 20, "nothing fails"


def test_client():
    def check(name, error, code, about):
        # A client continues after one CUDA_ERROR_OUT_OF_MEMORY, and after an interrupted call.
        if name == "malloc" or error in (0, breaking.EINTR):
            equal(code, 0, about)

    sweep("client", check)


def test_server():
    def check(name, error, code, about):
        if error in (0, breaking.EINTR):
            equal(code, 0, about)

    sweep("server", check)


def test_server_allocations():
    """Each allocation of the server fails beside programs with other kinds of objects.

    None of these programs repeats a call. Of many allocations, some are chosen at random.
    """
    dice = harness.dice(11)
    total = failed = 0
    with breaking.Service() as service:
        broken = service.broken["server"]
        for name in ALLOCATING:
            for _ in range(2):
                service.run_ok(name)
            server = service.server()
            before = settle(service, server)
            seen = counted(broken, "malloc", lambda name=name: service.run_ok(name))
            step = max(1, seen // ALLOCATIONS_MAX)
            for n in range(1 + dice.randrange(step), seen + 1, step):
                about = "%s: allocation %d of %d in the server" % (name, n, seen)
                settle(service, server)
                broken.set("malloc", n, breaking.ENOMEM)
                code, text = ended(service, service.popen(name), about)
                broken.set("")
                total += 1
                failed += code
                after_idle(service, server, before, about + ": " + text)
            service.run_ok(name)
    print("    %d failures, %d told to the program" % (total, failed))
    assert failed > total // 4, "nothing fails"


def test_daemon():
    """The daemon's clients are served or refused; the daemon continues."""
    def check(name, error, code, about):
        if error in (0, breaking.EINTR):
            equal(code, 0, about)

    sweep("daemon", check)


def test_server_starts():
    """Each call of each function fails while a server starts: it ends with a message, or serves."""
    with breaking.Service() as service:
        counts = {}
        for name in ERRORS:
            counts[name] = counted(service.broken["server"], name, lambda: restart(service))
    total = failed = 0
    for name, errors in ERRORS.items():
        for n in moments(name, counts[name]):
            about = "%s %d of %d in a server that starts" % (name, n, counts[name])
            with breaking.Service() as service:
                service.broken["server"].set(name, n, errors[-1])
                code, _ = ended(service, service.popen("process1"), about)
                total += 1
                failed += code
                service.broken["server"].set("")
                wait_for(about + ": the next",
                         lambda service=service: service.run("process2")[0] == 0)
    print("    %d failures, %d told to the program" % (total, failed))
    assert total > 20, "nothing fails"


def restart(service):
    for server in service.servers():
        os.kill(server, signal.SIGTERM)
    wait_for("its end", lambda: not service.servers())
    service.run_ok("process1")


def test_daemon_starts():
    """Each call of each function fails while the daemon starts: it reports that, or serves."""
    total = failed = 0
    for name, errors in ERRORS.items():
        for n in itertools.count(1):
            service = breaking.Service()
            broken = service.broken["daemon"]
            broken.set(name, n, errors[-1])
            try:
                code = start(service)
                was_reached = broken.seen() >= n
                broken.set("")
                if code is None:
                    service.run_ok("process1")
                else:
                    failed += 1
                    assert code > 0, "%s %d: the daemon ended with %d" % (name, n, code)
                    assert service.read("daemon.out").strip(), "%s %d: no word" % (name, n)
            finally:
                left, _ = service.stop()
                shutil.rmtree(service.folder, ignore_errors=True)
            assert not left, "%s %d: left %s" % (name, n, left)
            if not was_reached or n > 20:
                break
            total += 1
    print("    %d failures, the daemon ended in %d" % (total, failed))
    assert total > 10, "nothing fails"


RELOADED = ("[default]\nactive_thread_percentage = 50\n[user 1]\nclient_priority = 1\n[group a]\n",
            "[default]\nactive_thread_percentage = 20\n[group b]\nclient_priority = 2\n")


def reload_state(service):
    return (service.command("get_default_active_thread_percentage").stdout,
            service.command("group", "list").stdout)


def test_reload():
    """Each call of each function fails during a reload: the file is applied, or nothing changes."""
    total = refused = 0
    service = breaking.Service()
    path = os.path.join(service.folder, "mps.conf")
    service.make_readable(path)
    service.options = ["-c", path]
    with service:
        for name, errors in ERRORS.items():
            for error, n in itertools.product(errors, range(1, 13)):
                about = "%s %d fails with %d" % (name, n, error)
                with open(path, "w", encoding="ascii") as file:
                    file.write(RELOADED[total % 2])
                before = reload_state(service)
                service.broken["daemon"].set(name, n, error)
                reply = service.command("reload", check=False).stdout
                was_reached = service.broken["daemon"].seen() >= n
                service.broken["daemon"].set("")
                state = reload_state(service)
                is_refused = "nothing has changed, as" in reply
                assert state == before or not is_refused, "%s: %s" % (about, reply)
                if state != before and "is not created" not in reply:
                    service.command("reload")
                    equal(reload_state(service), state, about)
                service.command("reload")
                total += 1
                refused += is_refused
                if not was_reached:
                    break
    print("    %d failures, %d refused reloads" % (total, refused))
    assert refused > 3, "nothing fails"


def start(service):
    """None once the daemon serves, or its exit code."""
    with open(os.path.join(service.folder, "daemon.out"), "ab") as out:
        service.daemon = subprocess.Popen([service.control, "-f"], env=service.daemon_env,
                                          stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    wait_for("the daemon", lambda: service.daemon.poll() is not None or service.answers())
    return service.daemon.poll()


if __name__ == "__main__":
    harness.main(globals())
