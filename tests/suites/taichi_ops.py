# SPDX-License-Identifier: Apache-2.0
"""Taichi's kernels on a GPU, compared with its processor backend.

    taichi_ops.py GROUP

Each function here builds fields and kernels, and returns arrays of numpy. All functions of a group
first run on the processor, then as tests on the GPU.
"""

import sys

import numpy as np
import outcomes
import taichi as ti
import taichi.math as tm

TOLERANCE = 1e-4
N = 200
MEMORY_GB = 0.25


def numbers(*shape, low=-1.0, high=1.0, dtype=np.float32):
    return np.random.default_rng(7).uniform(low, high, shape).astype(dtype)


# ---- arithmetic

def math_functions(dtype=ti.f32, real=np.float32):
    names = ("sin", "cos", "tanh", "exp", "sqrt", "rsqrt", "log", "atan2", "pow", "floor", "ceil",
             "round", "asin", "acos", "abs", "mod")
    out = ti.field(dtype, shape=(len(names), N))

    @ti.kernel
    def run(x: ti.types.ndarray()):
        for i in range(N):
            v = x[i]
            out[0, i], out[1, i], out[2, i], out[3, i] = tm.sin(v), tm.cos(v), tm.tanh(v), tm.exp(v)
            out[4, i], out[5, i], out[6, i] = tm.sqrt(v), ti.rsqrt(v), tm.log(v)
            out[7, i], out[8, i] = tm.atan2(v, 0.5), tm.pow(v, 2.5)
            out[9, i], out[10, i], out[11, i] = tm.floor(9 * v), tm.ceil(9 * v), tm.round(9 * v)
            out[12, i], out[13, i] = tm.asin(v), tm.acos(v)
            out[14, i], out[15, i] = ti.abs(-v), tm.mod(v, 0.3)

    run(numbers(N, low=0.1, high=0.9, dtype=real))
    return out.to_numpy()


def double_math():
    return math_functions(ti.f64, np.float64)


def integers():
    out = ti.field(ti.i64, shape=(9, N))

    @ti.kernel
    def run(x: ti.types.ndarray()):
        for i in range(N):
            v = x[i]
            out[0, i], out[1, i], out[2, i] = v // 7, v % 7, v << 3
            out[3, i], out[4, i], out[5, i] = v >> 2, v ^ 0x5a5a, ~v
            out[6, i] = ti.math.popcnt(ti.cast(v, ti.u32))
            out[7, i] = ti.cast(v, ti.i8)
            out[8, i] = ti.cast(v, ti.i64) * v * 1000003

    run(numbers(N, low=-1e6, high=1e6).astype(np.int32))
    return out.to_numpy()


def small_types():
    halves, bytes_ = ti.field(ti.f16, shape=N), ti.field(ti.u8, shape=N)

    @ti.kernel
    def run():
        for i in range(N):
            halves[i] = i * 0.25
            bytes_[i] = i * 3
        for i in range(N):
            halves[i] = halves[i] + 1.5

    run()
    return halves.to_numpy(), bytes_.to_numpy()


def vectors():
    out = ti.Vector.field(3, ti.f32, shape=(4, N))

    @ti.kernel
    def run(x: ti.types.ndarray(dtype=tm.vec3)):
        for i in range(N):
            a, b = x[i], x[N - 1 - i]
            out[0, i], out[1, i] = tm.cross(a, b), tm.normalize(a + 2.0)
            out[2, i] = tm.vec3(tm.dot(a, b), a.norm(), tm.distance(a, b))
            out[3, i] = tm.mix(a, b, 0.25) + tm.clamp(a, -0.5, 0.5)

    run(numbers(N, 3))
    return out.to_numpy()


def matrices():
    out = ti.Matrix.field(3, 3, ti.f32, shape=(4, N))
    scalars = ti.field(ti.f32, shape=(2, N))

    @ti.kernel
    def run(x: ti.types.ndarray(dtype=tm.mat3)):
        for i in range(N):
            a = x[i] + 3.0 * ti.Matrix.identity(ti.f32, 3)
            out[0, i], out[1, i] = a @ a, a.inverse()
            u, s, v = ti.svd(a)
            out[2, i] = u @ s @ v.transpose()
            out[3, i] = 2 * a.transpose() - a
            scalars[0, i], scalars[1, i] = a.determinant(), a.trace()

    run(numbers(N, 3, 3))
    return out.to_numpy(), scalars.to_numpy()


