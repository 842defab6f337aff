# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: kernels that never end, and kernels that fault."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

import mps
import terminations
import test_on_fault
import test_survivors
import test_trace
from harness import contains, equal, wait_for
from table import keep, need, row, save, show
from examples import native

GRACE_S = 3
# What a server needs to end and another to start, in addition.
EXTRA_S = 10
KERNEL_LOG = "/dev/kmsg"
FAULTS = 5
# One client faults every two seconds for five minutes; others, for one minute.
FAULTS_OF_ONE, FAULTS_OF_STRANGERS, FAULT_PAUSE_S = 150, 30, 2
TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_requests.py")
TORCH_MIB = "128"

# Kernels that fault, each in another way.
BAD_KERNELS = {
    "a store to an address without memory": "mov.u64 %d1, 0x100000000000; st.global.u32 [%d1], 1;",
    "a misaligned store": "add.u64 %d1, %d1, 1; st.global.u32 [%d1], 1;",
    "a store behind the shared memory": "mov.u32 %r1, 0x1000000; st.shared.u32 [%r1], 1;",
    "a trap": "trap;",
}
BAD_KERNEL = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
words = ctypes.c_uint64()
call = lambda name, *args: getattr(cuda, name)(*args) == 0 or exit(name)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(64))
call("cuModuleLoadData", ctypes.byref(module), b".version 7.0\\n.target sm_75\\n.address_size 64\\n"
     b".visible .entry bad(.param .u64 words) { .reg .b32 %%r<2>; .reg .b64 %%d<2>;"
     b"ld.param.u64 %%d1, [words]; %s ret; }\\n")
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"bad")
args = (ctypes.c_void_p * 1)(ctypes.addressof(words))
call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, args, None)
print(cuda.cuCtxSynchronize())
"""


# ---- kernels that never end


def ended(process):
    """What a process has said that ends within some seconds; else None."""
    deadline = time.monotonic() + 3
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.poll() is None:
        return None
    out, err = process.communicate(timeout=10)
    return (out + err).strip() or "exit code %d" % process.returncode


def neighbour_of(service):
    """A client with work, which has begun."""
    neighbour = service.popen("process1", "--seconds", "90")
    wait_for("its launches", lambda: test_trace.clients(service).get(
        neighbour.pid, {"launches": 0})["launches"] > 0)
    return neighbour


def runaway(service, what, end, beside):
    """A client's kernel never ends: end(service, client) ends it; reports what follows."""
    neighbour = neighbour_of(service) if beside else None
    client = terminations.running(service, "stuck", "kernel")
    server = service.server()
    time.sleep(0.3)
    began = time.monotonic()
    end(service, client)
    wait_for("the client's end", lambda: client.pid not in test_trace.clients(service), 30)
    gone = time.monotonic() - began
    row("%s: gone after, s" % what, "%.2f" % gone, "<= %d + %d" % (GRACE_S, EXTRA_S),
        gone <= GRACE_S + EXTRA_S)
    service.run_ok("process2", timeout=30)
    row("... from its end to the result of the next client, s", "%.2f" % (time.monotonic() - began))
    row("... its server", "goes on" if server in service.servers() else "is replaced")
    if neighbour:
        line = ended(neighbour)
        row("... its neighbour", "works on" if line is None else "ends")
        show(line or "")
        neighbour.kill()
    client.kill()


def killed(_service, client):
    client.kill()
    client.wait(20)


def terminated(service, client):
    began = time.monotonic()
    said = terminations.terminate(service, service.server(), client.pid)
    row("... the reply of terminate_client, after %.2f s" % (time.monotonic() - began),
        said.strip(), "0", said == "0\n")


