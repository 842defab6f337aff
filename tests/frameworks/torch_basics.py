# SPDX-License-Identifier: Apache-2.0
"""What every PyTorch program does: products, training, streams, events, pinned memory."""

import torch
from torch import nn


def products():
    torch.manual_seed(1)
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    torch.backends.cuda.matmul.allow_tf32 = False
    got = (a.cuda() @ b.cuda()).cpu()
    assert torch.allclose(got, a @ b, atol=1e-2), (got - a @ b).abs().max()


def elements():
    x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    assert float((x * 2 + 1).sum()) == float((torch.arange(1 << 20).double() * 2 + 1).sum().float())
    values, order = torch.sort(torch.flip(x, (0,)))
    assert torch.equal(values, x) and int(order[0]) == (1 << 20) - 1
    y = torch.fft.ifft(torch.fft.fft(x[:4096])).real
    assert torch.allclose(y, x[:4096], atol=1e-2)
    m = torch.eye(64, device="cuda") * 3 + 0.01
    assert torch.allclose(torch.linalg.inv(m) @ m, torch.eye(64, device="cuda"), atol=1e-4)


def training():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(),
                        nn.Linear(8 * 64, 4)).cuda()
    x, y = torch.randn(64, 1, 8, 8).cuda(), torch.randint(0, 4, (64,)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 2, losses


def attention():
    q, k, v = (torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    got = nn.functional.scaled_dot_product_attention(q, k, v).float()
    want = torch.softmax(q.float() @ k.float().transpose(-1, -2) / 8, -1) @ v.float()
    assert torch.allclose(got, want, atol=2e-2), (got - want).abs().max()


def streams():
    side = torch.cuda.Stream()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    host = torch.arange(1 << 16, dtype=torch.int32).pin_memory()
    with torch.cuda.stream(side):
        start.record()
        device = host.to("cuda", non_blocking=True)
        back = (device * 3).to("cpu", non_blocking=True)
        end.record()
    side.synchronize()
    assert torch.equal(back, host * 3) and start.elapsed_time(end) > 0


def memory():
    try:
        torch.empty(1 << 42, device="cuda")
        raise AssertionError("four TiB were given")
    except torch.cuda.OutOfMemoryError:
        pass
    assert float(torch.ones(8, device="cuda").sum()) == 8
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total and torch.cuda.memory_stats()["allocated_bytes.all.current"] > 0


def graphs():
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for i in range(5):
        x.fill_(i)
        graph.replay()
        assert float(y.sum()) == (2 * i + 1) * 1000


if __name__ == "__main__":
    for step in (products, elements, training, attention, streams, memory, graphs):
        step()
        print("torch_basics: %s" % step.__name__, flush=True)
    print("torch_basics: ok")
