# SPDX-License-Identifier: Apache-2.0
"""PyTorch's allocator: memory that runs out and is there again, its statistics, and memory that
comes and goes in all sizes without being mixed up.

Mode plain:
Mode expandable: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
Mode pool: PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
"""

import gc
import os
import random

import torch
from outputs import done, record
from torch import nn


def allocated():
    torch.cuda.synchronize()
    return torch.cuda.memory_stats()["allocated_bytes.all.current"]


def refused(size):
    """So many bytes are not to be had."""
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return True
    return False


def runs_out():
    before = allocated()
    if "expandable" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        # A segment that grows piece by piece would take all there is first, from its neighbours too.
        torch.cuda.set_per_process_memory_fraction(0.1)
    assert refused(4 << 40)
    x = torch.ones(1 << 20, device="cuda")
    assert float(x.sum()) == 1 << 20
    assert refused(1 << 50) and refused(4 << 40)
    del x
    assert allocated() == before
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory


def batches():
    """A batch that does not fit is halved until it does, as users do."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1)).cuda()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(3e9 / total)
    size, tries = 1 << 20, 0
    while True:
        try:
            x = torch.ones(size, 1024, device="cuda")
            net(x).sum().backward()
            break
        except torch.cuda.OutOfMemoryError:
            x = None
            gc.collect()
            torch.cuda.empty_cache()
            size, tries = size // 2, tries + 1
    assert tries >= 3, tries
    torch.cuda.set_per_process_memory_fraction(1.0)
    record("batch that fits", size)
    record("its gradient", net[2].bias.grad)


def statistics():
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    reserved = torch.cuda.memory_reserved()
    held = [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (1, 3, 30, 300)]
    during = torch.cuda.memory_stats()
    grown = during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
    assert 334 << 20 <= grown < 340 << 20, grown
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated() >= 334 << 20
    free = torch.cuda.mem_get_info()[0]
    del held
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert after["allocated_bytes.all.peak"] == during["allocated_bytes.all.current"]
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() <= reserved, "the cache was not emptied"
    record("bytes allocated", grown)
    assert torch.cuda.memory_summary() and free >= 0
    if not os.environ.get("PYTORCH_CUDA_ALLOC_CONF"):
        pieces = torch.cuda.memory_snapshot()
        assert sum(s["total_size"] for s in pieces) == torch.cuda.memory_reserved()


def mixed():
    """Tensors come and go, each full of its own number; none sees another's."""
    dice = random.Random(2)
    held, sums = {}, []
    side = torch.cuda.Stream()
    for i in range(1500):
        if held and (dice.random() < 0.45 or len(held) > 100):
            number = dice.choice(list(held))
            tensor = held.pop(number)
            assert bool((tensor == number).all()), number
            sums.append(tensor.sum(dtype=torch.int64))
        else:
            size = int(2 ** dice.uniform(0, 22))
            with torch.cuda.stream(side if dice.random() < 0.2 else torch.cuda.current_stream()):
                held[i] = torch.full((size,), i, dtype=torch.int32, device="cuda")
            torch.cuda.current_stream().wait_stream(side)
            held[i].record_stream(torch.cuda.current_stream())
        if i % 400 == 399:
            torch.cuda.empty_cache()
    record("sums", torch.stack(sums))


def main():
    torch.zeros(1, device="cuda")
    for part in (runs_out, batches, statistics, mixed):
        part()
    done()


if __name__ == "__main__":
    main()
