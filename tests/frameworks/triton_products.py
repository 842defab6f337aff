# SPDX-License-Identifier: Apache-2.0
"""Triton's matrix units and its loads by tensor descriptors (TMA): autotuned products, flash attention,
a descriptor made in the kernel and one made by the host.
"""

import torch
import triton
import triton.language as tl
from outputs import done, record
from triton.tools.tensor_descriptor import TensorDescriptor

CONFIGS = [triton.Config({"ROWS": rows, "COLUMNS": columns, "DEPTH": 64, "GROUP": 8}, num_warps=warps,
                         num_stages=stages)
           for rows, columns, warps, stages in ((64, 64, 4, 3), (128, 64, 4, 3), (128, 128, 8, 3),
                                                (64, 128, 4, 4))]


@triton.autotune(CONFIGS, key=["m", "n", "k"])
@triton.jit
def product_kernel(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
                   GROUP: tl.constexpr):
    """c = a b, blocks taken in groups of rows so that the second cache serves them."""
    block = tl.program_id(0)
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    first = block // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    row = (first + block % height) * ROWS + tl.arange(0, ROWS)
    column = block % (GROUP * across) // height * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, k, DEPTH):
        left = tl.load(a + row[:, None] * k + (start + inner)[None, :],
                       mask=(row[:, None] < m) & (start + inner < k)[None, :], other=0.0)
        right = tl.load(b + (start + inner)[:, None] * n + column[None, :],
                        mask=(start + inner < k)[:, None] & (column[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total,
             mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def described_kernel(a, b, c, m, n, k, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    """The same by descriptors that the kernel makes, in memory that Triton asks its user for."""
    left = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BLOCK, DEPTH])
    right = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[DEPTH, BLOCK])
    out = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, DEPTH):
        total = tl.dot(left.load([row, start]), right.load([start, column]), total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def turn_kernel(source, out, BLOCK: tl.constexpr):
    """A block of `source', doubled and turned, by descriptors that the host has made."""
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([column, row], (source.load([row, column]) * 2).T)


@triton.jit
def attention_kernel(q, k, v, out, scale, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Flash attention, causal: a block of queries goes along the keys before it."""
    first, base = tl.program_id(0) * BLOCK, tl.program_id(1) * length * WIDTH
    row, lane = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    query = tl.load(q + base + row[:, None] * WIDTH + lane[None, :])
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, first + BLOCK, BLOCK):
        at = start + tl.arange(0, BLOCK)
        key = tl.load(k + base + at[None, :] * WIDTH + lane[:, None])
        seen = tl.where(row[:, None] >= at[None, :], tl.dot(query, key) * scale, -float("inf"))
        above = tl.maximum(most, tl.max(seen, 1))
        share, fade = tl.exp(seen - above[:, None]), tl.exp(most - above)
        value = tl.load(v + base + at[:, None] * WIDTH + lane[None, :])
        total = tl.dot(share.to(tl.float16), value, total * fade[:, None])
        weight = weight * fade + tl.sum(share, 1)
        most = above
    tl.store(out + base + row[:, None] * WIDTH + lane[None, :],
             (total / weight[:, None]).to(tl.float16))


def near(got, want, least):
    assert torch.allclose(got.float(), want, atol=least, rtol=least), (got.float() - want).abs().max()


def products():
    for m, n, k in ((512, 512, 512), (300, 200, 1000), (2048, 1024, 512)):
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        c = torch.empty(m, n, device="cuda", dtype=torch.float32)
        product_kernel[lambda meta, m=m, n=n: (
            triton.cdiv(m, meta["ROWS"]) * triton.cdiv(n, meta["COLUMNS"]),)](a, b, c, m, n, k)
        near(c, a.float() @ b.float(), 0.1)
        record("product of %d, %d, %d" % (m, n, k), c)


def descriptors():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(
        size, dtype=torch.int8, device="cuda"))
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(512, 512, device="cuda", dtype=torch.float16)
    described_kernel[(4, 4)](a, b, c, 512, 512, 512, BLOCK=128, DEPTH=64)
    near(c, a.float() @ b.float(), 0.2)
    record("product by descriptors", c)
    x, y = torch.randn(512, 256, device="cuda"), torch.empty(256, 512, device="cuda")
    turn_kernel[(8, 4)](TensorDescriptor.from_tensor(x, [64, 64]),
                        TensorDescriptor.from_tensor(y, [64, 64]), BLOCK=64)
    assert torch.equal(y, (x * 2).T)
    record("turned", y)


def attention():
    q, k, v = (torch.randn(2, 4, 512, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    attention_kernel[(8, 8)](q, k, v, out, 0.125, 512, BLOCK=64, WIDTH=64)
    near(out, torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=True), 2e-2)
    record("attention", out)


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    for part in (products, descriptors, attention):
        part()
    done()


if __name__ == "__main__":
    main()
