# SPDX-License-Identifier: Apache-2.0
"""Answers each line of its standard input by a model of so many MiB, and checks the answer.

    torch_requests.py MIB

The output is that of tests/programs/driver_api/working_set.c with --requests.
"""

import sys
import time

try:
    import torch
except ImportError:
    print("no torch")
    raise SystemExit(0) from None

# A layer has 128 MiB.
WIDTH = 8192
LAYER_MIB = WIDTH * WIDTH * 2 >> 20


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    layers = [torch.randn(WIDTH, WIDTH, dtype=torch.float16, device="cuda") / WIDTH ** 0.5
              for _ in range(max(1, int(sys.argv[1]) // LAYER_MIB))]
    question = torch.randn(1, WIDTH, dtype=torch.float16, device="cuda")

    def answer():
        at = question
        for layer in layers:
            at = torch.tanh(at @ layer)
        return at.cpu()

    with torch.inference_mode():
        wanted = answer()
        print("torch_requests: ready", flush=True)
        for number, _ in enumerate(sys.stdin, 1):
            began = time.monotonic()
            got = answer()
            assert torch.equal(got, wanted), "answer %d is wrong" % number
            print("torch_requests: answer %d after %.1f ms"
                  % (number, 1000 * (time.monotonic() - began)), flush=True)
    print("torch_requests: ok")


if __name__ == "__main__":
    main()
