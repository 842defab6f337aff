# SPDX-License-Identifier: Apache-2.0
"""Inference with torch.compile: fused kernels, and with them in CUDA graphs.

Limit: 200 s
"""

import torch
from outputs import done, record
from torch import nn


class Net(nn.Module):
    """Convolutions, attention and what the compiler likes to fuse."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 4, stride=4)
        self.norm = nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.wide = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.first(x)).flatten(2).transpose(1, 2)
        x = x + self.attention(*[self.norm(x)] * 3, need_weights=False)[0]
        x = x + self.wide(x)
        return torch.softmax(self.head(x.mean(1)) * x.std((1, 2))[:, None].tanh(), -1)


def main():
    torch.manual_seed(3)
    net = Net().cuda().eval()
    images = [torch.randn(n, 3, 32, 32, device="cuda") for n in (8, 8, 8, 3, 5)]
    with torch.no_grad():
        plain = [net(x) for x in images]
        compiled = torch.compile(net)
        answers = [compiled(x) for x in images]
        for name, got, want in zip("abcde", answers, plain):
            assert torch.allclose(got, want, atol=1e-3), (got - want).abs().max()
            record("fused " + name, got)
        # The same code, captured at its second run and replayed from then on.
        torch.compiler.reset()
        graphed = torch.compile(net, mode="reduce-overhead", dynamic=False)
        for i in range(6):
            torch.compiler.cudagraph_mark_step_begin()
            got = graphed(images[i % 3]).clone()
            assert torch.allclose(got, plain[i % 3], atol=1e-3), (got - plain[i % 3]).abs().max()
            record("graphed %d" % i, got)
    done()


if __name__ == "__main__":
    main()
