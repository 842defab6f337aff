# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators with its own sample inputs (torch_ops.py), by namespace or first letter."""

import os
import string

TITLE, DISTRIBUTION = "PyTorch, OpInfo,", "torch"
PACKAGE = "torch"
NEEDS = "machine code"
PREFER_INSTALLED = True
WITH_DEPENDENCIES = True
REQUIREMENTS = ["torch==2.11.0", "numpy==2.4.6", "expecttest==0.3.0"]
SHORT = ("a", "fft", "linalg", "nn-c")
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch_ops.py")


def units(_):
    """Groups of operators; some letters have none."""
    return (["fft", "linalg", "masked", "other", "special", *string.ascii_lowercase]
            + ["nn-" + letter for letter in string.ascii_lowercase])


def command(_, unit):
    """What Python runs for a unit."""
    return [SCRIPT, unit]
