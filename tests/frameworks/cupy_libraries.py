# SPDX-License-Identifier: Apache-2.0
"""CuPy with NVIDIA's libraries: cuBLAS, cuSOLVER, cuFFT, cuRAND, cuSPARSE, and its sorts."""

import cupy
import cupyx.scipy.fftpack
import cupyx.scipy.sparse
import numpy
from outputs import done, record


def host(*shape, kind=numpy.float32):
    return numpy.random.default_rng(1).standard_normal(shape).astype(kind)


def products():
    for kind, least in (("d", 1e-9), ("f", 1e-2), ("F", 1e-2), ("e", 1)):
        a = host(256, 256).astype(kind)
        got = cupy.asarray(a) @ cupy.asarray(a)
        want = a.astype("D") @ a.astype("D")
        assert numpy.abs(got.get() - want).max() < least, kind
        record("product of %s" % kind, got)
    a = cupy.asarray(host(20, 64, 64))
    record("batches", cupy.matmul(a, a.transpose(0, 2, 1)))
    record("dot", cupy.dot(a[0].ravel(), a[1].ravel()))
    record("tensordot", cupy.tensordot(a, a, axes=([1, 2], [1, 2])))


def algebra():
    a = host(128, 128, kind=numpy.float64)
    definite = a @ a.T + 128 * numpy.eye(128)
    g, d = cupy.asarray(a), cupy.asarray(definite)
    assert numpy.allclose(cupy.linalg.solve(d, g).get(), numpy.linalg.solve(definite, a))
    assert numpy.allclose(cupy.linalg.eigvalsh(d).get(), numpy.linalg.eigvalsh(definite))
    record("solve", cupy.linalg.solve(d, g))
    record("cholesky", cupy.linalg.cholesky(d))
    record("inverse", cupy.linalg.inv(d))
    record("determinant", cupy.linalg.slogdet(d)[1])
    q, r = cupy.linalg.qr(g)
    assert numpy.allclose((q @ r).get(), a)
    u, s, v = cupy.linalg.svd(g)
    assert numpy.allclose(((u * s) @ v).get(), a)
    record("singular values", s)
    record("eigenvalues", cupy.linalg.eigh(d)[0])
    record("least squares", cupy.linalg.lstsq(g, g[:, 0], rcond=None)[0])


def fourier():
    x = host(16, 4096)
    got = cupy.fft.fft(cupy.asarray(x))
    assert numpy.allclose(got.get(), numpy.fft.fft(x), atol=1e-2)
    record("fft", got)
    record("rfft of 1000", cupy.fft.rfft(cupy.asarray(x[:, :1000])))
    back = cupy.fft.ifftn(cupy.fft.fftn(cupy.asarray(x.reshape(16, 64, 64))))
    assert numpy.allclose(back.real.get(), x.reshape(16, 64, 64), atol=1e-4)
    record("there and back", back)
    waves = cupy.asarray(x).astype("F")
    with cupyx.scipy.fftpack.get_fft_plan(waves, axes=1):
        record("planned", cupyx.scipy.fftpack.fft(waves, axis=1))


def numbers():
    dice = cupy.random.RandomState(3)
    sample = dice.standard_normal(100000)
    assert abs(float(sample.mean())) < 0.02 and abs(float(sample.std()) - 1) < 0.02
    record("normal", sample)
    record("uniform", dice.random_sample(10000, dtype=cupy.float32))
    record("integers", dice.randint(0, 1000, 10000))
    record("poisson", dice.poisson(4, 1000))
    record("permutation", dice.permutation(10000))
    record("choice", dice.choice(1000, 50, replace=False))
    generator = cupy.random.default_rng(5)
    record("new generator's", generator.random(10000))
    record("its integers", generator.integers(0, 100, 10000))
    record("gamma", generator.standard_gamma(2.5, 1000))
    philox = cupy.random.Generator(cupy.random.Philox4x3210(6))
    record("philox", philox.standard_normal(10000))


def sorting():
    x = host(100000)
    keys = (x * 100).astype(numpy.int32)
    got = cupy.sort(cupy.asarray(x))
    assert numpy.array_equal(got.get(), numpy.sort(x))
    record("sort", got)
    record("order", cupy.argsort(cupy.asarray(keys), kind="stable"))
    record("rows", cupy.sort(cupy.asarray(x).reshape(100, 1000), axis=0))
    record("by two keys", cupy.lexsort(cupy.stack([cupy.asarray(x), cupy.asarray(keys)])))
    record("partition", cupy.sort(cupy.partition(cupy.asarray(x), 50)[:50]))
    kinds, counts = cupy.unique(cupy.asarray(keys), return_counts=True)
    assert numpy.array_equal(kinds.get(), numpy.unique(keys))
    record("unique", counts)
    record("sums", cupy.cumsum(cupy.asarray(keys)))
    record("float sums", cupy.cumsum(cupy.asarray(x)))
    record("places", cupy.searchsorted(got, cupy.asarray(x[:1000])))
    record("largest", cupy.asarray(x).argmax())


def sparse():
    a = host(300, 300)
    a[numpy.abs(a) < 1.5] = 0
    matrix = cupyx.scipy.sparse.csr_matrix(cupy.asarray(a))
    got = matrix @ cupy.asarray(a)
    assert numpy.allclose(got.get(), a @ a, atol=1e-2)
    record("sparse by dense", got)
    record("sparse by sparse", (matrix @ matrix).toarray())
    record("sparse by vector", matrix.T @ cupy.asarray(a[0]))


def main():
    for part in (products, algebra, fourier, numbers, sorting, sparse):
        part()
    done()


if __name__ == "__main__":
    main()
