# SPDX-License-Identifier: Apache-2.0
"""What PyTorch computes by NVIDIA's libraries and its own kernels: attention, Fourier transforms,
linear algebra, sorting, random numbers, products of many types, recurrent and sparse ones.
"""

import torch
from outputs import done, record
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION,
            SDPBackend.MATH)


def dice():
    """Numbers of the host: what is computed with them can be checked there."""
    generator = torch.Generator()
    generator.manual_seed(5)
    return lambda *shape: torch.randn(*shape, generator=generator)


def attention():
    made = dice()
    host = [made(2, 4, 256, 64) for _ in range(3)]
    want = torch.softmax(host[0] @ host[1].transpose(-1, -2) / 8, -1) @ host[2]
    for backend in BACKENDS:
        q, k, v = (x.to("cuda", torch.bfloat16).requires_grad_() for x in host)
        with sdpa_kernel(backend):
            got = nn.functional.scaled_dot_product_attention(q, k, v)
            got.float().square().sum().backward()
        assert torch.allclose(got.float().cpu(), want, atol=5e-2), (got.float().cpu() - want).abs().max()
        for name, value in (("", got), (" dq", q.grad), (" dk", k.grad), (" dv", v.grad)):
            record("attention %s%s" % (backend.name, name), value)


def fourier():
    x = dice()(8, 4096)
    got = torch.fft.fft(x.cuda())
    assert torch.allclose(got.cpu(), torch.fft.fft(x), atol=1e-2)
    record("fft", got)
    record("rfft", torch.fft.rfft(x.cuda()))
    record("fft of 1000", torch.fft.fft(x[:, :1000].cuda()))
    record("fft2", torch.fft.fft2(x.reshape(8, 64, 64).cuda()))
    record("irfftn", torch.fft.irfftn(torch.fft.rfftn(x.double().reshape(8, 64, 64).cuda())))
    record("stft", torch.stft(x[0].cuda(), 256, window=torch.hann_window(256).cuda(),
                              return_complex=True))


def algebra():
    a = dice()(3, 128, 128)
    definite = a @ a.transpose(1, 2) + 128 * torch.eye(128)
    g, d = a.cuda(), definite.cuda()
    eye = torch.eye(128, device="cuda").expand(3, -1, -1)
    for name, value, ought in (
            ("inverse", torch.linalg.inv(d), None),
            ("solve", torch.linalg.solve(d, g), None),
            ("cholesky", torch.linalg.cholesky(d), None),
            ("determinant", torch.linalg.slogdet(d)[1], None),
            ("singular values", torch.linalg.svdvals(g), torch.linalg.svdvals(a)),
            ("eigenvalues", torch.linalg.eigvalsh(d), torch.linalg.eigvalsh(definite))):
        record(name, value)
        if ought is not None:
            assert torch.allclose(value.cpu(), ought, rtol=1e-3, atol=1e-2), name
    assert torch.allclose(torch.linalg.inv(d) @ d, eye, atol=1e-3)
    q, r = torch.linalg.qr(g)
    assert torch.allclose(q @ r, g, atol=1e-3)
    u, s, v = torch.linalg.svd(g[0])
    assert torch.allclose(u @ torch.diag(s) @ v, g[0], atol=1e-2)
    record("qr", r.abs())
    record("least squares", torch.linalg.lstsq(g[0], g[1]).solution)
    record("exponential", torch.linalg.matrix_exp(g / 64))


def sorting():
    x = dice()(1 << 18)
    keys = (x * 1000).int()
    values, order = torch.sort(x.cuda())
    assert torch.equal(values.cpu(), torch.sort(x)[0])
    record("sort", values)
    record("order", order)
    record("stable sort", torch.sort(keys.cuda(), stable=True)[1])
    record("rows", torch.argsort(x.reshape(512, 512).cuda(), dim=1, stable=True))
    record("top", torch.topk(x.cuda(), 100)[0])
    kinds, counts = torch.unique(keys.cuda(), return_counts=True)
    assert torch.equal(kinds.cpu(), torch.unique(keys))
    record("unique", counts)
    record("sums", torch.cumsum(x.cuda(), 0))
    record("integer sums", torch.cumsum(keys.cuda(), 0))
    record("median", torch.median(x.cuda()))
    record("histogram", torch.histc(x.cuda(), 64))
    record("where", torch.nonzero(x.cuda() > 2))
    # Float additions in the order of chance.
    record("scattered", torch.zeros(100, device="cuda").scatter_add_(
        0, (keys.abs() % 100).long().cuda(), x.cuda()))


