# SPDX-License-Identifier: Apache-2.0
"""Serves ResNet-18, an image a request, for --seconds: each answer is that to the same image at the
beginning, bit by bit, and the memory stays as it was after the first requests.

Copies: 8
GPU memory: 2 GiB
"""

import argparse
import array
import re
import time

import torch
import torchvision
from outputs import done, note, record

IMAGES = 16
WARM_UP = 200
# Of the process: PyTorch's threads touch a little more of their stacks and heaps with time.
GROWTH_MIB = 16


def resident_mib():
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M).group(1)) / 1024


def held():
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = torchvision.models.resnet18(weights=None).eval().cuda()
    images = torch.randn(IMAGES, 1, 3, 224, 224)
    times = array.array("d", bytes(8 * 1_000_000))
    with torch.inference_mode():
        def serve(i):
            return net(images[i % IMAGES].cuda()).cpu()
        wanted = [serve(i) for i in range(IMAGES)]
        for i in range(WARM_UP):
            assert torch.equal(serve(i), wanted[i % IMAGES]), "request %d of the warm-up" % i
        before, resident = held(), resident_mib()
        began, n = time.monotonic(), 0
        while time.monotonic() - began < args.seconds:
            asked = time.monotonic()
            answer = serve(n)
            times[n % len(times)] = time.monotonic() - asked
            assert torch.equal(answer, wanted[n % IMAGES]), "request %d" % n
            n += 1
    took = time.monotonic() - began
    after, grown = held(), resident_mib() - resident
    assert after == before, "GPU memory: %s, then %s" % (before, after)
    assert grown < GROWTH_MIB, "%.1f MiB more memory" % grown
    record("answers", torch.cat(wanted))
    times = sorted(times[:min(n, len(times))])
    note("requests/s", round(n / took))
    note("median ms", round(1000 * times[len(times) // 2], 2))
    note("p99 ms", round(1000 * times[len(times) * 99 // 100], 2))
    note("MiB grown", round(grown, 1))
    done()


if __name__ == "__main__":
    main()
