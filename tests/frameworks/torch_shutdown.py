# SPDX-License-Identifier: Apache-2.0
"""The interpreter ends while all is alive: tensors, streams, events, a graph, pinned memory, workers
of a loader, work in the queue of the GPU, and functions that use it at exit.
"""

import atexit
import os
import sys

import torch
from outputs import done, record
from torch.utils.data import DataLoader, TensorDataset

HELD = []


class Last:
    """Waits for the GPU when the interpreter takes its modules apart."""

    def __init__(self):
        self.event = torch.cuda.Event()
        self.event.record()

    def __del__(self, leave=os._exit):
        try:
            self.event.synchronize()
        except Exception:  # which Python would only mention
            leave(3)


def at_exit():
    """Tensors work until the very end."""
    try:
        right = float((HELD[0] + 1).sum()) == 3000
    except Exception as error:  # which Python would only mention
        print(error, file=sys.stderr, flush=True)
        right = False
    if not right:
        os._exit(2)


def main():
    atexit.register(at_exit)
    x = torch.full((1000,), 2.0, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(4)]
    HELD.extend([x, Last(), torch.arange(1 << 20).pin_memory(), *streams])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 3
    graph.replay()
    loader = iter(DataLoader(TensorDataset(torch.arange(1000.0)), 10, num_workers=2, pin_memory=True))
    first = next(loader)[0].cuda(non_blocking=True)
    record("first batch", first)
    record("graph", y)
    big = torch.randn(2048, 2048, device="cuda", requires_grad=True)
    for stream in streams:
        with torch.cuda.stream(stream):
            z = big
            for _ in range(20):
                z = (z @ big) / 50
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            HELD.extend([z.sum(), event])
    HELD.extend([graph, y, loader, big, first])
    done()


if __name__ == "__main__":
    main()
