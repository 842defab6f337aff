#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""Which client caused a GPU fault: logs, get_last_fault and the clients agree."""

import contextlib
import json
import os
import re
import time

import harness
import mps
import terminations
from harness import contains, equal, need_root, wait_for

SECRET = "--a-secret-word"


def xid(pid, name, address, bus="01"):
    return ("6,77,88,-;NVRM: Xid (PCI:0000:%s:00): 31, %sname=%s, channel 0x1, intr 0. MMU Fault: "
            "ENGINE GRAPHICS faulted @ 0x%x_%08x. Fault is of type FAULT_PDE\n"
            % (bus, "pid=%s, " % pid if pid else "", name, address >> 32, address & 0xffffffff))


def xid_exception(pid):
    """An exception in a kernel, which has no address."""
    return ("6,78,89,-;NVRM: Xid (PCI:0000:01:00): 13, pid=%d, name=mps-server, Graphics SM Warp Exception on "
            "(GPC 0, TPC 0, SM 0): Illegal Instruction Encoding\n" % pid)


@contextlib.contextmanager
def service_with_log(writes=True, fifo=False, **settings):
    """A service whose daemon reads a file as the kernel's log, which the software GPU `writes'."""
    service = mps.Service({"SOFTGPU_LAUNCH_US": "20000"})
    path = os.path.join(service.folder, "kmsg")
    if fifo:
        os.mkfifo(path)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(xid(1, "mps-server", 0x200000000000))
    os.chmod(path, 0o666)
    service.kernel_log = path
    service.daemon_env.update({"MPS_KERNEL_LOG": path, **settings})
    if writes:
        service.daemon_env["SOFTGPU_KERNEL_LOG"] = path
        service.daemon_env["MPS_SERVER_ENV"] += ",SOFTGPU_KERNEL_LOG"
    with service:
        yield service


def last_faults(service, n=1):
    return json.loads(service.command("get_last_fault", str(n), "--json").stdout)


def last_fault(service):
    faults = last_faults(service)
    return faults[0] if faults else None


def field(text, name):
    found = re.search(r"^%s +(.*)$" % name, text, re.M)
    assert found, "no %s in %s" % (name, text)
    return found[1]


def bystander(service, **more):
    process = service.popen("process1", "--seconds", "60", **more)
    service.wait_for_active(process)
    return process


def test_last_text():
    """What a kernel prints before its fault reaches its program, and no other program."""
    with mps.Service() as service:
        beside = bystander(service)
        code, out, err = service.run("fault", "prints")
        equal(code, 0, out + err)
        equal(sorted(out.splitlines()), ["fault: ok", "thread 0 stores", "thread 1 stores"])
        equal(service.finish(beside)[1].count("stores"), 0)
        service.run_ok("process1")


def test_one_at_work():
    """Certain without the kernel's log; kernel, address and GPU are reported."""
    with service_with_log() as service:
        equal(service.command("get_last_fault").stdout, "No fault is known\n")
        equal(last_faults(service, 16), [])
        process = service.popen("fault")
        code, _, err = service.finish(process)
        equal(code, 0)
        contains(err, "a kernel of this program failed with CUDA_ERROR_ILLEGAL_ADDRESS: all "
                      "further calls fail")
        fault = wait_for("the address",
                         lambda: (last_fault(service) or {}).get("address") and last_fault(service))
        equal((fault["result"], fault["certain"], fault["address"], fault["kernel"]),
              (700, True, "0x100000000000", "_Z5storePi"))
        equal([(client["pid"], client["group"]) for client in fault["clients"]], [(process.pid, None)])
        text = service.command("get_last_fault").stdout
        equal(field(text, "Kernel"), '"store(int*)", its last launch')
        contains(field(text, "Client"), '%d "' % process.pid)
        contains(field(text, "Client"), 'fault" of user %d, group none' % os.getuid())
        contains(field(text, "Result"), "CUDA_ERROR_ILLEGAL_ADDRESS (700)")
        contains(field(text, "Device"), fault["device"]["uuid"])
        equal(field(text, "Known by"), "no other client had work on the GPU")
        contains(service.control_log(), "Client %d of user %d, " % (process.pid, os.getuid()))


def test_graph():
    """Which kernel of a graph has failed is not known."""
    with mps.Service() as service:
        equal(service.run("fault", "graph")[0], 0)
        # The server reports the fault before it knows the kernel.
        equal(wait_for("the kernel", lambda: (last_fault(service) or {}).get("kernel")), "(graph)")
        equal(field(service.command("get_last_fault").stdout, "Kernel"), '"(graph)", its last launch')


def at_work(service):
    """A program with work on the GPU at every moment."""
    return terminations.running(service, "stuck", "steady")


