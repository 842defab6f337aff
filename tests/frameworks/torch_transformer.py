# SPDX-License-Identifier: Apache-2.0
"""A transformer trained for 200 steps to continue sequences: AdamW, bfloat16 by autocast, clipped
gradients, a schedule, and a DataLoader whose workers are forked when CUDA has long begun.

Mode plain:
Mode expandable: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
"""

import torch
from outputs import done, record
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS, BATCH, LENGTH, WORDS, WIDTH = 200, 32, 128, 97, 256


class Sequences(Dataset):
    """Each word follows from the one before, by one of four rules."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        words = [index % WORDS]
        for _ in range(LENGTH):
            words.append((words[-1] * (2 + index % 4) + 1) % WORDS)
        return torch.tensor(words)


class Layer(nn.Module):
    """Attention, then two wide products."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.inside, self.outside = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2)
                   for part in self.inside(self.norms[0](x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.outside(seen.transpose(1, 2).flatten(2))
        return x + self.wide(self.norms[1](x))


class Net(nn.Module):
    """Four layers between words and words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(4)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        places = self.places(torch.arange(words.shape[1], device=words.device))
        return self.head(self.layers(self.words(words) + places))


def train(net):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=STEPS)
    losses, norms = [], []
    for words in DataLoader(Sequences(), BATCH, num_workers=2, pin_memory=True,
                            persistent_workers=True):
        words = words.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            said = net(words[:, :-1])
        loss = nn.functional.cross_entropy(said.float().flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0))
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses, norms


def main():
    torch.manual_seed(2)
    net = Net().cuda()
    losses, norms = train(net)
    assert sum(losses[-20:]) < sum(losses[:20]) / 2, losses
    record("losses", losses)
    record("norms of gradients", norms)
    record("weights", net.layers[2].inside.weight)
    record("words", net.words.weight)
    with torch.no_grad():
        record("answers", net(torch.stack([Sequences()[i][:-1] for i in range(4)]).cuda()))
    done()


if __name__ == "__main__":
    main()