# ---- fields

def layouts():
    a, b = ti.field(ti.i32), ti.field(ti.f32)
    ti.root.dense(ti.ij, (8, 8)).dense(ti.ij, (4, 2)).place(a)
    ti.root.dense(ti.i, 16).place(b)

    @ti.kernel
    def run():
        for i, j in a:
            a[i, j] = i * 100 + j
        for i in b:
            b[i] = i * 0.5

    run()
    return a.to_numpy(), b.to_numpy()


def pointers():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.ij, (16, 16))
    block.dense(ti.ij, (4, 4)).place(x)
    counts = ti.field(ti.i32, shape=4)

    @ti.kernel
    def fill():
        for i in range(64):
            x[i, (i * 7) % 64] = i

    @ti.kernel
    def count(n: ti.i32):
        for i, j in x:
            counts[n] += 1
            counts[n + 1] += x[i, j]

    fill()
    count(0)
    block.deactivate_all()
    fill()
    count(2)
    return counts.to_numpy()


def bitmasks():
    x = ti.field(ti.f32)
    ti.root.bitmasked(ti.i, 512).place(x)
    total = ti.field(ti.f32, shape=2)

    @ti.kernel
    def fill():
        for i in range(512):
            if i % 3 == 0:
                x[i] = i

    @ti.kernel
    def add():
        for i in x:
            total[0] += x[i]
            total[1] += 1

    fill()
    add()
    return total.to_numpy()


def lists():
    x = ti.field(ti.i32)
    rows = ti.root.dense(ti.i, 32).dynamic(ti.j, 1024, chunk_size=32)
    rows.place(x)
    lengths, sums = ti.field(ti.i32, shape=32), ti.field(ti.i32, shape=32)

    @ti.kernel
    def fill():
        for i in range(32):
            for j in range(i * 5):
                ti.append(x.parent(), i, j)

    @ti.kernel
    def measure():
        for i in range(32):
            lengths[i] = ti.length(x.parent(), i)
            for j in range(lengths[i]):
                sums[i] += x[i, j]

    fill()
    measure()
    return lengths.to_numpy(), sums.to_numpy()


def structs():
    ball = ti.types.struct(place=tm.vec3, mass=ti.f32, number=ti.i32)
    balls = ball.field(shape=N)

    @ti.kernel
    def run():
        for i in balls:
            balls[i] = ball(place=tm.vec3(i, 2 * i, 3 * i), mass=0.5 * i, number=i)
        for i in balls:
            balls[i].place *= balls[i].mass

    run()
    found = balls.to_numpy()
    return found["place"], found["mass"], found["number"]


def quantised():
    kind = ti.types.quant.int(bits=5, signed=True)
    x = ti.field(kind)
    packed = ti.BitpackedFields(max_num_bits=32)
    y = ti.field(ti.types.quant.fixed(bits=16, max_value=4.0))
    packed.place(x, y)
    ti.root.dense(ti.i, N).place(packed)
    out = ti.field(ti.f32, shape=N)

    @ti.kernel
    def run():
        for i in range(N):
            x[i] = i % 15 - 7
            y[i] = (i % 16) * 0.25 - 2
        for i in range(N):
            out[i] = x[i] + y[i]

    run()
    return out.to_numpy()


# ---- threads together

def atomics():
    out, floats = ti.field(ti.i32, shape=6), ti.field(ti.f32, shape=3)

    @ti.kernel
    def run():
        out[2], floats[1] = 1 << 30, 1e9
        out[3] = -1
        for i in range(5000):
            ti.atomic_add(out[0], i)
            ti.atomic_max(out[1], i * 37 % 1009)
            ti.atomic_min(out[2], i * 37 % 1009 - 50)
            ti.atomic_and(out[3], ~(1 << (i % 20)))
            ti.atomic_or(out[4], 1 << (i % 7))
            ti.atomic_xor(out[5], i)
            ti.atomic_add(floats[0], 0.5)
            ti.atomic_min(floats[1], float(i) - 100.5)
            ti.atomic_max(floats[2], float(i) * 0.25)

    run()
    return out.to_numpy(), floats.to_numpy()


