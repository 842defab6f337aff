# SPDX-License-Identifier: Apache-2.0
"""JAX's functions on a GPU, compared with its processor backend (jax_ops.py)."""

import os

TITLE, DISTRIBUTION = "JAX, jax.numpy and jax.lax,", "jax"
PACKAGE = "jax"
NEEDS = "machine code"
PREFER_INSTALLED = True
WITH_DEPENDENCIES = True
REQUIREMENTS = ["jax[cuda13]==0.10.2"]
# Beside a second program, JAX would take most of the GPU's memory.
ENV = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
SHORT = ("unary", "reductions", "control")
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "jax_ops.py")


def units(_):
    """The groups of jax_ops.py."""
    return ["unary", "binary", "reductions", "shapes", "linalg", "fft", "control", "transforms",
            "random", "lax"]


def command(_, unit):
    """What Python runs for a unit."""
    return [SCRIPT, unit]
