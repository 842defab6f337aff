#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
# mostly waits
"""What ends, and what continues, when a part of the service or the GPU fails."""

import contextlib
import os
import re
import signal
import subprocess
import time

import harness
import mps
import session
from harness import SLOW, contains, equal, need_mounts, need_root, wait_for


def test_server_killed():
    with mps.Service() as service:
        running = [service.popen("process1", "--seconds", "60"), service.popen("victim")]
        server = service.server()
        for process in running:
            service.wait_for_active(process)
        os.kill(server, signal.SIGKILL)
        for process in running:
            code, out, err = service.finish(process, 10)
            equal(code, 1, out + err)
            contains(out, "(806)", "the error should be CUDA_ERROR_MPS_RPC_FAILURE")
        service.run_ok("process2")
        assert service.server() != server
        contains(service.control_log(), "Server %d was ended by signal 9" % server)


def test_server_stopped_does_not_block_quit():
    with mps.Service({"MPS_GRACE_MS": "1000"}) as service:
        service.run_ok("process1")
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        service.command("quit", "-t", "1", timeout=60)
        wait_for("the end of all", lambda: not service.processes())


def test_starting_server_stopped():
    """The waiting client gets the next server, long before the time of a start is over."""
    with mps.Service({"MPS_GRACE_MS": "0"}) as service:
        service.switch.set(1, mps.Switch.STALL, 1000, only="cuInit")
        client = service.popen("process1")
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        code, out, err = service.finish(client, 40)
        equal(code, 0, out + err)
        assert service.server() != server and time.monotonic() - began < 30 * SLOW
        # A short stop changes nothing.
        service.command("shutdown_server", str(service.server()))
        wait_for("its end", lambda: not service.servers())
        service.switch.set(1, mps.Switch.STALL, 1000, only="cuInit")
        client = service.popen("process1")
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        service.wait_for_log("Server %d was stopped by signal" % server, "control")
        os.kill(server, signal.SIGCONT)
        service.wait_for_log("Server %d continues" % server, "control")
        equal(service.finish(client)[0], 0)
        equal(service.server(), server)


def test_server_stopped():
    """A stopped server continues if resumed, else it is replaced: no client waits for ever."""
    with mps.Service({"MPS_GRACE_MS": "1000"}) as service:
        service.run_ok("process1")
        server = service.server()

        def wait_for_stop(n):
            said = "Server %d was stopped by signal 19" % server
            wait_for("the daemon to see it", lambda: service.control_log().count(said) == n)

        for n in 1, 2:
            waits = service.popen("process1", "--seconds", "1")
            wait_for("the client", lambda waits=waits: waits.pid in service.clients(server))
            os.kill(server, signal.SIGSTOP)
            wait_for_stop(n)
            time.sleep(0.5)
            os.kill(server, signal.SIGCONT)
            equal(service.finish(waits)[:2], (0, "process1: ok\n"))
        contains(service.control_log(), "Server %d continues" % server)
        waits = service.popen("process1", "--seconds", "60")
        service.wait_for_active(waits)
        os.kill(server, signal.SIGSTOP)
        wait_for_stop(3)
        late = service.popen("process2")
        code, out, err = service.finish(waits, 20)
        equal(code, 1, out + err)
        contains(out, "(806)")
        equal(service.finish(late)[:2], (0, "process2: ok\n"))
        contains(service.control_log(), "did not continue after it was stopped in time")


def test_stopped_with_its_daemon():
    """The reason is the stop, also if the daemon finds at once that a client waits for too long."""
    with mps.Service({"MPS_GRACE_MS": "1000"}) as service:
        service.run_ok("process1")
        server = service.server()
        waits = service.popen("process1", "--seconds", "60")
        service.wait_for_active(waits)
        os.kill(server, signal.SIGSTOP)
        wait_for("the daemon to see it", lambda: "Server %d was stopped by signal 19" % server
                 in service.control_log())
        late = service.popen("process2")
        wait_for("the client", lambda: "NEW CLIENT %d" % late.pid in service.control_log())
        os.kill(service.daemon.pid, signal.SIGSTOP)
        time.sleep(7)
        os.kill(service.daemon.pid, signal.SIGCONT)
        code, out, err = service.finish(waits, 20)
        equal(code, 1, out + err)
        contains(service.control_log(),
                 "Server %d did not continue after it was stopped in time" % server)
        equal(service.finish(late)[:2], (0, "process2: ok\n"))