def reductions():
    x = ti.field(ti.f64, shape=4000)

    @ti.kernel
    def fill():
        for i in x:
            x[i] = ti.cast(i % 17, ti.f64) * 0.125

    @ti.kernel
    def total() -> ti.f64:
        s = ti.cast(0, ti.f64)
        for i in x:
            s += x[i]
        return s

    @ti.kernel
    def largest() -> ti.f64:
        s = ti.cast(-1, ti.f64)
        for i in x:
            ti.atomic_max(s, x[i])
        return s

    fill()
    return np.array([total(), largest()])


def block_local():
    """Taichi caches the field in shared memory."""
    a, b = ti.field(ti.f32), ti.field(ti.f32)
    ti.root.dense(ti.i, 16).dense(ti.i, 32).place(a)
    ti.root.dense(ti.i, 16).dense(ti.i, 32).place(b)

    @ti.kernel
    def fill():
        for i in a:
            a[i] = i % 13

    @ti.kernel
    def blur():
        ti.loop_config(block_dim=32)
        ti.block_local(a)
        for i in a:
            if 0 < i < 511:
                b[i] = a[i - 1] + 2 * a[i] + a[i + 1]

    fill()
    blur()
    return b.to_numpy()


def shared_array():
    """Only the GPU has shared memory, so the reference is a sum of numpy."""
    out = ti.field(ti.f32, shape=512)
    x = numbers(512)

    @ti.kernel
    def run(values: ti.types.ndarray()):
        ti.loop_config(block_dim=128)
        for i in range(512):
            pad = ti.simt.block.SharedArray((128,), ti.f32)
            pad[i % 128] = values[i]
            ti.simt.block.sync()
            out[i] = pad[127 - i % 128] + pad[(i + 1) % 128]

    if not on_gpu():
        rows = x.reshape(4, 128)
        return (rows[:, ::-1] + np.roll(rows, -1, axis=1)).reshape(512)
    run(x)
    return out.to_numpy()


