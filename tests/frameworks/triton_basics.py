# SPDX-License-Identifier: Apache-2.0
"""What Triton programs do: vector addition, softmax, an autotuned product."""

import torch
import triton
import triton.language as tl


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


@triton.autotune([triton.Config({"SIZE": 32}, num_warps=2), triton.Config({"SIZE": 64}, num_warps=4)],
                 key=["n"])
@triton.jit
def product_kernel(a, b, c, n, SIZE: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, n, SIZE):
        inner = k + tl.arange(0, SIZE)
        total += tl.dot(tl.load(a + rows[:, None] * n + inner[None, :]),
                        tl.load(b + inner[:, None] * n + columns[None, :]))
    tl.store(c + rows[:, None] * n + columns[None, :], total)


def main():
    torch.manual_seed(1)
    x, y = torch.randn(100001, device="cuda"), torch.randn(100001, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(100001, 1024),)](x, y, out, 100001, BLOCK=1024)
    assert torch.equal(out, x + y)
    x = torch.randn(50, 700, device="cuda")
    out = torch.empty_like(x)
    softmax_kernel[(50,)](x, out, 700, BLOCK=1024)
    assert torch.allclose(out, torch.softmax(x, 1), atol=1e-6)
    n = 256
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(n, n, device="cuda", dtype=torch.float32)
    product_kernel[lambda meta: (n // meta["SIZE"], n // meta["SIZE"])](a, b, c, n)
    assert torch.allclose(c, a.float() @ b.float(), atol=1e-1)
    print("triton_basics: ok")


if __name__ == "__main__":
    main()
