# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators with the sample inputs of its own tests (OpInfo): a GPU against the processor.

    torch_ops.py GROUP

Each operator of the group is a test for its results, and one for its gradients if it has any. An
operator that draws random numbers only has to run. SUITES_DEVICE replaces `cuda'.
"""

import itertools
import os
import sys
import types
import unittest
import warnings

import outcomes

try:
    import expecttest  # noqa: F401
except ImportError:  # PyTorch's test helpers import it, and these tests do not use it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

import torch  # pylint: disable=wrong-import-position
from torch.testing._internal import common_methods_invocations  # pylint: disable=wrong-import-position
from torch.utils._pytree import tree_flatten, tree_map  # pylint: disable=wrong-import-position

DEVICE = os.environ.get("SUITES_DEVICE", "cuda")
SAMPLES_MAX = 8
TOLERANCE = 1e-3
# Results that depend on what was in memory, or on chance.
RANDOM = ("bernoulli", "multinomial", "cauchy", "dropout", "empty", "exponential", "geometric",
          "log_normal", "normal", "rand", "rrelu", "uniform", "pca_lowrank", "svd_lowrank",
          "fractional_max_pool")
# Of these only the product of the parts is defined, not the parts.
FREE = ("eig", "svd", "qr", "linalg.matrix_rank", "lobpcg")


def group_of(op):
    """The namespace of the operator, or its first letter."""
    name = op.name.lower()
    space = next((space for space in ("nn.functional", "linalg", "fft", "special", "masked")
                  if name.startswith(space + ".")), None)
    if space == "nn.functional":
        return "nn-" + name[len(space) + 1]
    return space or (name[0] if name[0].isalpha() else "other")


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def has_defined_result(op):
    words = op.name.lower()
    return not any(word in words for word in RANDOM + FREE)


def leaves(value):
    """The tensors in a result."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def to_processor(value):
    """A copy of an input on the processor, with gradients of its own."""
    def move(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().cpu().requires_grad_(leaf.requires_grad)
        return torch.device("cpu") if leaf == DEVICE or leaf == torch.device(DEVICE) else leaf
    return tree_map(move, value)


def compare(mine, theirs):
    """Tensors of both devices are equal, but for rounding."""
    mine, theirs = leaves(mine), leaves(theirs)
    assert len(mine) == len(theirs), "another number of results"
    for one, other in zip(mine, theirs):
        if one.layout != torch.strided or one.is_quantized:
            one, other = one.to_dense(), other.to_dense()
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=TOLERANCE,
                                   atol=TOLERANCE, equal_nan=True)


def gradients(result, inputs):
    """The gradients of the sum of all results, by the inputs."""
    parts = [leaf.abs().sum() for leaf in leaves(result) if leaf.requires_grad]
    wanted = [leaf for leaf in leaves(inputs) if leaf.requires_grad and leaf.is_leaf]
    if not parts or not wanted:
        return []
    found = torch.autograd.grad(sum(parts), wanted, allow_unused=True)
    return [grad for grad in found if grad is not None]


def run(op, backward):
    """Up to SAMPLES_MAX samples of the operator on both devices."""
    torch.manual_seed(7)
    samples = op.sample_inputs(DEVICE, torch.float32, requires_grad=backward)
    for sample in itertools.islice(samples, SAMPLES_MAX):
        inputs = (sample.input, sample.args, sample.kwargs)
        copies = to_processor(inputs)
        mine = op(inputs[0], *inputs[1], **inputs[2])
        if backward:
            mine = gradients(mine, inputs)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if not has_defined_result(op):
            continue
        theirs = op(copies[0], *copies[1], **copies[2])
        compare(mine, gradients(theirs, copies) if backward else theirs)


def tests(group):
    """Names and functions of the group's tests."""
    found = {}
    for op in common_methods_invocations.op_db:
        if group_of(op) != group or torch.float32 not in op.supported_dtypes(DEVICE):
            continue
        found[name_of(op)] = lambda op=op: run(op, False)
        if op.supports_autograd:
            found[name_of(op) + " backward"] = lambda op=op: run(op, True)
    return found


def main(group):
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    outcomes.run_functions(tests(group))


if __name__ == "__main__":
    main(sys.argv[1])
