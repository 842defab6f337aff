# SPDX-License-Identifier: Apache-2.0
"""JAX: jit, grad, vmap, scan, linear algebra, Fourier transforms, sorting, random numbers, a training.

By default JAX takes 75 % of the GPU's memory when it begins, so that not even two copies could run
natively at the same time: each copy gets a tenth, natively too, so that other programs have room.

Mode plain: XLA_PYTHON_CLIENT_MEM_FRACTION=0.1
Mode platform: XLA_PYTHON_CLIENT_ALLOCATOR=platform
Mode graphs: XLA_PYTHON_CLIENT_MEM_FRACTION=0.1 GRAPHS=1
GPU memory: 16 GiB
"""

import os

# XLA tries what is fastest at the moment, and what it chooses decides about the last bits.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
if os.environ.get("GRAPHS"):
    # Also what is shorter than XLA thinks worth a graph. No loops and branches: those want
    # conditional nodes.
    os.environ["XLA_FLAGS"] += (
        " --xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN"
        " --xla_gpu_graph_min_graph_size=1")

import jax  # pylint: disable=wrong-import-position
import jax.numpy as jnp  # pylint: disable=wrong-import-position
import numpy  # pylint: disable=wrong-import-position
from jax import lax  # pylint: disable=wrong-import-position
from outputs import done, record  # pylint: disable=wrong-import-position


def transforms():
    x = jnp.arange(1000, dtype=jnp.float32)
    assert float(jax.jit(lambda v: (v * 2 + 1).sum())(x)) == 1000000
    slope = jax.vmap(jax.grad(lambda v: v ** 3))(x)
    assert numpy.allclose(slope, 3 * numpy.arange(1000.0) ** 2, rtol=1e-5)
    record("slopes", slope)
    last, sums = lax.scan(lambda s, v: (s + v, s + v), 0.0, x)
    assert float(last) == 499500 and float(sums[10]) == 55
    record("scan", sums)
    record("bends", jax.hessian(lambda v: jnp.sin(v).prod())(x[1:20] / 7))
    record("forward", jax.jvp(jnp.cumsum, (x,), (jnp.ones_like(x),))[1])
    count = lax.while_loop(lambda v: v[0] < 1e6, lambda v: (v[0] * 1.1 + 1, v[1] + 1), (1.0, 0))
    record("rounds of a loop", count[1])
    record("branches", jax.jit(lambda v: lax.cond(v[3] > 2, jnp.sin, jnp.cos, v))(x))
    record("counted loop", lax.fori_loop(0, 50, lambda i, v: v + jnp.sin(v * i), x))


def algebra():
    dice = numpy.random.default_rng(2)
    a = dice.standard_normal((128, 128)).astype(numpy.float32)
    record("product", jnp.asarray(a) @ jnp.asarray(a))
    record("product of bfloat16", jnp.asarray(a, jnp.bfloat16) @ jnp.asarray(a, jnp.bfloat16))
    record("batches", jnp.einsum("bij,bjk->bik", a.reshape(8, 32, 64), a.reshape(8, 64, 32)))
    record("convolution", lax.conv(a.reshape(1, 4, 64, 64), a[:36].reshape(128, 4, 3, 3), (1, 1), "SAME"))
    # Else products are of TensorFloat-32, which the checks would notice.
    with jax.default_matmul_precision("float32"):
        decompositions(a, a @ a.T + 128 * numpy.eye(128, dtype=numpy.float32))


def decompositions(a, definite):
    assert numpy.allclose(jnp.asarray(a) @ jnp.asarray(a), a @ a, atol=1e-2)
    assert numpy.allclose(jnp.linalg.solve(definite, definite @ jnp.ones(128)), 1, atol=1e-2)
    record("solve", jnp.linalg.solve(definite, a))
    record("cholesky", jnp.linalg.cholesky(definite))
    record("inverse", jnp.linalg.inv(definite))
    values, vectors = jnp.linalg.eigh(definite)
    assert numpy.allclose(vectors @ jnp.diag(values) @ vectors.T, definite, atol=0.1)
    record("eigenvalues", values)
    q, r = jnp.linalg.qr(a)
    assert numpy.allclose(q @ r, a, atol=1e-2)
    record("singular values", jnp.linalg.svd(a, compute_uv=False))
    wave = jnp.fft.fft(a)
    assert numpy.allclose(wave, numpy.fft.fft(a), atol=1e-2)
    record("fft", wave)


def numbers():
    key = jax.random.key(1)
    keys = jax.random.split(key, 6)
    record("normal", jax.random.normal(keys[0], (1000, 100)))
    record("uniform", jax.random.uniform(keys[1], (10000,)))
    record("integers", jax.random.randint(keys[2], (10000,), 0, 1 << 30))
    record("permutation", jax.random.permutation(keys[3], 20000))
    record("categories", jax.random.categorical(keys[4], jnp.arange(10.0) / 3, shape=(5000,)))
    record("gamma", jax.random.gamma(keys[5], 2.5, (1000,)))
    x = jax.random.normal(key, (100000,))
    assert numpy.array_equal(jnp.sort(x), numpy.sort(x))
    record("order", jnp.argsort(x))
    record("top", lax.top_k(x, 50)[0])
    record("unique", jnp.unique((x * 100).astype(jnp.int32)))
    record("scattered", jnp.zeros(100).at[(x * 10).astype(jnp.int32) % 100].add(x))


def training():
    """A small network learns the sum of its inputs' squares, momentum and all in one jit."""
    keys = jax.random.split(jax.random.key(3), 4)
    params = [(jax.random.normal(keys[0], (16, 128)) / 4, jnp.zeros(128)),
              (jax.random.normal(keys[1], (128, 128)) / 12, jnp.zeros(128)),
              (jax.random.normal(keys[2], (128, 1)) / 12, jnp.zeros(1))]
    x = jax.random.normal(keys[3], (1024, 16))
    y = jnp.square(x).mean(1, keepdims=True)

    def loss_of(params, x, y):
        for weight, bias in params[:-1]:
            x = jax.nn.gelu(x @ weight + bias)
        return jnp.square(x @ params[-1][0] + params[-1][1] - y).mean()

    @jax.jit
    def step(params, speed):
        loss, slope = jax.value_and_grad(loss_of)(params, x, y)
        speed = jax.tree.map(lambda s, g: 0.9 * s + g, speed, slope)
        return jax.tree.map(lambda p, s: p - 0.02 * s, params, speed), speed, loss

    speed, losses = jax.tree.map(jnp.zeros_like, params), []
    for _ in range(200):
        params, speed, loss = step(params, speed)
        losses.append(loss)
    assert losses[-1] < losses[0] / 3, losses
    record("losses", losses)
    record("weights", params[1][0])


def runs_out():
    """What is too large is refused, and the next is not."""
    try:
        jnp.zeros((1 << 18, 1 << 18), jnp.float32).block_until_ready()
        raise SystemExit("256 GiB were given")
    except (RuntimeError, ValueError) as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
    record("after that", jnp.arange(100).cumsum())


def main():
    assert jax.devices()[0].platform == "gpu", jax.devices()
    for part in (transforms, algebra, numbers, training, runs_out):
        part()
    done()


if __name__ == "__main__":
    main()