def numbers():
    torch.manual_seed(7)
    record("uniform", torch.rand(100000, device="cuda"))
    record("normal", torch.randn(100000, device="cuda"))
    record("integers", torch.randint(0, 1 << 40, (10000,), device="cuda"))
    record("permutation", torch.randperm(50000, device="cuda"))
    weights = torch.arange(1, 100, dtype=torch.float32, device="cuda")
    record("multinomial", torch.multinomial(weights, 1000, replacement=True))
    record("bernoulli", torch.bernoulli(torch.full((10000,), 0.3, device="cuda")))
    record("exponentials", torch.empty(10000, device="cuda").exponential_())
    record("dropout", nn.functional.dropout(torch.ones(10000, device="cuda")))
    generator = torch.Generator("cuda")
    generator.manual_seed(8)
    record("a generator's", torch.rand(1000, device="cuda", generator=generator))
    state = torch.cuda.get_rng_state()
    first = torch.rand(1000, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(1000, device="cuda"))


def products():
    made = dice()
    a, b = made(512, 512), made(512, 512)
    want = a.double() @ b.double()
    for kind, least in ((torch.float64, 1e-9), (torch.float32, 1e-2), (torch.float16, 0.5),
                        (torch.bfloat16, 2)):
        got = a.to("cuda", kind) @ b.to("cuda", kind)
        assert (got.double().cpu() - want).abs().max() < least, kind
        record("product of %s" % kind, got)
    small = (a * 20).to(torch.int8), (b * 20).to(torch.int8)
    got = torch._int_mm(small[0].cuda(), small[1].cuda())
    assert torch.equal(got.cpu(), small[0].int() @ small[1].int())
    record("product of int8", got)
    eighth = a.cuda().to(torch.float8_e4m3fn), b.cuda().to(torch.float8_e4m3fn).t().contiguous().t()
    one = torch.ones((), device="cuda")
    record("product of float8", torch._scaled_mm(*eighth, scale_a=one, scale_b=one,
                                                 out_dtype=torch.bfloat16))
    record("complex product", torch.complex(a, b).cuda() @ torch.complex(b, a).cuda())
    record("batches", torch.bmm(a.reshape(16, 128, 128).cuda(), b.reshape(16, 128, 128).cuda()))
    record("einsum", torch.einsum("ij,jk,lk->il", a.cuda(), b.cuda(), a.cuda()))
    sparse = torch.where(a.abs() > 2, a, 0).cuda().to_sparse_csr()
    record("sparse", sparse @ b.cuda())


def layers():
    torch.manual_seed(9)
    x = dice()(32, 20, 64).cuda()
    net = nn.LSTM(64, 128, 2, batch_first=True).cuda()
    out, _ = net(x)
    out.square().sum().backward()
    record("lstm", out)
    record("its gradient", net.weight_hh_l0.grad)
    image = dice()(4, 16, 40, 40).cuda()
    record("convolution", nn.functional.conv2d(image, dice()(32, 16, 5, 5).cuda(), padding=2))
    record("grouped", nn.functional.conv2d(image, dice()(32, 4, 3, 3).cuda(), groups=4))
    record("transposed", nn.functional.conv_transpose2d(image, dice()(16, 8, 4, 4).cuda(), stride=2))
    record("in three dimensions", nn.functional.conv3d(image[None], dice()(8, 4, 3, 3, 3).cuda()))
    record("pooled", nn.functional.max_pool2d(image, 3))
    record("resized", nn.functional.interpolate(image, scale_factor=1.7, mode="bilinear"))


def main():
    for part in (attention, fourier, algebra, sorting, numbers, products, layers):
        part()
    done()


if __name__ == "__main__":
    main()
