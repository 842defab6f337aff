# SPDX-License-Identifier: Apache-2.0
"""What CuPy programs do: kernels of one's own, libraries, pools, streams."""

import cupy
import numpy


def kernels():
    square = cupy.RawKernel(r'''
extern "C" __global__ void square(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}''', "square")
    x = cupy.arange(10000, dtype=cupy.float32)
    y = cupy.empty_like(x)
    square((40,), (256,), (x, y, 10000))
    assert cupy.array_equal(y, x * x)
    mix = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a * 2 + b", "mix")
    assert cupy.array_equal(mix(x, y), x * 2 + y)
    total = cupy.ReductionKernel("float32 a", "float64 s", "a", "a + b", "s = a", "0", "total")
    assert float(total(x)) == 10000 * 9999 / 2


def libraries():
    dice = numpy.random.default_rng(1)
    a, b = (dice.standard_normal((200, 200)).astype(numpy.float32) for _ in range(2))
    assert numpy.allclose(cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b)), a @ b, atol=1e-2)
    assert numpy.allclose(cupy.asnumpy(cupy.fft.fft(cupy.asarray(a[0]))), numpy.fft.fft(a[0]),
                          atol=1e-3)
    assert numpy.array_equal(cupy.asnumpy(cupy.sort(cupy.asarray(b[0]))), numpy.sort(b[0]))
    sample = cupy.random.RandomState(3).standard_normal(100000)
    assert abs(float(sample.mean())) < 0.02 and abs(float(sample.std()) - 1) < 0.02


def memory():
    pool = cupy.get_default_memory_pool()
    x = cupy.zeros(1 << 20)
    assert pool.used_bytes() >= 8 << 20
    del x
    pool.free_all_blocks()
    pinned = cupy.cuda.alloc_pinned_memory(4096)
    host = numpy.frombuffer(pinned, numpy.int32, 1024)
    host[:] = numpy.arange(1024)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        device = cupy.empty(1024, numpy.int32)
        device.set(host, stream=stream)
        back = (device * 7).get(stream=stream)
    stream.synchronize()
    assert numpy.array_equal(back, host * 7)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
        assert float(cupy.ones(1000).sum()) == 1000
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        assert float(cupy.ones(1000).sum()) == 1000


if __name__ == "__main__":
    for step in (kernels, libraries, memory):
        step()
        print("cupy_basics: %s" % step.__name__, flush=True)
    print("cupy_basics: ok")