def test_adopted_server_stopped():
    """It is not a child of the daemon: a client's arrival shows that it does not respond."""
    with mps.Service({"MPS_GRACE_MS": "1000"}) as service:
        service.run_ok("process1")
        server = service.server()
        service.daemon.kill()
        service.daemon.wait()
        service.start()
        service.wait_for_log("Adopted server %d" % server, "control")
        # A server that has not told everything has the time of one that starts.
        wait_for("what it tells", lambda: service.command(
            "get_server_status", str(server)).stdout == "ACTIVE\n")
        os.kill(server, signal.SIGSTOP)
        service.run_ok("process2", timeout=20)
        contains(service.control_log(), "has not accepted client")
        assert service.server() != server


def test_daemon_killed():
    """Clients and their server continue, and a new daemon finds them."""
    with mps.Service() as service:
        process = service.popen("process1", "--seconds", "6")
        server = service.server()
        wait_for("the client", lambda: service.clients(server))
        service.daemon.kill()
        service.daemon.wait()
        done = service.command("get_server_list", check=False)
        equal((done.returncode, done.stdout), (1, "Cannot find MPS control daemon process\n"))
        service.start()
        equal(service.servers(), [server])
        wait_for("the client, told anew", lambda: service.clients(server) == [process.pid])
        service.run_ok("process2")
        equal(service.servers(), [server])
        equal(service.finish(process)[:2], (0, "process1: ok\n"))


def test_server_without_daemon_ends():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        service.daemon.kill()
        service.daemon.wait()
        wait_for("the orphan's end", lambda: not mps.is_alive(server), 40)
        service.start()
        service.run_ok("process1")


def test_fault():
    """A GPU fault ends every client that had work there and is reported; the next client works."""
    with mps.Service() as service:
        neighbour = service.popen("stuck", "steady")
        server = service.server()
        equal(neighbour.stdout.readline(), "stuck: running\n")
        service.run_ok("fault")
        code, out, err = service.finish(neighbour, 15)
        equal(code, 1, out + err)
        contains(out + err, "(700)")
        equal(err.count("failed with CUDA_ERROR_ILLEGAL_ADDRESS: all further calls fail"), 1, err)
        service.wait_for_log("encountered a fatal GPU error")
        service.run_ok("process2", timeout=30)
        assert service.server() != server, "the server with the fault still serves"


def test_fault_again_and_again():
    with mps.Service() as service:
        for _ in range(3):
            service.run_ok("fault")
            service.run_ok("matmul")


def test_faults_do_not_lock_others_out():
    """Restarts after a program's faults count against that program: it waits, others do not."""
    with mps.Service() as service:
        waits, last = [], time.monotonic()
        for _ in range(7):
            service.run_ok("fault")
            waits.append(time.monotonic() - last)
            last = time.monotonic()
            began = time.monotonic()
            service.run_ok("process1")
            assert time.monotonic() - began < 2 * mps.SLOW, "others wait, too"
        print("    %s s from each fault to the next" % ", ".join("%.1f" % wait for wait in waits))
        assert waits[-1] > 1.8, "it does not wait"
        assert re.search(r'its program, ".*", has caused GPU faults', service.control_log())
        # Another program, according to its arguments.
        began = time.monotonic()
        service.run_ok("fault", "another")
        assert time.monotonic() - began < 2 * mps.SLOW


def test_crashes_are_reported():
    """If the server fails, the client's error has the reason and the waiting time."""
    with mps.Service() as service:
        for _ in range(6):
            process = service.popen("process1", "--seconds", "60")
            server = service.server()
            service.wait_for_active(process)
            os.kill(server, signal.SIGKILL)
            code, out, err = service.finish(process)
            equal(code, 1, out + err)
        code, out, err = service.run("process1")
        equal(code, 1, out + err)
        contains(out, "(805)")
        assert re.search(r"restarted 5 times within 10 s: wait \d+ s and start the program again. "
                         r"Server \d+ was ended by signal 9", err), err
        time.sleep(float(re.search(r"wait (\d+) s", err)[1]))
        service.run_ok("process1")


def test_arrivals_around_a_fault():
    """While a server ends, a new client is welcomed by it or by the next, and never refused."""
    with mps.Service() as service:
        service.run_ok("process1")
        first = service.server()
        answers = []
        for _ in range(3):
            process = service.popen("fault")
            while process.poll() is None:
                answers.append(session.hello(service))
            equal(service.finish(process)[:2], (0, "fault: ok\n"))
        refused = [answer for answer in answers if answer is not session.WELCOMED]
        assert not refused, "%d of %d were refused: %s" % (len(refused), len(answers), refused[0])
        # The program may have an isolated server by now, which ends with its fault.
        assert first not in service.servers()
        print("    %d arrivals" % len(answers))