def step_runaway():
    """A client with a kernel that never ends is killed or terminated."""
    # A separate service each, because a program that causes faults is quarantined.
    for i, (what, end, beside) in enumerate((
            ("runaway, killed", killed, False), ("runaway, killed, beside another", killed, True),
            ("runaway, terminated, beside another", terminated, True))):
        with mps.Service({"MPS_GRACE_MS": str(GRACE_S * 1000)}, library=None) as service:
            try:
                runaway(service, what, end, beside)
            finally:
                save(service, "runaway_%d" % i)


def start_times(**settings):
    """Seconds that programs take beside one that always has kernels queued."""
    taken = []
    with mps.Service(settings, library=None) as service:
        busy = terminations.running(service, "stuck", "busy")
        for _ in range(9):
            began = time.monotonic()
            service.run_ok("process1")
            taken.append(time.monotonic() - began)
        busy.kill()
    return sorted(taken)


def launched(service, client, seconds):
    """How many kernels the client launches in that time."""
    before = test_trace.clients(service)[client.pid]["launches"]
    time.sleep(seconds)
    return test_trace.clients(service)[client.pid]["launches"] - before


def beside_awaiting_kernel(service):
    """A client that launches goes on; one that loads code waits for the kernel."""
    busy = service.popen_going_round("process2", 60)
    idle = service.popen("counted", stdin=subprocess.PIPE)
    need("a client has worked", idle.stdout.readline() == "counted: worked\n")
    waiting = terminations.running(service, "await_kernel", stdin=subprocess.PIPE)
    idle.kill()
    loader = service.popen("process1")
    wait_for("the loader to wait", lambda: "waits until the work on the GPU ends" in
             service.server_log(), 20)
    n = launched(service, busy, 2)
    row("launches of a client in 2 s, beside one that waits to load code", n, "> 0", n > 0)
    need("the client that loads waits", loader.poll() is None)
    waiting.stdin.write("\n")
    waiting.stdin.flush()
    code, out, err = service.finish(waiting, 20)
    need("the awaited kernel is launched", code == 0, out + err)
    need("the client that loads then goes on", service.finish(loader, 20)[0] == 0)
    busy.kill()


