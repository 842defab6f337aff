# SPDX-License-Identifier: Apache-2.0
"""What JAX programs do: jit, grad, vmap, scan, linear algebra, random numbers."""

import jax
import jax.numpy as jnp
import numpy


def main():
    assert jax.devices()[0].platform == "gpu", jax.devices()
    x = jnp.arange(1000, dtype=jnp.float32)
    assert float(jax.jit(lambda v: (v * 2 + 1).sum())(x)) == 1000000
    slope = jax.vmap(jax.grad(lambda v: v ** 3))(x)
    assert numpy.allclose(slope, 3 * numpy.arange(1000.0) ** 2, rtol=1e-5)
    last, sums = jax.lax.scan(lambda s, v: (s + v, s + v), 0.0, x)
    assert float(last) == 499500 and float(sums[10]) == 55
    a = jax.random.normal(jax.random.PRNGKey(1), (64, 64)) + 8 * jnp.eye(64)
    assert numpy.allclose(jnp.linalg.solve(a, a @ jnp.ones(64)), numpy.ones(64), atol=1e-3)
    with jax.default_matmul_precision("float32"):
        b = numpy.random.default_rng(2).standard_normal((128, 128)).astype(numpy.float32)
        assert numpy.allclose(jnp.asarray(b) @ jnp.asarray(b), b @ b, atol=1e-2)
    print("jax_basics: ok")


if __name__ == "__main__":
    main()