# The answer to a client whose connection was closed.
CUT_OFF = "b''"


def test_arrivals_around_sigterm():
    with mps.Service() as service:
        service.run_ok("process1")
        for _ in range(5):
            os.kill(service.server(), signal.SIGTERM)
            answers = [session.hello(service) for _ in range(20)]
            # A client that waits in the server for the end of a dead one tries again (handshake.c).
            if CUT_OFF in answers:
                answers[answers.index(CUT_OFF)] = session.hello(service)
            equal(answers, 20 * [session.WELCOMED])


def fails(service, number, name="process1"):
    """Runs a program that has to fail with this error, while the daemon continues."""
    code, out, err = service.run(name, timeout=40)
    equal(code, 1, out + err)
    contains(out, "(%d)" % number, err)
    equal(service.command("get_server_list").returncode, 0)
    return err


def test_call_that_does_not_come_back():
    """server.log names the client and the call, early."""
    with mps.Service() as service:
        running = service.popen("bench", "sync", "60")
        server = service.server()
        wait_for("the client", lambda: "ACTIVE" in service.server_log())
        # Nearly all calls are launches; others may belong to no client.
        for _ in range(4):
            time.sleep(0.5)
            service.switch.set(1, mps.Switch.STALL, 11000)
            time.sleep(11)
            if "so far" in service.server_log():
                break
        service.wait_for_log("Client {PID: %d, Context ID: 1}: its " % running.pid)
        service.wait_for_log(" has taken more than 5 s so far")
        running.kill()
        service.run_ok("process1")
        equal(service.server_log().count("so far"), 1)
        equal(service.server(), server)


def test_no_device():
    with mps.Service({"SOFTGPU_DEVICES": "0"}) as service:
        fails(service, 100)
        fails(service, 100)


def test_no_libcuda():
    with mps.Service(library="/nonexistent/libcuda.so.1") as service:
        err = fails(service, 805)
        contains(err + service.server_log(), "/nonexistent/libcuda.so.1")


def test_old_driver():
    with mps.Service({"SOFTGPU_DRIVER_VERSION": "11040"}) as service:
        err = fails(service, 805)
        contains(err + service.server_log(), "11.4")


def test_other_driver():
    """What was measured with one driver is said not to be known of another."""
    line = "This server was measured with driver"
    for version, is_said in (("12080", True), ("13000", False), ("14000", True)):
        with mps.Service({"SOFTGPU_DRIVER_VERSION": version}) as service:
            service.run_ok("driver")
            equal(line in service.server_log(), is_said, version)


def test_prohibited():
    with mps.Service({"SOFTGPU_COMPUTE_MODE": "prohibited"}) as service:
        fails(service, 46)
        service.wait_for_log("CUDA_ERROR_DEVICE_UNAVAILABLE")
        contains(service.server_log().lower(), "prohibited")


def test_out_of_memory():
    with mps.Service({"SOFTGPU_MEMORY_MIB": "4"}) as service:
        fails(service, 2)
        service.run_ok("matmul")


def test_driver_call_fails():
    """The nth call of the driver fails: the program gets the error, the service continues."""
    for call in ("cuMemCreate:1=2", "cuMemMap:1=1", "cuLibraryLoadData:1=222",
                 "cuLaunchKernel:1=701", "cuStreamCreate:1=2", "cuMemHostRegister:1=1"):
        with mps.Service({"SOFTGPU_FAIL": call}) as service:
            code, out, err = service.run("process1")
            assert code in (0, 1), "%s: exit code %d: %s%s" % (call, code, out, err)
            assert code == 1 or out == "process1: ok\n", call + out
            service.run_ok("process2")


def test_full_disk():
    """The record has space of its own, so the next daemon adopts a server that started on a full disk."""
    need_root()
    need_mounts()
    service = mps.Service()
    os.makedirs(service.pipe, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", service.pipe], check=True)
    try:
        with service:
            with open(service.pipe + "/fill", "wb", buffering=0) as file:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(4096))
            process = service.popen("process1", "--seconds", "60")
            server = service.server()
            service.wait_for_active(process)
            service.daemon.kill()
            service.daemon.wait()
            service.start()
            wait_for("the server's adoption", lambda: service.servers() == [server])
            os.unlink(service.pipe + "/fill")
            process.kill()
            service.finish(process)
            service.run_ok("process1")
            equal(service.servers(), [server])
    finally:
        subprocess.run(["umount", "-l", service.pipe], check=False)


if __name__ == "__main__":
    harness.main(globals())
