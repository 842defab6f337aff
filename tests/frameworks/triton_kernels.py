# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton that go through memory once: vector addition, softmax, layer normalisation and its
gradient, random numbers, sums by atomic additions.
"""

import torch
import triton
import triton.language as tl
from outputs import done, record


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    top = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, top / tl.sum(top, axis=0), mask=at < columns)


@triton.jit
def norm_kernel(x, weight, bias, out, means, scales, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    result = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, result, mask=inside)


@triton.jit
def norm_back_kernel(x, weight, slope, means, scales, dx, dweight, dbias, columns, BLOCK: tl.constexpr):
    """The rows' gradients; those of weight and bias are added up by atomic additions."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    mean, scale = tl.load(means + row), tl.load(scales + row)
    normal = (tl.load(x + row * columns + at, mask=inside, other=0.0) - mean) * scale
    given = tl.load(slope + row * columns + at, mask=inside, other=0.0)
    tl.atomic_add(dweight + at, given * normal, mask=inside)
    tl.atomic_add(dbias + at, given, mask=inside)
    weighed = given * tl.load(weight + at, mask=inside, other=0.0)
    along = tl.sum(tl.where(inside, weighed * normal, 0.0), axis=0) / columns
    level = tl.sum(weighed, axis=0) / columns
    tl.store(dx + row * columns + at, (weighed - normal * along - level) * scale, mask=inside)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)


class LayerNorm(torch.autograd.Function):
    """Both kernels, for autograd."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        rows, columns = x.shape
        out = torch.empty_like(x)
        means, scales = (torch.empty(rows, device=x.device) for _ in range(2))
        norm_kernel[(rows,)](x, weight, bias, out, means, scales, columns, 1e-5,
                             BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x, weight, means, scales)
        return out

    @staticmethod
    def backward(ctx, slope):
        x, weight, means, scales = ctx.saved_tensors
        rows, columns = x.shape
        dx = torch.empty_like(x)
        dweight, dbias = torch.zeros_like(weight), torch.zeros_like(weight)
        norm_back_kernel[(rows,)](x, weight, slope.contiguous(), means, scales, dx, dweight, dbias,
                                  columns, BLOCK=triton.next_power_of_2(columns))
        return dx, dweight, dbias


def elements():
    x, y = torch.randn(100001, device="cuda"), torch.randn(100001, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(100001, 1024),)](x, y, out, 100001, BLOCK=1024)
    assert torch.equal(out, x + y)
    record("sum", out)
    dropout_kernel[(triton.cdiv(100001, 1024),)](x, out, 100001, 0.3, 42, BLOCK=1024)
    assert 0.65 < float((out != 0).float().mean()) < 0.75
    record("dropout", out)


def rows():
    x = torch.randn(50, 700, device="cuda")
    out = torch.empty_like(x)
    softmax_kernel[(50,)](x, out, 700, BLOCK=1024)
    assert torch.allclose(out, torch.softmax(x, 1), atol=1e-6)
    record("softmax", out)


def norms():
    x = torch.randn(300, 500, device="cuda", requires_grad=True)
    weight, bias = (torch.randn(500, device="cuda", requires_grad=True) for _ in range(2))
    out = LayerNorm.apply(x, weight, bias)
    slope = torch.randn_like(out)
    got = torch.autograd.grad(out, (x, weight, bias), slope)
    want_out = torch.nn.functional.layer_norm(x, (500,), weight, bias)
    want = torch.autograd.grad(want_out, (x, weight, bias), slope)
    assert torch.allclose(out, want_out, atol=1e-4)
    record("layer norm", out)
    for name, one, other in zip(("dx", "dweight", "dbias"), got, want):
        assert torch.allclose(one, other, atol=1e-3), (name, (one - other).abs().max())
        record("layer norm " + name, one)


def main():
    torch.manual_seed(1)
    for part in (elements, rows, norms):
        part()
    done()


if __name__ == "__main__":
    main()
