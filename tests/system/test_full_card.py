#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 600 s
"""Clients whose memory together is larger than the card."""

import harness
from harness import contains, equal
from oversubscribed import LARGE_MIB, PROGRAM, SPARSELY, Worker, is_empty, service


def test_off():
    """Without `oversubscribe', the second client gets CUDA_ERROR_OUT_OF_MEMORY."""
    with service({"MPS_OVERSUBSCRIBE": None}) as (made, small):
        first = Worker(made, LARGE_MIB)
        code, out, err = made.run(PROGRAM, str(LARGE_MIB), *SPARSELY)
        equal(code, 1, out + err)
        contains(out, "CUDA_ERROR_OUT_OF_MEMORY")
        first.ask()
        first.end()
        is_empty(made, small)


if __name__ == "__main__":
    harness.main(globals())
