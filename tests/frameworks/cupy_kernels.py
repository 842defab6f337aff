# SPDX-License-Identifier: Apache-2.0
"""CuPy's ways to a kernel: raw, with templates and constants, by elements, reducing, fused, written
in Python; compiled by NVRTC while the program runs.
"""

import cupy
import numpy
from cupyx import jit
from outputs import done, record

N = 10000

RAW = r"""
extern "C" __global__ void square(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = x[i] * x[i];
}
"""

MODULE = r"""
#include <cuda_fp16.h>

__constant__ float factors[4];
__device__ int calls;

template <typename T, int STEP> __global__ void weigh(const T *x, T *y, int n)
{
    extern __shared__ float row[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    row[threadIdx.x] = i < n ? (float)x[i] : 0;
    __syncthreads();
    if (i < n)
        y[i] = (T)(row[threadIdx.x ^ STEP] * factors[i & 3]);
    if (i == 0)
        atomicAdd(&calls, 1);
}
"""


def raw():
    x = cupy.arange(N, dtype=cupy.float32)
    y = cupy.empty_like(x)
    square = cupy.RawKernel(RAW, "square")
    square(((N + 255) // 256,), (256,), (x, y, N))
    assert cupy.array_equal(y, x * x)
    record("raw", y)
    assert square.max_threads_per_block >= 256 and square.num_regs > 0


def module():
    """Templates, a constant and a variable of the module, shared memory given at the launch."""
    names = ["weigh<float, 1>", "weigh<half, 2>", "weigh<double, 4>"]
    code = cupy.RawModule(code=MODULE, options=("--std=c++17",), name_expressions=names)
    factors = cupy.ndarray(4, cupy.float32, code.get_global("factors"))
    factors[...] = cupy.asarray([1, 2, 4, 8], cupy.float32)
    calls = cupy.ndarray(1, cupy.int32, code.get_global("calls"))
    for name, kind, step in zip(names, ("f", "e", "d"), (1, 2, 4)):
        x = (cupy.arange(2048) % 50).astype(kind)
        y = cupy.zeros_like(x)
        code.get_function(name)((8,), (256,), (x, y, 2048), shared_mem=1024)
        at = numpy.arange(2048)
        want = ((at ^ step) % 50).astype(kind) * numpy.array([1, 2, 4, 8], kind)[at & 3]
        assert numpy.array_equal(y.get(), want), name
        record(name, y)
    assert int(calls[0]) == 3


def made():
    """Kernels that CuPy makes of an expression."""
    x = cupy.arange(N, dtype=cupy.float32)
    mix = cupy.ElementwiseKernel("float32 a, T b", "float32 c, T d", "c = a * 2 + b; d = b - a", "mix")
    c, d = mix(x, x[::-1])
    assert cupy.array_equal(c, x * 2 + x[::-1]) and cupy.array_equal(d, x[::-1] - x)
    record("by elements", c)
    total = cupy.ReductionKernel("T a", "float64 s", "a", "a + b", "s = a", "0", "total")
    assert float(total(x)) == N * (N - 1) / 2
    record("reduced", total(x.reshape(100, 100), axis=0))

    @cupy.fuse()
    def fused(a, b):
        return cupy.sqrt(a * a + b * b) - cupy.minimum(a, b)

    record("fused", fused(x, x[::-1]))


@jit.rawkernel()
def reverse(x, y, size):
    """Kernel: y is x from its end."""
    start = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
    for i in range(start, size, jit.gridDim.x * jit.blockDim.x):
        y[size - 1 - i] = x[i]


def in_python():
    x = cupy.arange(N, dtype=cupy.float32)
    y = cupy.empty_like(x)
    reverse((16,), (128,), (x, y, cupy.uint32(N)))
    assert cupy.array_equal(y, x[::-1])
    record("written in Python", y)


def arrays():
    """What programs do with arrays: slices, masks, broadcasts, types."""
    x = cupy.arange(60000).reshape(200, 300)
    record("slices", x[10:150:3, ::-2] * 2)
    record("masked", x[(x % 7 == 3) & (x > 1000)])
    record("taken", x[:, cupy.asarray([5, 2, 299])])
    record("means", x.astype(cupy.float32).mean(1))
    record("deviations", cupy.std(x / 7.0, axis=0))
    record("half", cupy.sin(x[:4].astype(cupy.float16)))
    record("complex", cupy.exp(1j * x[0].astype(cupy.float64)))
    record("histogram", cupy.histogram(x % 100, bins=20)[0])
    record("joined", cupy.concatenate([x[:3], x[5:6] + 1]).T)
    both = cupy.einsum("ij,kj->ik", x[:5] % 11, x[5:9] % 13)
    assert numpy.array_equal(both.get(), numpy.einsum("ij,kj->ik", x[:5].get() % 11, x[5:9].get() % 13))


def main():
    for part in (raw, module, made, in_python, arrays):
        part()
    done()


if __name__ == "__main__":
    main()
