# SPDX-License-Identifier: Apache-2.0
"""Functions of jax.numpy and jax.lax: the default device, such as a GPU, against the processor.

    jax_ops.py GROUP

Each function is a test. It is compiled and runs on both devices with the same inputs.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import outcomes

TOLERANCE = 2e-3
UNARY = """abs negative sign floor ceil round rint trunc exp exp2 expm1 log log2 log10 log1p sqrt cbrt square
    reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh sinc deg2rad isnan
    isfinite signbit i0 sort argsort cumsum cumprod diff flip ravel transpose ptp nan_to_num unwrap
    gradient logical_not frexp modf""".split()
BINARY = """add subtract multiply divide power maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2
    mod fmod floor_divide copysign nextafter greater less equal not_equal logical_and logical_or
    logical_xor heaviside matmul dot inner outer kron cross convolve correlate polyval isclose
    searchsorted ldexp""".split()
REDUCTIONS = """sum prod mean std var max min argmax argmin any all median nansum nanmean nanmax
    count_nonzero linalg.norm average""".split()


def numbers(*shape, seed=3):
    return np.random.RandomState(seed).uniform(0.1, 0.9, shape).astype(np.float32)


def positive(n, seed=3):
    """A symmetric matrix with positive eigenvalues."""
    a = numbers(n, n, seed=seed)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def lookup(name):
    found = jnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def unary():
    return {name: (lookup(name), (numbers(17, 33),)) for name in UNARY}


def binary():
    """Most take matrices; these take vectors."""
    vectors = ("convolve", "correlate", "polyval", "searchsorted", "outer", "inner")
    found = {}
    for name in BINARY:
        shape = (29,) if name in vectors else (31, 3) if name == "cross" else (24, 24)
        inputs = numbers(*shape), numbers(*shape, seed=4)
        if name == "ldexp":
            inputs = inputs[0], (inputs[1] * 5).astype(np.int32)
        if name == "searchsorted":
            inputs = np.sort(inputs[0]), inputs[1]
        found[name] = lookup(name), inputs
    return found


def reductions():
    found = {}
    for name in REDUCTIONS:
        for axis in (None, 0, 1):
            found["%s axis %s" % (name, axis)] = (
                lambda x, f=lookup(name), axis=axis: f(x, axis=axis), (numbers(127, 65),))
    found["sum of a million"] = jnp.sum, (numbers(1000, 1000),)
    return found


def shapes():
    x = numbers(12, 10)
    return {
        "reshape": (lambda x: x.reshape(5, 24), (x,)),
        "concatenate": (lambda x: jnp.concatenate([x, x], axis=1), (x,)),
        "stack": (lambda x: jnp.stack([x, 2 * x]), (x,)),
        "tile": (lambda x: jnp.tile(x, (2, 3)), (x,)),
        "pad": (lambda x: jnp.pad(x, 2, mode="reflect"), (x,)),
        "roll": (lambda x: jnp.roll(x, 3, axis=0), (x,)),
        "take": (lambda x: jnp.take(x, jnp.array([3, 1, 1]), axis=0), (x,)),
        "index update": (lambda x: x.at[2:5].set(1.0), (x,)),
        "index add": (lambda x: x.at[jnp.array([1, 1, 2])].add(1.0), (x,)),
        "where": (lambda x: jnp.where(x > 0.5, x, -x), (x,)),
        "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x), (x,)),
        "histogram": (lambda x: jnp.histogram(x, bins=8, range=(0, 1))[0], (x,)),
        "bfloat16": (lambda x: (x.astype(jnp.bfloat16) * 2).astype(jnp.float32), (x,)),
        "int8": (lambda x: (x * 100).astype(jnp.int8), (x,)),
    }


def linalg():
    a, b = positive(24), numbers(24, 5)
    return {
        "cholesky": (jnp.linalg.cholesky, (a,)),
        "inv": (jnp.linalg.inv, (a,)),
        "det": (jnp.linalg.slogdet, (a,)),
        "solve": (jnp.linalg.solve, (a, b)),
        "eigvalsh": (jnp.linalg.eigvalsh, (a,)),
        "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), (a,)),
        "qr": (lambda x: jnp.matmul(*jnp.linalg.qr(x)), (a,)),
        "lstsq": (lambda x, y: jnp.linalg.lstsq(x, y)[0], (a, b)),
        "triangular": (lambda x, y: jax.scipy.linalg.solve_triangular(x, y, lower=True), (a, b)),
        "matrix power": (lambda x: jnp.linalg.matrix_power(x / 40, 5), (a,)),
        "batch": (jax.vmap(jnp.linalg.inv), (np.stack([positive(9, i) for i in range(4)]),)),
    }


def fft():
    x = numbers(16, 32)
    return {name: (getattr(jnp.fft, name), (x,)) for name in (
        "fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "fftn", "hfft", "fftshift")}


def control():
    x = numbers(40)
    return {
        "while": (lambda x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] * 1.1),
                                           (0, x))[1], (x,)),
        "fori": (lambda x: lax.fori_loop(0, 20, lambda i, s: s + i * x, x), (x,)),
        "cond": (lambda x: lax.cond(x.sum() > 1, jnp.sin, jnp.cos, x), (x,)),
        "switch": (lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x), (x,)),
        "scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x), (x,)),
        "associative scan": (lambda x: lax.associative_scan(jnp.add, x), (x,)),
        "map": (lambda x: lax.map(jnp.sin, x), (x,)),
        "callback": (lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
                     (x,)),
    }


def transforms():
    x, w = numbers(8, 12), numbers(12, 3)

    def loss(w, x):
        return jnp.tanh(x @ w).sum()

    return {
        "grad": (jax.grad(loss), (w, x)),
        "value and grad": (jax.value_and_grad(loss), (w, x)),
        "hessian": (jax.hessian(loss), (w, x)),
        "jacfwd": (jax.jacfwd(lambda x: jnp.sin(x) ** 2), (x[0],)),
        "jacrev": (jax.jacrev(lambda x: jnp.sin(x) ** 2), (x[0],)),
        "vmap": (jax.vmap(lambda v: v @ w), (x,)),
        "vmap of grad": (jax.vmap(jax.grad(lambda v: (v ** 3).sum())), (x,)),
        "checkpoint": (jax.grad(jax.checkpoint(loss)), (w, x)),
        "jvp": (lambda x: jax.jvp(jnp.exp, (x,), (x,)), (x,)),
    }


def random():
    key = np.asarray(jax.random.key_data(jax.random.key(5)))

    def draw(name, *args):
        return lambda data: getattr(jax.random, name)(jax.random.wrap_key_data(data), *args)

    return {name: (draw(name, *args), (key,)) for name, args in {
        "uniform": ((64,),), "normal": ((64,),), "bits": ((64,),), "bernoulli": (0.3, (64,)),
        "randint": ((64,), 0, 100), "permutation": (64,), "gumbel": ((64,),), "laplace": ((64,),),
        "exponential": ((64,),), "categorical": (np.log(numbers(10)),),
        "truncated_normal": (-1, 1, (64,)), "gamma": (2.0, (64,)), "poisson": (3.0, (64,))}.items()}


def operators():
    """Convolutions, windows and the like, which only lax has."""
    x, k = numbers(2, 3, 16, 16), numbers(4, 3, 3, 3)
    return {
        "conv": (lambda x, k: lax.conv(x, k, (1, 1), "SAME"), (x, k)),
        "conv gradient": (jax.grad(lambda k, x: lax.conv(x, k, (2, 2), "VALID").sum()), (k, x)),
        "max pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2),
                                                 "VALID"), (x,)),
        "top k": (lambda x: lax.top_k(x, 4), (x,)),
        "dynamic slice": (lambda x: lax.dynamic_slice(x, (0, 1, 2, 3), (2, 1, 4, 4)), (x,)),
        "population count": (lax.population_count, (np.arange(64, dtype=np.uint32),)),
        "sort by key": (lambda x: lax.sort_key_val(x, -x), (numbers(300),)),
        "dot general": (lambda x: lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))),
                        (numbers(3, 8, 9),)),
        "erf": (lax.erf, (x,)), "lgamma": (lax.lgamma, (x,)), "rsqrt": (lax.rsqrt, (x,)),
        "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (x,)),
        "reduce precision": (lambda x: lax.reduce_precision(x, 5, 10), (x,)),
    }


def check(function, inputs):
    """Both devices give the same result, but for rounding."""
    results = []
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        with jax.default_device(device):
            result = jax.jit(function)(*(jax.device_put(value, device) for value in inputs))
            results.append([np.asarray(leaf) for leaf in jax.tree.leaves(result)])
    assert len(results[0]) == len(results[1]), "another number of results"
    for mine, theirs in zip(*results):
        assert mine.dtype == theirs.dtype, "another type"
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def main(group):
    groups = {"unary": unary, "binary": binary, "reductions": reductions, "shapes": shapes,
              "linalg": linalg, "fft": fft, "control": control, "transforms": transforms,
              "random": random, "lax": operators}
    outcomes.run_functions({name: lambda case=case: check(*case)
                            for name, case in groups[group]().items()})


if __name__ == "__main__":
    main(sys.argv[1])
