#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 1200 s
"""The nth call of the driver fails, for every n of a whole program's run.

The program gets an error or does not notice; the server lives, keeps nothing of it, and
serves the next client. For a long program, a few calls are chosen at random;
MPS_TEST_LONG=1 chooses more calls, and runs more programs.
"""

import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness
import mps
from harness import contains, equal, wait_for
from test_kill import holds, settle

# At least one object of each kind, and short programs.
IS_LONG = bool(os.environ.get("MPS_TEST_LONG"))
PROGRAMS = ("memory_ops", "jit", "pool_attributes", "link", "ipc_memory", "graph_clone",
            "virtual_memory", "arrays", "green_contexts", "waits_beside",
            "context_events", "managed_module")
if IS_LONG:
    PROGRAMS += ("process1", "driver", "symbols", "kernels", "events", "registered",
                 "registered_shared", "registered_private", "surface", "graph_nodes", "graph_update", "graph_host",
                 "capture_errors", "ipc_event", "pool_ipc", "stream_alloc", "managed", "separate", "boxes",
                 "texture_linear", "texture_layered_mip", "clusters", "programmatic")
# This many calls of a program fail; a longer program has them spread at random.
CALLS_MAX = 60 if IS_LONG else 20
# Each of the last calls is tested: at a session's end, nothing repeats a failed call.
LAST_CALLS = 8
DICE = harness.dice(5)
OUT_OF_MEMORY, INVALID_VALUE, ILLEGAL_ADDRESS = 2, 1, 700


def ends(service, name, about, env=None):
    """Runs a program that may fail with an error message, but must not crash or hang."""
    code, out, err = service.run(name, timeout=60, env=env)
    assert code in (0, 1), "%s: exit code %d: %s%s" % (about, code, out, err)
    assert out.strip(), "%s: it said nothing" % about
    return code, out + err


def is_as_before(service, server, before, about):
    try:
        wait_for("all of it to be back", lambda: not service.clients(server)
                 and holds(service, server) == before)
    except AssertionError:
        now = holds(service, server)
        raise AssertionError("%s: left %s" % (about, {k: now[k] - before[k] for k in now
                                                      if now[k] != before[k]})) from None


def wait_for_end(service, server):
    """Objects that the server creates in advance for later clients count as well."""
    wait_for("the session's end", lambda: not service.clients(server))


def fail_each(service, server, before, name, result, numbers, env=None):
    """Makes these calls fail in turn; returns their number, and how often the program failed."""
    failures = tries = 0
    for n in numbers:
        service.switch.set(n, mps.Switch.RESULT, result)
        tries += 1
        code, text = ends(service, name, "call %d" % n, env)
        wait_for_end(service, server)
        call = service.switch.name()
        service.switch.set(0)
        if not call:
            return tries, failures
        failures += code
        about = "%s: call %d, %s, with %d" % (name, n, call, result)
        equal(service.servers(), [server], about + ": the server ended: " + text)
        is_as_before(service, server, before, about)


def count_calls(service, server, name, env):
    service.switch.set(1 << 40)
    service.run_ok(name, env=env)
    wait_for_end(service, server)
    calls = service.switch.seen()
    settle(service, server)
    return calls


