#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands in control.log and server.log, and that it is all there."""

import re

import harness
import mps
from harness import contains, equal

# Lines of NVIDIA's daemon, driver 580.159, at a start, a client's run and quit, without what
# differs from run to run. "=": ours are the same; "-": NVIDIA's alone; "+": ours alone.
CONTROL = """
= Starting control daemon using socket PATH
= To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=PATH
= CUDA MPS Control binary version: N
= Accepting connection...
- User did not send valid credentials
+ Cmd:get_server_list
= Accepting connection...
= NEW CLIENT N from user N: Server is not ready, push client to pending list
= Starting new server N for user N
= Accepting connection...
= NEW SERVER N: Ready
- Accepting connection...
- NEW CLIENT N from user N: Server already exists
+ Accepting connection...
= Cmd:quit
= Try shutting down server N, backoff is disabled
= Server N exited with status N
= Exit with status N
"""

SERVER = """
= Startup
= Connecting to control daemon on socket: PATH
= Initializing server process
- Creating server context on device N (NAME)
- Created anonymous shared memory region mps.shm.N.N
= CUDA MPS Server for Linux/Unix. Binary version: N
- Display Driver version: N
+ CUDA driver: PATH, CUDA N.N
= Active Threads Percentage set to N.N
= Server Priority set to N
= Server has started
= Received new client request for {PID: N, Context ID: N}
+ Host memory for clients: N MiB each, N MiB in all
= Client {PID: N, Context ID: N} connected
= Creating worker thread for client {PID: N, Context ID: N}
+ Creating server context on device N (NAME)
= Device NAME (uuid GPU) is associated
= Status of client {PID: N, Context ID: N} is ACTIVE
- Server failed to recevie command with status N, assuming client {PID: N, Context ID: N} exit
= Client {PID: N, Context ID: N} exiting. Number of active client contexts is N.
= Client process N disconnected
= Server has been notified to shutdown
= Waiting for current clients to finish
+ Destroy server context on device N (NAME)
= Exiting
"""


def shape(line):
    """A line without its stamp and without what another run has otherwise."""
    text = re.sub(r"^\[[^]]*\] ", "", line)
    for pattern, word in ((r"GPU-[0-9a-f-]{36}", "GPU"), (r"(?<=[ =])/[^ ,]+", "PATH"),
                          (r"Software GPU", "NAME"), (r"-?\d+", "N")):
        text = re.sub(pattern, word, text)
    return text


def check_shapes(log, wanted):
    equal([shape(line) for line in log.splitlines()],
          [line[2:] for line in wanted.strip().splitlines() if line[0] in "=+"])


def test_shapes():
    with mps.Service() as service:
        # With a driver's module loaded its version is told as well.
        service.run_ok("process1")
        service.wait_for_log("disconnected")
        service.command("quit")
        harness.wait_for("the end", lambda: "Exit with" in service.control_log())
        check_shapes(service.control_log(), CONTROL)
        check_shapes(re.sub(r".*\] Display Driver version.*\n", "", service.server_log()), SERVER)


if __name__ == "__main__":
    harness.main(globals())
