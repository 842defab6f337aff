# SPDX-License-Identifier: Apache-2.0
"""Work of PyTorch, with the orders and answers of `bench serve': it reads lines
`WHAT SECONDS AT [SETTLE WORK PAUSE]'.

A model is made when it is first asked for. WHAT is a row of WORK. The layers of the part `pytorch'
are small, so that the launches bind the speed, except where the name says otherwise.
"""

import collections
import sys
import time

import torch
from resnet import CLASSES, resnet18, resnet50
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 256, 4, 4, 256, 1000
# Training waits for the GPU once in so many steps, inference for each answer.
STEPS_A_WAIT = 8
SERVING, TRAINING = 1, STEPS_A_WAIT
GIB = 1 << 30


def perceptron():
    layers = []
    for _ in range(4):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10)).cuda()


class Layer(nn.Module):
    """A layer of a transformer; `past' are the keys and values of earlier tokens."""

    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, past=None, at=0):
        parts = self.three(self.before(x)).view(x.shape[0], x.shape[1], 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if past is not None:
            past[0][:, :, at:at + 1], past[1][:, :, at:at + 1] = key, value
            key, value = past[0][:, :, :at + 1], past[1][:, :, :at + 1]
        seen = functional.scaled_dot_product_attention(
            query, key, value, is_causal=self.is_causal and past is None)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS, layers=LAYERS, is_causal=True):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width, heads, is_causal) for _ in range(layers))
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, tokens, past=None, at=0):
        x = self.words(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, past[i] if past else None, at)
        return self.out(x)


# ---- each returns a function that does one step


def serve(net, request):
    """An answer to a request that comes from the host's memory."""
    net.eval()

    def step():
        with torch.inference_mode():
            net(request.cuda()).cpu()
    return step


def train(net, inputs, n_classes, half=None):
    """A step of an optimiser, with data on the GPU; products and convolutions in type `half'."""
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-4)
    labels = torch.randint(n_classes, inputs.shape[:1] if inputs.is_floating_point()
                           else inputs.shape, device="cuda").flatten()

    def step():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=half, enabled=half is not None):
            outputs = net(inputs).view(len(labels), -1)
        functional.cross_entropy(outputs.float(), labels).backward()
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


def encoder():
    """Twelve layers of width 768 over 128 tokens, as of BERT."""
    net = Transformer(768, 12, 12, is_causal=False).cuda().half()
    return serve(net, torch.randint(VOCABULARY, (1, 128)))


def products(size, dtype):
    left, right = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    into = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=into)


def upload():
    """A batch of images from pageable memory."""
    images = torch.randn(32, 3, 224, 224)
    return lambda: images.cuda().sum().item()


def train_resnet50():
    net = resnet50().cuda().to(memory_format=torch.channels_last)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return train(net, images, CLASSES, torch.bfloat16)


def train_transformer():
    net = Transformer(2048, 16, 4).cuda()
    return train(net, torch.randint(VOCABULARY, (8, 512), device="cuda"), VOCABULARY,
                 torch.bfloat16)


def elementwise():
    values = torch.ones(GIB // 4, device="cuda")
    return lambda: values.mul_(1.0)


def prefill():
    """Attention over a prompt of 8192 tokens."""
    three = [torch.randn(1, 32, 8192, 128, device="cuda", dtype=torch.float16) for _ in range(3)]

    def step():
        with torch.inference_mode():
            functional.scaled_dot_product_attention(*three, is_causal=True)
    return step


def largest_convolution():
    """Of a step of train_resnet50: gradients of the first convolution in a block."""
    net = nn.Conv2d(64, 256, 1, bias=False).cuda().to(
        memory_format=torch.channels_last, dtype=torch.bfloat16)
    images = torch.randn(64, 64, 56, 56, device="cuda", dtype=torch.bfloat16)
    images = images.to(memory_format=torch.channels_last)
    return lambda: net(images)


def largest_layer():
    """Of a step of train_transformer."""
    net = nn.Linear(2048, 8192).cuda().to(torch.bfloat16)
    x = torch.randn(8 * 512, 2048, device="cuda", dtype=torch.bfloat16)
    return lambda: net(x)


class Ahead:
    """Waits for the step before the last one, so that the GPU always has work."""

    def __init__(self):
        self.events = collections.deque()

    def __call__(self):
        event = torch.cuda.Event()
        event.record()
        self.events.append(event)
        if len(self.events) > 1:
            self.events.popleft().synchronize()


# What, what makes its step, and how many steps are enqueued before it waits; AHEAD: it waits for
# each step when it has enqueued the next one.
AHEAD = 0
WORK = {
    "mlp": (lambda: train(perceptron(), torch.randn(64, 256, device="cuda"), 10), TRAINING),
    "resnet": (lambda: serve(resnet18().cuda(), torch.randn(1, 3, 224, 224)), SERVING),
    "decode": (decode, SERVING),
    "encoder": (encoder, SERVING),
    "gemm": (lambda: products(4096, torch.bfloat16), TRAINING),
    "upload": (upload, SERVING),
    "products4096": (lambda: products(4096, torch.float16), AHEAD),
    "products8192": (lambda: products(8192, torch.float16), AHEAD),
    "train_resnet50": (train_resnet50, AHEAD),
    "train_transformer": (train_transformer, AHEAD),
    "elementwise": (elementwise, AHEAD),
    "prefill": (prefill, AHEAD),
}
# The longest kernel of such work, alone: the work itself if it is one kernel.
LONGEST = {"train_resnet50": largest_convolution, "train_transformer": largest_layer}
LONGEST_OF = "longest_"
MADE = {}


def made(what):
    """(step, steps before it waits) of that work."""
    if what not in MADE:
        if what.startswith(LONGEST_OF):
            work = what[len(LONGEST_OF):]
            MADE[what] = (LONGEST[work]() if work in LONGEST else made(work)[0]), SERVING
        else:
            MADE[what] = WORK[what][0](), WORK[what][1]
    return MADE[what]


def answer(times, firsts, n_steps, took_s):
    times.sort()
    firsts.sort()
    first = "first_us=%.3f\n" % (firsts[len(firsts) // 2] * 1e6) if firsts else ""
    return "us=%.3f\np99_us=%.3f\n%sper_s=%.3f\ndone" % (
        times[len(times) // 2] * 1e6 / n_steps, times[len(times) * 99 // 100] * 1e6 / n_steps,
        first, len(times) * n_steps / took_s)


def measure(what, seconds, at, settle=0.0, work=0.0, pause=0.0):
    """One measurement: the lines of the answer."""
    step, n_steps = made(what)
    wait = torch.cuda.synchronize if n_steps else Ahead()
    n_steps, times, firsts = n_steps or 1, [], []
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    time.sleep(max(0, at - time.time()))
    resumed = before = time.monotonic()
    began, is_first = before + settle, False
    while not times or before - began < seconds:
        for _ in range(n_steps):
            step()
        wait()
        after = time.monotonic()
        if before >= began:
            # Rounds count from the first one that began in time.
            began = began if times else before
            times.append(after - before)
            firsts += [after - before] * is_first
        before, is_first = after, pause > 0 and after - resumed >= work
        if is_first:
            time.sleep(pause)
            resumed = before = time.monotonic()
    torch.cuda.synchronize()
    return answer(times, firsts, n_steps, before - began)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    began = time.monotonic()
    torch.ones(1).cuda().item()
    print("start_ms=%.3f" % ((time.monotonic() - began) * 1e3), flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        print(measure(what, *map(float, numbers)), flush=True)


if __name__ == "__main__":
    main()