def fault_beside(service, *args):
    """A program faults while another works: PIDs of both, and the output of the other."""
    neighbour = at_work(service)
    process = service.popen("fault", *args)
    equal(service.finish(process)[0], 0)
    code, out, err = service.finish(neighbour)
    equal(code, 1, out + err)
    wait_for("the report", lambda: last_fault(service))
    return process.pid, neighbour.pid, err


def test_address_tells():
    """Two clients work: the address lies in the memory of one."""
    with service_with_log() as service:
        culprit, neighbour, err = fault_beside(service, "near")
        contains(err, "all further calls fail; restart the program")
        fault = wait_for("the culprit", lambda: last_fault(service)["certain"] and last_fault(service))
        equal([client["pid"] for client in fault["clients"]], [culprit])
        equal(fault["kernel"], "_Z5storePi")
        contains(fault["address"], "0x2")
        contains(fault["known_by"], "its memory is around the address")
        equal([(client["pid"], client["reason"]) for client in fault["lost"]],
              [(neighbour, "it had work on the GPU")])
        contains(field(service.command("get_last_fault").stdout, "Lost"), ": it had work on the GPU")
        wait_for("its line", lambda: re.search(
            r"Client \{PID: %d, Context: 2\} encountered a fatal GPU error: its memory" % culprit,
            service.server_log()))
        contains(service.control_log(), "Client %d of user %d, " % (culprit, os.getuid()))
        # A program that has caused a fault waits; after a second one it gets its own server.
        service.run_ok("fault", "near")
        service.run_ok("process2")


def test_groups_are_named():
    """The group of the client that caused the fault, and of suspects; even after its end."""
    with service_with_log() as service:
        for name in ("red", "blue"):
            service.command("group", "create", name)
        neighbour = terminations.running(service, "stuck", "steady", env={"MPS_GROUP": "blue"})
        process = service.popen("fault", env={"MPS_GROUP": "red"})
        for each in (process, neighbour):
            service.finish(each)
        fault = wait_for("the report", lambda: last_fault(service))
        equal({client["pid"]: client["group"] for client in fault["suspects"]},
              {process.pid: "red", neighbour.pid: "blue"})
        text = service.command("get_last_fault").stdout
        equal(sorted(re.findall("^Suspect .* group ([a-z]+)$", text, re.M)), ["blue", "red"])

        alone = service.popen("fault", env={"MPS_GROUP": "red"})
        equal(service.finish(alone)[0], 0)
        wait_for("the next one", lambda: last_fault(service)["certain"])
        contains(service.control_log(), 'fault", group red, has caused the GPU fault')
        wait_for("the end of its clients",
                 lambda: service.command("group", "delete", "red").stdout == "")
        contains(field(service.command("get_last_fault").stdout, "Client"), ", group red")


def test_address_of_no_client():
    """It lies in no client's memory: all clients with work are suspects."""
    with service_with_log() as service:
        culprit, neighbour, err = fault_beside(service)
        contains(err, "a kernel of this program, or of another client of its server, failed with "
                      "CUDA_ERROR_ILLEGAL_ADDRESS: all further calls fail")
        fault = wait_for("the address", lambda: last_fault(service)["address"] and last_fault(service))
        equal((fault["certain"], fault["address"], fault["kernel"]), (False, "0x100000000000", None))
        equal(sorted(client["pid"] for client in fault["suspects"]), sorted([culprit, neighbour]))
        text = service.command("get_last_fault").stdout
        equal(len(re.findall(r"^Suspect ", text, re.M)), 2)
        equal(field(text, "Known by"), "they had work on the GPU")
        contains(service.control_log(), "One of 2 clients has caused the GPU fault")


def test_without_a_kernel_log():
    """The daemon logs why there is none, and no server waits for it."""
    with service_with_log(writes=False, MPS_KERNEL_LOG="/nonexistent/kmsg") as service:
        contains(service.control_log(), "Cannot read the kernel's log /nonexistent/kmsg")
        fault_beside(service, "near")
        equal((last_fault(service)["certain"], last_fault(service)["address"]), (False, None))


def test_lines_of_others():
    """Lines about other processes and other GPUs, nonsense and endless lines identify no client."""
    with service_with_log(writes=False) as service:
        neighbour = at_work(service)
        server = service.server()
        with open(service.kernel_log, "a", encoding="utf-8") as file:
            for line in (xid(1, "python", 0x200000001000), xid(server + 1, "mps", 0x200000001000),
                         xid(None, "x", 0x200000001000, bus="7f"), "x" * 100000 + "\n",
                         "NVRM: Xid (PCI:", "\n"):
                file.write(line)
        service.run_ok("fault", "near")
        service.finish(neighbour)
        wait_for("the report", lambda: last_fault(service))
        wait_for("the server's end", lambda: server not in service.servers())
        equal((last_fault(service)["certain"], last_fault(service)["address"]), (False, None))