def sweep(name, result, settings=None, env=None, told=6):
    with mps.Service(settings) as service:
        for _ in range(2):
            service.run_ok(name, env=env)
        server = service.server()
        before = settle(service, server)
        # A run makes more calls the more often its client rests: evictions, for example.
        calls = min(count_calls(service, server, name, env) for _ in range(3))
        failures = tries = 0
        # Most driver calls are queries whose failure has no effect, so a program gets few errors.
        for _ in range(3):
            if failures < told:
                step = max(1, calls // CALLS_MAX)
                more = fail_each(service, server, before, name, result,
                                 itertools.count(1 + DICE.randrange(step), step), env)
                tries, failures = tries + more[0], failures + more[1]
        fail_each(service, server, before, name, result,
                  itertools.count(max(1, calls - LAST_CALLS)), env)
        service.run_ok(name, env=env)
        print("    %s: %d of %d calls with error %d, %d were told"
              % (name, tries, calls, result, failures))
        assert tries > 10 and failures >= told, "the switch does nothing"


def test_each_call_is_out_of_memory():
    for name in PROGRAMS:
        sweep(name, OUT_OF_MEMORY)


def test_each_call_is_invalid():
    for name in ("symbols", "memory_ops", "graph_clone") if IS_LONG else ("symbols",):
        sweep(name, INVALID_VALUE)


def test_each_call_with_a_share():
    """For a client with a share of the SMs."""
    for name in ("sm_share", "green_contexts"):
        sweep(name, OUT_OF_MEMORY, env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"})


def test_each_call_in_the_background():
    """For a client whose streams and graphs change their share of the SMs at each launch.

    It has its own SMs where the server cannot have a share, so it is told of few errors.
    """
    for result in (OUT_OF_MEMORY, INVALID_VALUE) if IS_LONG else (OUT_OF_MEMORY,):
        sweep("graph_update", result, {"MPS_TEST": "shares"}, {"CUDA_MPS_CLIENT_PRIORITY": "2"},
              told=1)


def test_each_call_of_evictions():
    """While memory of the client leaves the GPU and comes back at each of its rests."""
    for name in ("graph_clone", "virtual_memory") if IS_LONG else ("graph_clone",):
        for result in OUT_OF_MEMORY, INVALID_VALUE:
            sweep(name, result, {"MPS_TEST": "evict"}, told=1)


def test_each_call_between_gpus():
    # Gives the NULL streams work, so that others have to wait for it.
    for name in ("peers", "peer_process"):
        sweep(name, OUT_OF_MEMORY, {"SOFTGPU_DEVICES": "2", "SOFTGPU_LAUNCH_US": "300"})


def test_each_call_of_a_first_client():
    """The server starts, and creates its context, while the nth call fails.

    It makes hundreds of some calls in a row. Of these the first three fail, and then a few;
    MPS_TEST_LONG=1 chooses all.
    """
    n, tries, calls = 0, 0, [None]
    while calls[-1] != "":
        n += 24 if calls[-3:] == 3 * calls[-1:] and not IS_LONG else 1
        tries += 1
        with mps.Service() as service:
            service.switch.set(n, mps.Switch.RESULT, OUT_OF_MEMORY)
            _, text = ends(service, "process1", "call %d" % n)
            call = service.switch.name()
            calls.append(call)
            service.switch.set(0)
            # A server that cannot start reports that to waiting clients, and ends.
            if "cuInit failed" in service.server_log():
                wait_for("its end", lambda: not service.servers())
            try:
                service.run_ok("process2")
            except AssertionError as error:
                raise AssertionError("after call %d, %s: %s; the first: %s"
                                     % (n, call, error, text)) from None
    print("    %d of %d calls" % (tries, n))
    assert tries > 50 and len(set(calls)) > 30, "the switch does nothing: %s" % set(calls)


def breaks(what, arg, moments):
    """The server ends at many moments of a run: a client that had a GPU gets an error."""
    dice, reached = harness.dice(7), 0
    for _ in range(moments):
        with mps.Service() as service:
            service.run_ok("process1")
            server = service.server()
            service.switch.set(1 << 40)
            service.run_ok("events")
            n = dice.randrange(1, service.switch.seen())
            service.switch.set(n, what, arg)
            process = service.popen("events", env={"MPS_CLIENT_LOG": "info"})
            code, out, err = service.finish(process)
            # A run may make fewer calls than the run before it.
            if not service.switch.name():
                equal((code, out), (0, "events: ok\n"), err)
                continue
            reached += 1
            text = out + err
            about = "call %d, %s: %d, %s" % (n, service.switch.name(), code, text)
            assert code in (0, 1) and out.strip(), about
            # Before the client has a GPU, the next server serves it, also if the server has logged
            # of the GPU and the client has no answer; after its end, nothing fails.
            assert (code == 1 or not service.was_active(process, server)
                    or "another server takes over" in err
                    or service.switch.name() == "cuLibraryUnload"), about
            service.switch.set(0)
            service.run_ok("process2")
            assert service.server() != server, about + "the server goes on"
            if code == 1:
                yield text
    assert reached > moments // 2, reached


def test_gpu_faults_at_any_call():
    for text in breaks(mps.Switch.RESULT, ILLEGAL_ADDRESS, 12):
        contains(text, "(700)")


def test_server_killed_at_any_call():
    for text in breaks(mps.Switch.KILL, 0, 12):
        contains(text, "(806)")


def test_driver_stalls():
    """A worker that is stuck in the driver delays only its own client."""
    with mps.Service() as service:
        service.run_ok("process1")
        service.switch.set(1 << 40)
        service.run_ok("events")
        for n in range(1, service.switch.seen(), 9):
            service.switch.set(n, mps.Switch.STALL, 700)
            slow = service.popen("events")
            wait_for("the stall", lambda slow=slow: service.switch.name() or slow.poll() is not None)
            service.run_ok("process2", timeout=20)
            equal(service.finish(slow)[:2], (0, "events: ok\n"))


if __name__ == "__main__":
    harness.main(globals())
