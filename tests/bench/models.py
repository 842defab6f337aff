# SPDX-License-Identifier: Apache-2.0
"""Work of PyTorch, with the orders and answers of `bench serve': it reads lines `WHAT SECONDS AT'.

A model is made when it is first asked for. WHAT is a row of WORK. The layers are small, so that
the launches bind the speed, except where the name says otherwise.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 256, 4, 4, 256, 1000
# Training waits for the GPU once in so many steps, inference for each answer.
STEPS_A_WAIT = 8
SERVING, TRAINING = 1, STEPS_A_WAIT


def perceptron():
    layers = []
    for _ in range(4):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10)).cuda()


def convolutions():
    layers, channels = [], 3
    for wide in (32, 64, 64, 128):
        layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(),
                   nn.MaxPool2d(2)]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, 10)).cuda()


def residual():
    """ResNet-18, or without torchvision a smaller network."""
    try:
        import torchvision  # pylint: disable=import-outside-toplevel
    except ImportError:
        return convolutions()
    return torchvision.models.resnet18(weights=None).cuda()


class Layer(nn.Module):
    """A layer of a transformer; `past' are the keys and values of earlier tokens."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.three, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, past=None, at=0):
        parts = self.three(self.before(x)).view(x.shape[0], x.shape[1], 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if past is not None:
            past[0][:, :, at:at + 1], past[1][:, :, at:at + 1] = key, value
            key, value = past[0][:, :, :at + 1], past[1][:, :, :at + 1]
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, past=None, at=0):
        x = self.words(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, past[i] if past else None, at)
        return self.out(x)


# ---- each returns a function that does one step


def serve(net, shape):
    """An answer to a request that comes from the host's memory."""
    net.eval()
    request = torch.randn(1, *shape)

    def step():
        with torch.inference_mode():
            net(request.cuda()).cpu()
    return step


def train(net, inputs, n_classes=10):
    """A step of an optimiser, with data on the GPU."""
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-4)
    labels = torch.randint(n_classes, inputs.shape[:1] if inputs.is_floating_point()
                           else inputs.shape, device="cuda").flatten()

    def step():
        optimiser.zero_grad(set_to_none=True)
        functional.cross_entropy(net(inputs).view(len(labels), -1), labels).backward()
        optimiser.step()
    return step


def decode():
    """A token of a text, which the host reads before it asks for the next one."""
    net = Transformer().cuda().eval()
    past = [[torch.zeros(1, HEADS, TOKENS, WIDTH // HEADS, device="cuda") for _ in range(2)]
            for _ in range(LAYERS)]
    state = {"at": 0, "token": 1}

    def step():
        with torch.inference_mode():
            token = torch.tensor([[state["token"]]], device="cuda")
            state["token"] = net(token, past, state["at"]).argmax().item()
        state["at"] = (state["at"] + 1) % TOKENS
    return step


def gemm():
    left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return lambda: torch.mm(left, right)


def upload():
    """A batch of images from pageable memory."""
    images = torch.randn(32, 3, 224, 224)
    return lambda: images.cuda().sum().item()


def tokens_of(count):
    return torch.randint(VOCABULARY, (count, TOKENS), device="cuda")


def pictures(count):
    return torch.randn(count, 3, 64, 64, device="cuda")


# What, what makes its step, and how many steps are enqueued before it waits.
WORK = {
    "mlp": (lambda: train(perceptron(), torch.randn(64, 256, device="cuda")), TRAINING),
    "resnet": (lambda: serve(residual(), (3, 224, 224)), SERVING),
    "decode": (decode, SERVING),
    "gemm": (gemm, TRAINING),
    "upload": (upload, SERVING),
    "serve_mlp": (lambda: serve(perceptron(), (256,)), SERVING),
    "serve_cnn": (lambda: serve(convolutions(), (3, 64, 64)), SERVING),
    "train_cnn": (lambda: train(convolutions(), pictures(64)), TRAINING),
    "train_resnet": (lambda: train(residual(), pictures(32)), TRAINING),
    "train_transformer": (lambda: train(Transformer().cuda(), tokens_of(16), VOCABULARY), TRAINING),
}
MADE = {}


def measure(what, seconds, at):
    """One measurement: the lines of the answer."""
    make, n_steps = WORK[what]
    if what not in MADE:
        MADE[what] = make()
    step, times = MADE[what], []
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    time.sleep(max(0, at - time.time()))
    began = before = time.monotonic()
    while not times or before - began < seconds:
        for _ in range(n_steps):
            step()
        torch.cuda.synchronize()
        after = time.monotonic()
        times.append(after - before)
        before = after
    speed = len(times) * n_steps / (before - began)
    times.sort()
    return "us=%.3f\np99_us=%.3f\nper_s=%.3f\ndone" % (
        times[len(times) // 2] * 1e6 / n_steps, times[len(times) * 99 // 100] * 1e6 / n_steps,
        speed)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    began = time.monotonic()
    torch.ones(1).cuda().item()
    print("start_ms=%.3f" % ((time.monotonic() - began) * 1e3), flush=True)
    for line in sys.stdin:
        what, seconds, at = line.split()
        print(measure(what, float(seconds), float(at)), flush=True)


if __name__ == "__main__":
    main()
