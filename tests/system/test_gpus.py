#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Several GPUs: of one client, and of clients that share memory."""

import re
import time

import harness
import mps
from harness import equal
from test_kill import gives_back, settle
from test_native import native

TWO = {"SOFTGPU_DEVICES": "2"}


def test_peers():
    """Also if the client has them in another order, and beside clients with one GPU each."""
    with mps.Service(TWO) as service:
        service.run_ok("peers")
        server = service.server()
        before = settle(service, server)
        several = [service.popen("peers", env={"CUDA_VISIBLE_DEVICES": which})
                   for which in ("0,1", "1,0", "0,1", "1,0")]
        several += [service.popen("process1", env={"CUDA_VISIBLE_DEVICES": which})
                    for which in "01"]
        for process in several:
            code, out, err = service.finish(process)
            equal(code, 0, out + err)
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_two_processes():
    """A GPU each: each uses memory and events of the other's GPU, even without seeing it."""
    with mps.Service(TWO) as service:
        for _ in range(2):
            service.run_ok("peer_process")
            service.run_ok("peer_process", "alone")
        server = service.server()
        before = settle(service, server)
        several = [service.popen("peer_process", *args) for args in ((), ("alone",)) * 2]
        for process in several:
            code, out, err = service.finish(process)
            equal((code, out), (0, "peer_process: ok\n"), err)
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_one_gpu():
    """A client that sees one GPU gets that number, whatever the server has."""
    with mps.Service(TWO) as service:
        equal(service.run("peers", env={"CUDA_VISIBLE_DEVICES": "1"})[:2],
              (1, "peers: this takes two GPUs\n"))


# Of a machine with two GPUs: the number that a program sees, or the result of cuInit(). The driver
# reads an ordinal as strtoul() does.
VISIBLE = {"0,1": "2", "1": "1", "+0": "1", "0x0": "1", "0;1": "1", "0:0": "1", " 0": "1", "0,": "1",
           "0,7,1": "1", "GPU-": "(100)", "GPU": "(100)", "GPU-536f6674": "(100)", ",0": "(100)",
           "": "(100)", "none": "(100)", "all": "(100)", "0,0": "(101)", "0x0,0": "(101)",
           "GPU-536f6674-4750-5580-8001-000000000001": "1"}


def seen(code, out, err):
    found = re.search(r"^device.count (\d+)$" if code == 0 else r"cuInit.* (\(\d+\))$", out, re.M)
    return found.group(1) if found else out + err


def test_visible():
    """As natively."""
    with mps.Service(TWO) as service:
        for value, count in VISIBLE.items():
            equal(seen(*native("properties", CUDA_VISIBLE_DEVICES=value, **TWO)), count, value)
            equal(seen(*service.run("properties", env={"CUDA_VISIBLE_DEVICES": value})), count,
                  value)


def test_share_of_the_second_gpu():
    """The server sees only the second GPU, such as under Slurm. It is number 0 there."""
    service = mps.Service(TWO)
    service.daemon_env["CUDA_VISIBLE_DEVICES"] = "1"
    with service:
        service.run_ok("sm_share", "--sms", "64", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"})


def killed(name):
    """At many moments; the server has everything back."""
    with mps.Service(TWO) as service:
        service.run_ok(name)
        server = service.server()
        before = settle(service, server)
        dice = harness.dice()
        for i in range(10):
            client = service.popen(name)
            time.sleep(dice.random() * 0.05 * i)
            client.kill()
            client.communicate(timeout=60)
        equal(service.servers(), [server])
        gives_back(service, server, before)
        service.run_ok(name)


def test_killed():
    killed("peers")
    killed("peer_process")


def test_null_streams_at_the_end():
    """A program ends while the NULL streams of both GPUs have work."""
    with mps.Service(TWO) as service:
        service.run_ok("leaver", "null", "20000")
        server = service.server()
        before = settle(service, server)
        several = [service.popen("leaver", "null", "20000") for _ in range(4)]
        for process in several:
            code, out, err = service.finish(process)
            equal((code, out), (0, "leaver: ok\n"), err)
        equal(service.servers(), [server])
        gives_back(service, server, before)


if __name__ == "__main__":
    harness.main(globals())