def step_quiet():
    """Clients that load code, and end, beside a kernel that waits for a later one."""
    with mps.Service(library=None) as service:
        service.run_ok("process1")
        server = service.server()
        try:
            beside_awaiting_kernel(service)
            wait_for("all to be gone", lambda: not service.clients(server), 20)
        finally:
            save(service, "quiet")
    for name, settings in (("with quiet calls", {}), ("without", {"MPS_DISABLE": "quiet"})):
        taken = start_times(**settings)
        row("a program beside one that launches, %s, s: median, most" % name,
            "%.3f, %.3f" % (taken[len(taken) // 2], taken[-1]))


# ---- who has caused a fault


class KernelLog:
    """The kernel's lines about GPU faults from now on, if this user may read them."""

    def __init__(self):
        self.fd = None
        with contextlib.suppress(OSError):
            self.fd = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        found = []
        with contextlib.suppress(OSError):
            while self.fd is not None and (line := os.read(self.fd, 8192)):
                found.append(line.decode("utf-8", "replace").strip())
        return [line for line in found if "NVRM: Xid" in line]

    def end(self):
        if self.fd is not None:
            os.close(self.fd)


def last_fault(service):
    faults = json.loads(service.command("get_last_fault", "--json").stdout)
    return faults[0] if faults else None


def blame(service, log, what, word, busy):
    """A client faults beside an idle one, and a busy one if wanted: whom does the report name?"""
    idle = terminations.running(service, "stuck", "idle")
    other = terminations.running(service, "stuck", "busy") if busy else None
    time.sleep(0.5)
    culprit = service.popen("fault", word)
    code, out, err = service.finish(culprit, 30)
    row("%s: the culprit gets error 700" % what, "yes" if code == 0 else "NO", "yes", code == 0)
    show(out + err)
    wait_for("the report", lambda: last_fault(service), 30)
    # The kernel's line may come later.
    time.sleep(1)
    fault = last_fault(service)
    answer = "".join("%s\n" % service.command(*line).stdout for line in (
        ("get_last_fault",), ("get_last_fault", "--json")))
    keep("faults.txt", "==== %s\n%s" % (what, answer), "a")
    show(answer)
    show("\n".join(log.lines()))
    named, suspects = ([client["pid"] for client in fault.get(key, [])]
                       for key in ("clients", "suspects"))
    row("... named", "the culprit" if named == [culprit.pid] else str(named),
        "certain" if fault["certain"] else "%d suspects" % len(suspects))
    row("... known by", str(fault.get("known_by")))
    row("... address, kernel", "%s, %s" % (fault.get("address"), fault.get("kernel")))
    good = named == [culprit.pid] or (not named and culprit.pid in suspects)
    row("... it accuses the culprit, and not the idle client", "yes" if good else "NO", "yes",
        good and idle.pid not in named + suspects)
    for process in filter(None, (idle, other)):
        process.kill()
        process.communicate(timeout=20)
    return named == [culprit.pid]


def step_culprit():
    """The answer of get_last_fault, and the source of its knowledge."""
    log = KernelLog()
    row("the kernel's log", "readable" if log.fd is not None else "not readable")
    is_named = {}
    try:
        for name, what, word, busy in (
                ("alone", "beside an idle client", "near", False),
                ("near", "beside a busy one, near its own memory", "near", True),
                ("far", "beside a busy one, far from all memory", "far", True)):
            with mps.Service(library=None) as service:
                is_named[name] = blame(service, log, what, word, busy)
                save(service, "culprit_" + name)
    finally:
        log.end()
    row("the culprit beside a busy client is named, near and far",
        "%(near)s, %(far)s" % is_named)
    need("the only client at work is named", is_named["alone"])


def step_fault_text():
    """What a kernel prints before its fault reaches its program's output."""
    found = {"natively": native("fault", "prints", timeout=30)}
    with mps.Service(library=None) as service:
        found["as a client"] = service.run("fault", "prints", timeout=30)
        save(service, "fault_text")
    for who, (code, out, err) in found.items():
        show(out + err)
        n_lines = out.count(" stores\n")
        row("lines printed before a fault, %s" % who, n_lines,
            "2" if who == "as a client" else "exit code %d" % code,
            n_lines == 2 and code == 0 if who == "as a client" else None)


def survive(spare, library):
    """Idle clients beside faults: the longest wait of one for its first answer."""
    longest = 0
    with mps.Service({"MPS_OVERSUBSCRIBE": "1", "MPS_SPARE_SERVER": spare},
                     library=library) as service:
        clients = [test_survivors.Survivor(service) for _ in range(4)]
        for n in range(FAULTS):
            time.sleep(1)
            # Each is a different program, which need not wait.
            code, out, err = service.run("fault", "run %d" % n, timeout=30)
            need("the faulting program gets error 700", code == 0, out + err)
            began = time.monotonic()
            right = [test_survivors.goes_on(client) for client in clients]
            need("idle clients survive, and compute right", all(right), service.server_log())
            longest = max(longest, time.monotonic() - began)
        save(service, "survivors" + spare)
    return longest


def step_survivors(library=None):
    """Clients with a graph, streams, an event, a variable and pinned memory."""
    for spare, bound_s in (("0", 1.0), ("1", 0.3)):
        longest = survive(spare, library)
        row("idle clients after a fault%s: the longest wait of four, s" % ", with a spare" * int(spare),
            "%.2f" % longest, "at most %.1f" % bound_s, longest <= bound_s)


class TorchRequests:
    """A model of PyTorch that answers requests."""

    def __init__(self, service):
        self.service = service
        self.rounds = 0
        self.process = service.popen(sys.executable, TORCH, TORCH_MIB, stdin=subprocess.PIPE)
        equal(self.process.stdout.readline(), "torch_requests: ready\n")

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds += 1
        contains(self.process.stdout.readline(), "torch_requests: answer %d" % self.rounds)

    def end(self):
        self.process.stdin.close()
        self.process.stdin = None
        code, out, err = self.service.finish(self.process)
        equal(code, 0, out + err)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0


def step_faults_beside(library=None):
    """Faults beside programs that serve requests with pauses: each lives to the end, and is right."""
    make = TorchRequests if has_torch() else test_survivors.Survivor
    row("the programs beside faults", make.__name__)
    for what, choose, is_known, n_faults in (
            ("one program faults again and again", test_survivors.same, True, FAULTS_OF_ONE),
            ("strangers fault in pauses", test_survivors.stranger, False, FAULTS_OF_STRANGERS)):
        with mps.Service(dict(test_survivors.PLACED, MPS_SPARE_SERVER="1"), library=library) as service:
            askers = [test_survivors.Asker(service, number, make) for number in range(4)]
            requests, longest_s = test_survivors.fault_beside_askers(
                service, askers, choose, is_known, n_faults, FAULT_PAUSE_S)
            row("%s, %d faults: requests" % (what, n_faults), requests)
            row("... the longest, s", "%.2f" % longest_s, "at most 1.0", longest_s <= 1)
            save(service, "faults_beside_" + choose.__name__)


class LiveLog(threading.Thread):
    """When lines about GPU faults come into the kernel's log: (time.time(), line)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.log = KernelLog()
        self.lines = []
        self.must_stop = False
        self.start()

    def run(self):
        while not self.must_stop:
            now = time.time()
            self.lines += [(now, line) for line in self.log.lines()]
            time.sleep(0.001)

    def end(self):
        self.must_stop = True
        self.join()
        self.log.end()


def step_xid_lines(library=None):
    """What the kernel's log has of each kind of fault, and how long after the server's report."""
    for what, code in BAD_KERNELS.items():
        with mps.Service(test_survivors.PLACED, library=library) as service:
            idle = test_survivors.Survivor(service)
            log, server = LiveLog(), service.server()
            status, out, err = service.run(sys.executable, "-c", BAD_KERNEL % code, timeout=30)
            need("%s ends a server" % what, status == 0, out + err)
            test_survivors.next_server(service, server)
            idle.ask()
            noted = test_survivors.time_of(service, "Server %d is FAULT" % server).timestamp()
            moved = test_survivors.time_of(service, "Server %d has moved its" % server).timestamp()
            log.end()
            row("%s: the error; ms until survivors have moved" % what, out.strip(),
                "%.0f" % (1000 * (moved - noted)))
            for at, line in log.lines:
                row("... ms until a line", "%.0f" % (1000 * (at - noted)), line.partition("NVRM: ")[2][:80])
            idle.end()


def step_continue(library=None):
    """MPS_ON_FAULT=continue: faults of the program itself, and of another one beside its work."""
    with mps.Service({"MPS_OVERSUBSCRIBE": "1"}, library=library) as service:
        client, culprit = (test_on_fault.Client(service) for _ in range(2))
        answers = [client.ask(order) for order in ("fault", "compute") * 3]
        row("answers of a program with three faults", " ".join(answers), "700 0 each", answers == ["700", "0"] * 3)
        # Its objects are made now: code is not loaded beside a kernel that does not end.
        need("an idle program goes on", culprit.ask("compute") == "0")
        client.ask("spin")
        client.send("wait", "compute")
        culprit.ask("fault")
        answers = [client.get(), client.get()]
        row("answers of a program beside a fault", " ".join(answers), "700 0", answers == ["700", "0"])
        save(service, "continue")


STEPS = [(step_quiet, 120), (step_survivors, 120), (step_continue, 60), (step_xid_lines, 120), (step_faults_beside, 480),
         (step_runaway, 120), (step_culprit, 120), (step_fault_text, 60)]
