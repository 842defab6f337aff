# SPDX-License-Identifier: Apache-2.0
"""A convolutional network trained for 200 steps: AdamW, float16 by autocast and GradScaler, and a
DataLoader that pins memory, whose workers are forked when CUDA has long begun.

Mode plain:
Mode deterministic: DETERMINISTIC=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
"""

import os

import numpy
import torch
from outputs import done, record
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS, BATCH = 200, 64


class Images(Dataset):
    """Noise, with three columns brighter that tell which of ten kinds it is."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        kind = index % 10
        image = numpy.random.default_rng(index).standard_normal((3, 32, 32), dtype=numpy.float32)
        image[:, :, 3 * kind:3 * kind + 3] += 0.7
        return torch.from_numpy(image), kind


class Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inside, out):
        super().__init__()
        self.first = nn.Conv2d(inside, out, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.short = nn.Conv2d(inside, out, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(out) for _ in range(3))

    def forward(self, x):
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.norms[2](self.short(x)))


class Net(nn.Module):
    """Three blocks and a layer that says what it is."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 32), Block(32, 64), Block(64, 128))
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(nn.functional.dropout(self.blocks(x).mean((2, 3)), 0.1, self.training))


def train(net):
    loader = DataLoader(Images(), BATCH, num_workers=2, pin_memory=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cuda")
    losses = []
    for images, kinds in loader:
        images, kinds = (x.to("cuda", non_blocking=True) for x in (images, kinds))
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(images), kinds)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses), scaler.get_scale()


def main():
    if os.environ.get("DETERMINISTIC"):
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    torch.manual_seed(1)
    net = Net().cuda().to(memory_format=torch.channels_last)
    torch.cuda.synchronize()
    losses, scale = train(net)
    assert len(losses) == STEPS
    assert losses[-20:].mean() < losses[:20].mean() / 3, losses
    record("losses", losses)
    record("scale", scale)
    record("weights", net.blocks[1].second.weight)
    record("statistics", net.blocks[2].norms[0].running_var)
    net.eval()
    with torch.no_grad():
        images = torch.stack([Images()[i][0] for i in range(100)]).cuda()
        answers = net(images)
    record("answers", answers)
    right = (answers.argmax(1).cpu() == torch.arange(100) % 10).sum()
    assert right >= 90, right
    done()


if __name__ == "__main__":
    main()