def test_log_of_another_pid_namespace():
    """By the GPU and the name, if the PID is unknown; from a FIFO."""
    for _ in range(5):
        if culprit_by_an_early_line():
            return
    raise harness.Skip("the machine is too busy")


def culprit_by_an_early_line():
    """Writes the line that names the culprit, and then starts a fault. False: that took too long."""
    with service_with_log(writes=False, fifo=True) as service:
        neighbour = at_work(service)
        writer = os.open(service.kernel_log, os.O_WRONLY)
        written = time.monotonic()
        # The neighbour has come first, so that its memory has lower addresses.
        os.write(writer, xid(4000000, "mps-server", 0x200000001000).encode())
        process = service.popen("fault", "near")
        wait_for("the fault", lambda: re.search(r"Server \d+ is FAULT", service.control_log()))
        # XID_MS (daemon/watch/faults.c), which begins when the daemon reads the line.
        in_time = time.monotonic() - written < 1
        equal(service.finish(process)[0], 0)
        service.finish(neighbour)
        os.close(writer)
        if in_time:
            fault = wait_for("the culprit", lambda: (last_fault(service) or {}).get("certain")
                             and last_fault(service))
            equal([client["pid"] for client in fault["clients"]], [neighbour.pid])
        return in_time


def culprit_by_a_late_line(service, pid=None, before=lambda: None):
    """Calls `before' after a fault, then writes the line that names the culprit.

    False: the line was too late for that. `pid' is that of the line; None: the server's.
    """
    neighbour = at_work(service)
    server = re.search(r"Starting new server (\d+) for user %d$" % os.getuid(),
                       service.control_log(), re.M)[1]
    with open(service.kernel_log, "a", encoding="utf-8") as log:
        process = service.popen("fault", "near")
        # Not later than the fault: the last look before it.
        looks = [time.monotonic()]
        wait_for("the fault", lambda: "Server %s is FAULT" % server in service.control_log()
                 or looks.append(time.monotonic()))
        before()
        # The neighbour has come first, so that its memory has lower addresses.
        log.write(xid(pid or server, "mps-server", 0x200000001000))
        log.flush()
        # ADDRESS_MS (server/link/fault_report.c) begins with the fault.
        in_time = time.monotonic() - looks[-1] < 0.5
    for each in process, neighbour:
        service.finish(each)
    if in_time:
        fault = wait_for("the culprit",
                         lambda: last_fault(service)["certain"] and last_fault(service))
        equal([client["pid"] for client in fault["clients"]], [neighbour.pid])
    return in_time


def test_address_after_a_command():
    """A server that ends because of a fault still reads, so it learns the address."""
    for _ in range(5):
        with service_with_log(writes=False) as service:
            def trace(service=service):
                contains(service.command("trace", "start", service.folder + "/trace").stdout,
                         "Tracing")
            if culprit_by_a_late_line(service, before=trace):
                return
    raise harness.Skip("the machine is too busy")


def test_kernel_that_outlives_its_client():
    with mps.Service({"MPS_GRACE_MS": "1500"}) as service:
        neighbour = bystander(service)
        # Code that is loaded beside the kernel would hold the driver's lock, on which the server
        # would wait before it has noted the kernel.
        wait_for("its code", lambda: service.stats(service.server())["launches"] > 0)
        client = terminations.running(service, "stuck", "kernel")
        client.kill()
        client.wait()
        contains(service.finish(neighbour)[1], "(806)")
        fault = wait_for("the report", lambda: last_fault(service))
        equal((fault["result"], [c["pid"] for c in fault["clients"]], fault["kernel"]),
              (702, [client.pid], "forever"))
        contains(fault["known_by"], "continued after its end")


def test_dead_client_that_waits_for_a_kernel():
    """Its code is loaded only after the kernel of another client. The server goes on meanwhile."""
    with mps.Service({"MPS_GRACE_MS": "500"}) as service:
        runner = terminations.running(service, "stuck", "kernel")
        server = service.server()
        loader = service.popen("process1")
        service.wait_for_log("Status of client {PID: %d, Context ID: 2} is ACTIVE" % loader.pid)
        time.sleep(mps.SLOW)  # until its worker is in the driver
        loader.kill()
        loader.wait()
        time.sleep(2 * mps.SLOW)
        assert "process %d disconnected" % loader.pid not in service.server_log(), "it did not wait"
        # Nor do new clients wait for it.
        newcomer = service.popen("process1")
        service.wait_for_log("Client {PID: %d, Context ID: 3} connected" % newcomer.pid)
        equal((service.server(), runner.poll()), (server, None))
        runner.kill()
        runner.wait()
        fault = wait_for("the report", lambda: last_fault(service))
        equal([c["pid"] for c in fault["clients"]], [runner.pid])


