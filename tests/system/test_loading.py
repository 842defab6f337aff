#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When code is loaded: at its first use, or with its image if the program requests that."""

import harness
import mps
from harness import equal
from test_kill import gives_back, settle

EAGER = {"CUDA_MODULE_LOADING": "EAGER"}
LAZY = {"CUDA_MODULE_LOADING": "LAZY"}
SEVERAL = ("process1", "symbols", "separate", "graph_capture", "kernels", "link",
           "thrust_algorithms", "print", "managed")


def modules_while(service, env):
    """What the driver has loaded for a client that has used nothing yet."""
    process = service.popen("eager", "--stay", env=env)
    equal(process.stdout.readline(), "eager: loaded\n")
    n = service.stats(service.server())["modules"] - mps.OWN_LIBRARIES
    process.kill()
    service.finish(process)
    return n


def test_lazy_loading():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        equal(modules_while(service, LAZY), 0)
        gives_back(service, server, before)
        equal(modules_while(service, EAGER), 1)
        gives_back(service, server, before)
        equal(modules_while(service, {}), 0)


def test_eager_loading():
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        before = settle(service, server)
        for name in SEVERAL:
            service.run_ok(name, env=EAGER)
        gives_back(service, server, before)
        equal(service.servers(), [server])


if __name__ == "__main__":
    harness.main(globals())
