# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of PyTorch: captured work, whole training steps, make_graphed_callables, shared pools,
random numbers that go on from replay to replay, forks to other streams.
"""

import torch
from outputs import done, record
from torch import nn


def warm_up(work):
    """What a capture must find made: three runs on a stream beside."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)


def elements():
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
        z = torch.sort(y, descending=True)[0].cumsum(0)
    for i in range(5):
        x.fill_(i)
        graph.replay()
        assert float(y.sum()) == (2 * i + 1) * 1000
    record("elements", z)


def a_step():
    """Forward, backward and optimizer as one graph, fed through the same tensors."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
                        nn.Linear(16 * 256, 10)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)
    data = torch.randn(20, 32, 3, 16, 16, device="cuda")
    kinds = torch.randint(0, 10, (20, 32), device="cuda")
    x, y = data[0].clone(), kinds[0].clone()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    warm_up(step)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for i in range(100):
        x.copy_(data[i % 20])
        y.copy_(kinds[i % 20])
        graph.replay()
        losses.append(loss.clone())
    assert sum(losses[-20:]) < sum(losses[:20]), losses
    record("losses of a captured step", losses)
    record("its weights", net[4].weight)


def callables():
    torch.manual_seed(2)
    first = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
    second = nn.Sequential(nn.Linear(64, 128), nn.Dropout(0.2), nn.Linear(128, 1)).cuda()
    x = torch.randn(128, 64, device="cuda")
    samples = x.clone(), x.clone().requires_grad_()
    first, second = torch.cuda.make_graphed_callables(
        (first, second), ((samples[0],), (samples[1],)))
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=1e-2)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = (second(first(x)) - x.mean(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    record("losses of graphed callables", losses)


def numbers():
    torch.manual_seed(3)
    graph = torch.cuda.CUDAGraph()
    out = torch.empty(1000, device="cuda")
    with torch.cuda.graph(graph):
        out.copy_(torch.randn(1000, device="cuda"))
    drawn = []
    for _ in range(4):
        graph.replay()
        drawn.append(out.clone())
    assert not torch.equal(drawn[0], drawn[1])
    record("random numbers of replays", drawn)


def pools():
    """Two graphs with one pool, replayed in their order; then one is freed."""
    x = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = x.sqrt() + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = (y @ y.reshape(-1, 1)).sum() + y.sin()
    for _ in range(3):
        x.add_(1)
        first.replay()
        second.replay()
    record("two graphs", z)
    kept = z.clone()
    first.reset()
    second.replay()
    assert torch.equal(z, kept)


def forks():
    """Two streams within a capture; three products may run at once."""
    torch.manual_seed(4)
    x = torch.randn(512, 512, device="cuda")
    side = [torch.cuda.Stream() for _ in range(2)]

    def work():
        here = torch.cuda.current_stream()
        parts = [x @ x]
        for i, stream in enumerate(side):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                parts.append((x * (i + 2)) @ x)
        for stream in side:
            here.wait_stream(stream)
        return torch.stack(parts).sum(0)

    warm_up(work)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = work()
    # Three replays behind each other on another stream, then one on this.
    side[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side[0]):
        for _ in range(3):
            graph.replay()
    torch.cuda.current_stream().wait_stream(side[0])
    graph.replay()
    record("forked", y)
    assert torch.allclose(y, 6 * (x @ x), rtol=1e-3, atol=1e-1)


def refusals():
    """A wait in a capture breaks it, and nothing else."""
    x = torch.ones(10, device="cuda")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            (x + 1).sum().item()
        raise SystemExit("a wait was captured")
    except RuntimeError as error:
        record("a wait in a capture", str(error).splitlines()[0])
    assert float((x + 1).sum()) == 20


def main():
    for part in (elements, a_step, callables, numbers, pools, forks, refusals):
        part()
    done()


if __name__ == "__main__":
    main()
