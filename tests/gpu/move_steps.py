# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: clients that move to another server while they work."""

import os
import subprocess
import sys
import time

import harness
import mps
import test_restart
import test_spares
import variable_steps
from harness import contains
from table import need, row, save

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Graphs, streams, events, host functions, arrays, textures, registered memory and cuMemCreate; they
# check their results.
PROGRAMS = ("graph_capture", "graph_nodes", "events", "callbacks", "stream_overlap",
            "thread_streams", "texture_view", "transpose", "arrays", "surface",
            "texture_layered_mip", "registered_shared", "registered_private", "virtual_memory")
# With all memory in the store whenever they rest.
EVICTED = ("virtual_memory", "surface", "transpose")
REQUESTS = 4
TORCH_MIB = "256"
# With it, variables of images lie where they can move.
SETTINGS = {"MPS_OVERSUBSCRIBE": "1"}


def restart(service):
    """The seconds of the command; or why the clients stay."""
    began = time.monotonic()
    reply = service.command("restart_server", str(service.server()), check=False, timeout=90)
    if reply.returncode == 0 and "has moved its" in reply.stdout:
        return time.monotonic() - began, ""
    return None, (reply.stdout + reply.stderr).strip()


def check_memory(library):
    """Memory, copies and pinned memory: the least that has to move."""
    with mps.Service(SETTINGS, library=library) as service:
        clients = [test_restart.Resident(service) for _ in range(2)]
        for _ in range(3):
            seconds, why = restart(service)
            need("two clients with memory move", not why, why)
            row("... restart_server, s", "%.3f" % seconds)
            for client in clients:
                client.ask()
        for client in clients:
            client.end()
        save(service, "moves_memory")


def check_sharers(library):
    """Two clients share memory and an event; one is in the background, and suspended while both move."""
    with mps.Service(SETTINGS, library=library) as service:
        giver = test_restart.Sharer(service)
        taker = test_restart.Sharer(service, {"CUDA_MPS_CLIENT_PRIORITY": "2"})
        need("memory of another client opens", taker.do("take", giver.do("give")) == "0", "")
        need("an event of another client opens", taker.do("watch", giver.do("signal")) == "0", "")
        for value in range(1, 4):
            giver.do("fill", value)
            service.command("suspend_client", str(taker.process.pid))
            _, why = restart(service)
            need("clients that share memory move", not why, why)
            service.command("resume_client", str(taker.process.pid))
            need("... and share it afterwards", taker.do("look") == str(value), "")
            test_restart.promise(giver, taker, 100 + value)
        save(service, "moves_sharers")


def check_programs(library, programs, settings, log):
    dice = harness.dice()
    with mps.Service(settings, library=library) as service:
        service.command("start_server", "-uid", str(os.getuid()))
        for name in programs:
            n_moves, reasons = variable_steps.move(service, dice, name)
            row("%s: right in each server; moves" % name, n_moves, "> 0; stays: %s" % reasons)
        save(service, log)


def check_torch(library):
    """A model of PyTorch that answers requests, and is moved between them."""
    with mps.Service(SETTINGS, library=library) as service:
        program = service.popen(
            sys.executable, os.path.join(ROOT, "tests", "gpu", "torch_requests.py"), TORCH_MIB,
            stdin=subprocess.PIPE)
        if "no torch" in program.stdout.readline():
            row("PyTorch", "not installed")
            return
        for number in range(1, REQUESTS + 1):
            program.stdin.write("\n")
            program.stdin.flush()
            contains(program.stdout.readline(), "torch_requests: answer %d" % number)
            seconds, why = restart(service)
            row("PyTorch moves between requests, s", why or "%.3f" % seconds)
        program.stdin.close()
        program.stdin = None
        code, out, err = service.finish(program)
        need("PyTorch: the same answers in each server", code == 0, out + err)
        save(service, "moves_torch")


def check_spares(library):
    """The pause without and with a process that has done cuInit(), in turn."""
    for spares in "01" * 2:
        with mps.Service(dict(SETTINGS, MPS_IDLE_S="1", MPS_SPARE_SERVER=spares),
                         library=library) as service:
            client = test_restart.Resident(service)
            seconds, longest = test_spares.time_restart_of(service, client, spares == "1")
            client.end()
            row("restart_server %s a spare, s" % ("with" if spares == "1" else "without"),
                "%.3f" % seconds, "longest round %.3f" % longest)


def step_moves(library=None):
    """The first thing to run on a GPU: nothing of restart_server has run on one before."""
    check_memory(library)
    check_sharers(library)
    check_programs(library, PROGRAMS, SETTINGS, "moves_programs")
    check_programs(library, EVICTED, {**SETTINGS, "MPS_TEST": "evict"}, "moves_evicted")
    check_torch(library)
    check_spares(library)


STEPS = [(step_moves, 60)]