def warps():
    """The same, of shuffles and votes."""
    out = ti.field(ti.i32, shape=(4, 64))

    @ti.kernel
    def run():
        ti.loop_config(block_dim=32)
        for i in range(64):
            mask = ti.u32(0xFFFFFFFF)
            out[0, i] = ti.simt.warp.shfl_down_i32(mask, i, 1)
            out[1, i] = ti.simt.warp.shfl_sync_i32(mask, i, 3)
            out[2, i] = ti.simt.warp.any_nonzero(mask, ti.cast(i % 32 == 5, ti.i32))
            out[3, i] = ti.simt.warp.shfl_xor_i32(mask, i, 4)

    if not on_gpu():
        i = np.arange(64)
        down = np.where(i % 32 < 31, i + 1, i)
        return np.stack([down, i // 32 * 32 + 3, np.ones(64, int), i ^ 4]).astype(np.int32)
    run()
    return out.to_numpy()


def prefix_sums():
    x = ti.field(ti.i32, shape=1000)
    x.from_numpy(np.arange(1000, dtype=np.int32) % 11)
    if not on_gpu():
        return np.cumsum(x.to_numpy()).astype(np.int32)
    ti.algorithms.PrefixSumExecutor(1000).run(x)
    return x.to_numpy()


def sorting():
    keys, values = ti.field(ti.i32, shape=500), ti.field(ti.f32, shape=500)
    keys.from_numpy(np.random.default_rng(3).permutation(500).astype(np.int32))
    values.from_numpy(numbers(500))
    ti.algorithms.parallel_sort(keys, values)
    return keys.to_numpy(), values.to_numpy()


# ---- derivatives

def reverse_mode():
    x = ti.field(ti.f32, shape=N, needs_grad=True)
    loss = ti.field(ti.f32, shape=(), needs_grad=True)
    x.from_numpy(numbers(N))

    @ti.kernel
    def run():
        for i in x:
            loss[None] += tm.sin(x[i]) * x[i] ** 2

    with ti.ad.Tape(loss):
        run()
    return x.grad.to_numpy(), loss.to_numpy()


def forward_mode():
    x = ti.field(ti.f32, shape=8)
    y = ti.field(ti.f32, shape=8)
    ti.root.lazy_dual()
    x.from_numpy(numbers(8))

    @ti.kernel
    def run():
        for i in x:
            y[i] = tm.exp(x[i]) * x[i]

    with ti.ad.FwdMode(loss=y, param=x, seed=[1.0] * 8):
        run()
    return y.dual.to_numpy()


def descent():
    """A line through points, by its gradient."""
    a, b = (ti.field(ti.f32, shape=(), needs_grad=True) for _ in range(2))
    loss = ti.field(ti.f32, shape=(), needs_grad=True)
    x, y = ti.field(ti.f32, shape=64), ti.field(ti.f32, shape=64)
    x.from_numpy(numbers(64))
    y.from_numpy(3 * numbers(64) - 1)

    @ti.kernel
    def run():
        for i in x:
            loss[None] += (a[None] * x[i] + b[None] - y[i]) ** 2 / 64

    for _ in range(60):
        with ti.ad.Tape(loss):
            run()
        a[None] -= 0.5 * a.grad[None]
        b[None] -= 0.5 * b.grad[None]
    return np.array([a[None], b[None]])


# ---- arrays and programs

def ndarrays():
    x = ti.ndarray(ti.f32, shape=(16, 16))
    v = ti.Vector.ndarray(2, ti.i32, shape=40)

    @ti.kernel
    def run(a: ti.types.ndarray(ndim=2), b: ti.types.ndarray(dtype=tm.ivec2, ndim=1)):
        for i, j in a:
            a[i, j] = i - 0.5 * j
        for i in b:
            b[i] = ti.Vector([i, i * i])

    run(x, v)
    return x.to_numpy(), v.to_numpy()


def arguments():
    three = ti.types.struct(a=ti.i32, b=tm.vec3)

    @ti.kernel
    def run(i: ti.i32, f: ti.f64, v: tm.vec3, s: three,
            many: ti.types.matrix(3, 4, ti.f32)) -> tm.vec3:
        return v * ti.cast(f, ti.f32) + s.b * i + s.a + many[2, 3]

    return np.array(run(3, 0.25, tm.vec3(1, 2, 3), three(a=4, b=tm.vec3(7, 8, 9)),
                        ti.Matrix([[1.0 * i + j for i in range(4)] for j in range(3)])))


def recursion():
    @ti.real_func
    def fibonacci(n: ti.i32) -> ti.i32:
        if n < 2:
            return n
        return fibonacci(n - 1) + fibonacci(n - 2)

    @ti.kernel
    def run(n: ti.i32) -> ti.i32:
        return fibonacci(n)

    return np.array([run(12)])


def graphs():
    shape = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "x", ti.f32, ndim=1)

    @ti.kernel
    def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in x:
            x[i] += i

    @ti.kernel
    def double(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in x:
            x[i] *= 2

    builder = ti.graph.GraphBuilder()
    again = builder.create_sequential()
    again.dispatch(add, shape)
    again.dispatch(double, shape)
    for _ in range(3):
        builder.append(again)
    x = ti.ndarray(ti.f32, shape=N)
    builder.compile().run({"x": x})
    return x.to_numpy()


def life():
    a, b = ti.field(ti.i32, shape=(32, 32)), ti.field(ti.i32, shape=(32, 32))
    a.from_numpy((numbers(32, 32) > 0.3).astype(np.int32))

    @ti.kernel
    def step(old: ti.template(), new: ti.template()):
        for i, j in old:
            n = -old[i, j]
            for k, l in ti.static(ti.ndrange((-1, 2), (-1, 2))):
                n += old[(i + k) % 32, (j + l) % 32]
            new[i, j] = int(n == 3 or (n == 2 and old[i, j] == 1))

    for _ in range(10):
        step(a, b)
        step(b, a)
    return a.to_numpy()


def particles():
    """Some steps of the material point method, of particles that fall."""
    n, grid = 400, 32
    x, v = (ti.Vector.field(2, ti.f32, n) for _ in range(2))
    grid_v, grid_m = ti.Vector.field(2, ti.f32, (grid, grid)), ti.field(ti.f32, (grid, grid))
    x.from_numpy(numbers(n, 2, low=0.3, high=0.6))

    @ti.func
    def weights(p):
        base = int(p * grid - 0.5)
        fx = p * grid - base
        return base, [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]

    @ti.kernel
    def step():
        for i, j in grid_m:
            grid_v[i, j], grid_m[i, j] = [0, 0], 0
        for p in x:
            base, w = weights(x[p])
            for i, j in ti.static(ti.ndrange(3, 3)):
                weight = w[i][0] * w[j][1]
                grid_v[base + ti.Vector([i, j])] += weight * v[p]
                grid_m[base + ti.Vector([i, j])] += weight
        for i, j in grid_m:
            if grid_m[i, j] > 0:
                grid_v[i, j] = grid_v[i, j] / grid_m[i, j] - ti.Vector([0, 0.01])
        for p in x:
            base, w = weights(x[p])
            total = ti.Vector([0.0, 0.0])
            for i, j in ti.static(ti.ndrange(3, 3)):
                total += w[i][0] * w[j][1] * grid_v[base + ti.Vector([i, j])]
            v[p] = total
            x[p] += 0.01 * total

    for _ in range(20):
        step()
    return x.to_numpy(), v.to_numpy()


def conjugate_gradients():
    def operator(size):
        @ti.kernel
        def multiply(v: ti.template(), mv: ti.template()):
            for i in v:
                mv[i] = 4.0 * v[i]
                if i > 0:
                    mv[i] -= v[i - 1]
                if i < size - 1:
                    mv[i] -= v[i + 1]
        return ti.linalg.LinearOperator(multiply)

    x, b = ti.field(ti.f64, shape=64), ti.field(ti.f64, shape=64)
    b.from_numpy(numbers(64, dtype=np.float64))
    ti.linalg.MatrixFreeCG(operator(64), b, x, tol=1e-10, maxiter=100, quiet=True)
    return x.to_numpy()


def random():
    """The numbers of both differ: only their mean and their range are the same."""
    x = ti.field(ti.f32, shape=20000)

    @ti.kernel
    def run():
        for i in x:
            x[i] = ti.random()

    run()
    drawn = x.to_numpy()
    return np.array([drawn.min() >= 0, drawn.max() < 1, abs(drawn.mean() - 0.5) < 0.02,
                     len(np.unique(drawn)) > 15000])


GROUPS = {
    "arithmetic": (math_functions, double_math, integers, small_types, vectors, matrices),
    "fields": (layouts, pointers, bitmasks, lists, structs, quantised),
    "threads": (atomics, reductions, block_local, shared_array, warps, prefix_sums, sorting),
    "derivatives": (reverse_mode, forward_mode, descent),
    "programs": (ndarrays, arguments, recursion, graphs, life, particles, conjugate_gradients, random),
}


def on_gpu():
    return ti.lang.impl.current_cfg().arch == ti.cuda


def arrays_of(function):
    """What the function returns, as a list."""
    result = function()
    return list(result) if isinstance(result, tuple) else [result]


def check(function, reference):
    """The GPU gives the same, but for rounding."""
    assert on_gpu(), "Taichi has not found the GPU"
    results = arrays_of(function)
    assert len(results) == len(reference)
    for mine, theirs in zip(results, reference):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def main(group):
    functions = GROUPS[group]
    ti.init(arch=ti.cpu, offline_cache=False, log_level=ti.ERROR)
    references = [arrays_of(function) for function in functions]
    ti.reset()
    ti.init(arch=ti.cuda, offline_cache=False, device_memory_GB=MEMORY_GB)
    outcomes.run_functions({function.__name__: lambda pair=pair: check(*pair)
                            for function, pair in zip(functions, zip(functions, references))})


if __name__ == "__main__":
    main(sys.argv[1])
