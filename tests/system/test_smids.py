#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which SMs kernels run on: the program smids on the software GPU, natively and as clients."""

import os
import subprocess

import harness
import mps
from harness import equal

WAYS = ("plain", "stream", "burst", "graph", "captured", "cooperative")


def said(sms):
    """The output of smids if each way uses those SMs."""
    return "".join("%s: %s\n" % (way, sms) for way in WAYS)


def native(*args, **settings):
    env = dict(mps.clean_environment(), LD_LIBRARY_PATH=os.path.dirname(mps.SOFTGPU), **settings)
    env["LD_PRELOAD"] = ":".join(mps.sanitizer_preload())
    done = subprocess.run([mps.program("smids"), *args], env=env, capture_output=True, text=True,
                          timeout=60 * mps.SLOW, check=False)
    return done.returncode, done.stdout, done.stderr


def test_natively():
    equal(native(), (0, said("0-131") + "smids: ok\n", ""))
    equal(native(SOFTGPU_SMS="1"), (0, said("0") + "smids: ok\n", ""))
    equal(native("--sms", "20", "--rounds", "2", SOFTGPU_SMS="20"),
          (0, said("0-19") + "smids: ok\n", ""))


def test_too_many():
    """The program does detect kernels on forbidden SMs."""
    code, out, _ = native("--sms", "19", SOFTGPU_SMS="20")
    equal((code, out.splitlines()[-1]), (1, "smids: plain: on 20 SMs of 20, limit 19"))


def test_clients_at_once():
    with mps.Service({"SOFTGPU_SMS": "20"}) as service:
        go = os.path.join(service.folder, "go")
        clients = [service.popen("smids", "--wait", go) for _ in range(3)]
        for client in clients:
            equal(client.stdout.readline(), "ready\n")
        with open(go, "w", encoding="ascii"):
            pass
        for client in clients:
            equal([client.stdout.readline() for _ in range(len(WAYS) + 1)],
                  (said("0-19") + "done\n").splitlines(True))
        os.unlink(go)
        for client in clients:
            equal(service.finish(client), (0, "smids: ok\n", ""))


if __name__ == "__main__":
    harness.main(globals())
