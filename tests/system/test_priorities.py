#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 60 s
"""CUDA_MPS_CLIENT_PRIORITY: which priority a client gets; and programs work with each."""

import re

import harness
import mps
from harness import contains, equal


def run(service, name, value):
    code, out, err = service.run(name, env={"CUDA_MPS_CLIENT_PRIORITY": value})
    equal(code, 0, out + err)
    contains(out, "%s: ok" % name)
    return err


def told(service):
    """The priorities in the log, of clients that are not normal."""
    return re.findall(r"memory limit all, priority (-?\d+)$", service.server_log(), re.M)


def test_streams():
    """A stream has the priority that its program sets, within the reported range."""
    with mps.Service() as service:
        for value in (None, "", "0", "1", "2"):
            for name in ("stream_attributes", "stream_overlap"):
                equal(run(service, name, value), "")
        equal(told(service), ["1", "1", "2", "2"])


def test_first_client():
    """The first client of a server, which opens the GPU for it, has the same range as later ones."""
    for value, greatest in (("0", -2), ("1", -1), ("2", 0)):
        with mps.Service() as service:
            for _ in range(2):
                out, _ = service.run_ok("stream_attributes", "range",
                                        env={"CUDA_MPS_CLIENT_PRIORITY": value})
                contains(out, "stream_attributes: priorities 0 to %d\n" % greatest)


def test_nonsense():
    """It is reported to the program and to the operator, and ignored."""
    with mps.Service() as service:
        for value in ("3", "-1", "low", "1 "):
            contains(run(service, "stream_attributes", value),
                     "CUDA_MPS_CLIENT_PRIORITY=%s is ignored: the value must be 0 (normal)"
                     % value)
            service.wait_for_log('CUDA_MPS_CLIENT_PRIORITY="%s", which is ignored' % value)
        equal(told(service), [])


if __name__ == "__main__":
    harness.main(globals())
