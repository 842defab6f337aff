# SPDX-License-Identifier: Apache-2.0
"""Streams, events and their times, pinned memory, and threads that compute and differentiate."""

import threading
import time

import torch
from outputs import done, note, record
from torch import nn

# A clock of the GPU runs at 0.3 to 2 GHz.
CYCLES_100_MS = 200_000_000


def times():
    start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    torch.cuda.synchronize()
    began = time.monotonic()
    start.record()
    torch.cuda._sleep(CYCLES_100_MS)
    middle.record()
    torch.cuda._sleep(CYCLES_100_MS)
    end.record()
    assert not end.query(), "two sleeps were over at once"
    end.synchronize()
    wall = 1000 * (time.monotonic() - began)
    first, whole = start.elapsed_time(middle), start.elapsed_time(end)
    assert end.query() and 50 < first < whole <= wall + 1, (first, whole, wall)
    note("ms of two sleeps", round(whole, 1))


def orders():
    """Work in two streams, ordered by events alone; a stream that only waits ends last."""
    low, high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-1)
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for i in range(20):
        event = torch.cuda.Event()
        with torch.cuda.stream(low):
            if i % 5 == 0:
                torch.cuda._sleep(1_000_000)
            x.add_(i)
            event.record()
        with torch.cuda.stream(high):
            high.wait_event(event)
            x.mul_(1.01)
        low.wait_stream(high)
    torch.cuda.current_stream().wait_stream(low)
    record("by turns", x)
    blocking = torch.cuda.Event(blocking=True)
    blocking.record()
    blocking.synchronize()
    assert low.query() and high.query()


def lifetimes():
    """Memory that another stream still reads is not given away."""
    side = torch.cuda.Stream()
    sums = []
    for i in range(30):
        x = torch.full((1 << 18,), float(i), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000)
            sums.append(x.sum())
        x.record_stream(side)
        del x
        torch.full((1 << 18,), -1.0, device="cuda")
    side.synchronize()
    assert [float(s) for s in sums] == [float(i << 18) for i in range(30)], sums
    record("sums", sums)


def pinned():
    host = torch.arange(1 << 22, dtype=torch.int32).pin_memory()
    back = torch.empty(1 << 22, dtype=torch.int32, pin_memory=True)
    assert host.is_pinned() and back.is_pinned() and not torch.empty(10).is_pinned()
    assert host[1000:].is_pinned()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(8):
            device = host.to("cuda", non_blocking=True)
            back.copy_(device * (i + 1), non_blocking=True)
    side.synchronize()
    assert torch.equal(back, host * 8)
    record("there and back", back)
    shared = torch.arange(1 << 20, dtype=torch.int64).share_memory_()
    runtime = torch.cuda.cudart()
    assert int(runtime.cudaHostRegister(shared.data_ptr(), shared.numel() * 8, 0)) == 0
    assert shared.is_pinned()
    got = shared.to("cuda", non_blocking=True) * 3
    torch.cuda.synchronize()
    assert torch.equal(got.cpu(), shared * 3)
    assert int(runtime.cudaHostUnregister(shared.data_ptr())) == 0
    plain = torch.randn(1 << 20)
    assert torch.equal(plain.cuda(non_blocking=True).cpu(), plain)


def learn(seed, out):
    """A small training of its own, in a stream of this thread's."""
    with torch.cuda.stream(torch.cuda.Stream()):
        generator = torch.Generator("cuda")
        generator.manual_seed(seed)
        x = torch.randn(256, 32, device="cuda", generator=generator)
        weight = torch.randn(32, 32, device="cuda", generator=generator) / 6
        weight.requires_grad_()
        for _ in range(50):
            loss = (torch.tanh(x @ weight) - x.roll(1, 1).tanh()).square().mean()
            loss.backward()
            with torch.no_grad():
                weight -= weight.grad
                weight.grad = None
        torch.cuda.current_stream().synchronize()
        out[seed] = weight.detach()


def threads():
    out = {}
    learners = [threading.Thread(target=learn, args=(seed, out)) for seed in range(6)]
    for learner in learners:
        learner.start()
    for learner in learners:
        learner.join()
    for seed in range(6):
        record("thread %d" % seed, out[seed])
    alone = {}
    learn(3, alone)
    assert torch.allclose(alone[3], out[3], atol=1e-4)


def one_graph():
    """Threads go back through parts of one network, whose gradients add up."""
    torch.manual_seed(1)
    net = nn.Linear(64, 64).cuda()
    x = [torch.randn(128, 64, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    lock = threading.Lock()

    def back(i):
        grads = torch.autograd.grad(net(x[i]).square().sum(), net.weight)
        torch.cuda.current_stream().synchronize()
        with lock:
            got[i] = grads[0]

    got = {}
    workers = [threading.Thread(target=back, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    record("gradients", [got[i] for i in range(4)])


def main():
    for part in (times, orders, lifetimes, pinned, threads, one_graph):
        part()
    done()


if __name__ == "__main__":
    main()