def launches_of(service, process):
    """As its server counts them: the driver's calls are fewer, as some launch graphs."""
    clients = json.loads(service.command("stats", "--json").stdout)["clients"]
    return {client["pid"]: client["launches"] for client in clients}[process.pid]


def test_probation():
    """After one fault, a program has the GPU while no other program has work."""
    with mps.Service({"SOFTGPU_LAUNCH_US": "1000"}) as service:
        once = ("once", service.folder + "/once", "2")
        service.run_ok(*once)
        wait_for("the end of its server", lambda: not service.servers())
        contains(service.control_log(), "A program of user %d has caused a GPU fault: it is on "
                                        "probation for 600 s" % os.getuid())
        equal(field(service.command("get_last_fault").stdout, "Program")[:12], "on probation")
        with open(service.folder + "/other", "w", encoding="utf-8"):
            neighbour = service.popen("once", service.folder + "/other", "60")
        service.wait_for_active(neighbour)
        process = service.popen(*once)
        service.wait_for_log("Client {PID: %d, Context ID: 2} is on probation for" % process.pid)
        wait_for("the client's state", lambda: " PROBATION " in service.command("ps", "-l").stdout)
        before = launches_of(service, neighbour)
        code, out, err = service.finish(process)
        equal(code, 0, out + err)
        # Both have had their turns: an eighth and seven eighths of the time.
        launches = int(re.search(r"(\d+) launches", out)[1])
        others = launches_of(service, neighbour) - before
        assert launches > 20 and others > launches, (launches, others)
        # Another fault, of the same program on probation: the neighbour had no work at that time,
        # and goes on in the next server.
        server = service.server()
        os.unlink(service.folder + "/once")
        service.run_ok(*once)
        service.wait_for_log("Client {PID: %d, Context: 1} had no work on the GPU" % neighbour.pid)
        wait_for("the next server", lambda: service.servers() and server not in service.servers())
        before = launches_of(service, neighbour)
        wait_for("launches", lambda: launches_of(service, neighbour) > before)
        neighbour.kill()
        neighbour.wait()
        fault = wait_for("the report", lambda: len(last_faults(service, 2)) == 2 and last_fault(service))
        equal((fault["certain"], fault["known_by"], fault["program"]),
              (True, "no other client had work on the GPU", "quarantined"))


def test_the_last_ones():
    with mps.Service() as service:
        for n in range(18):
            # Each is a different program, which need not wait.
            service.run_ok("fault", "run %d" % n)
        wait_for("the last", lambda: len(last_faults(service, 16)) == 16)
        servers = [fault["server"] for fault in last_faults(service, 16)]
        equal(len(set(servers)), 16)
        equal(len(re.findall("^Server ", service.command("get_last_fault", "3").stdout, re.M)), 3)
        for words in ("0",), ("17",), ("x",), ("1", "2"), ("--json", "1"):
            contains(service.command("get_last_fault", *words).stdout, "Usage: get_last_fault")


def test_reports_by_user():
    """Users of affected clients, and root; command lines only of the user's own clients."""
    need_root()
    with mps.Service() as service:
        os.chmod(service.folder, 0o777)
        users = [{"user": uid, "group": uid, "extra_groups": []} for uid in (7001, 7002)]
        equal(service.finish(service.popen("fault", SECRET, **users[0]))[0], 0)
        wait_for("the report", lambda: last_fault(service))
        contains(terminations.said_by(service, users[0], "get_last_fault"), 'fault" of user 7001')
        equal(terminations.said_by(service, users[1], "get_last_fault"), "No fault is known\n")
        equal(terminations.said_by(service, users[1], "get_last_fault 16 --json"), "[]\n")


def test_reports_with_one_server():
    need_root()
    users = [{"user": uid, "group": uid, "extra_groups": []} for uid in (7001, 7002, 7003)]
    service = mps.Service(options=["-M"])
    service.daemon_env["MPS_SERVER_USER"] = "nobody"
    with service:
        service.command("group", "create", "secret")
        hurt = bystander(service, **users[1])
        culprit = service.popen("fault", "near", env={"MPS_GROUP": "secret"}, **users[0])
        equal(service.finish(culprit)[0], 0)
        wait_for("the report", lambda: last_fault(service))
        # It survives if it has rested just then.
        hurt.kill()
        said = {user["user"]: terminations.said_by(service, user, "get_last_fault") for user in users}
        contains(said[7001], '%d "' % culprit.pid)
        contains(said[7001], "of user 7001, group secret")
        contains(said[7002], "%d of user 7001" % culprit.pid)
        for word in ('/fault"', "storePi", "secret"):
            assert word not in said[7002], said[7002]
        equal(said[7003], "No fault is known\n")


if __name__ == "__main__":
    harness.main(globals())
