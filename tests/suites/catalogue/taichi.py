# SPDX-License-Identifier: Apache-2.0
"""Taichi's kernels on a GPU, compared with its processor backend (taichi_ops.py).

Its own tests are not in its wheels.
"""

import os

TITLE = "Taichi, kernels,"
DISTRIBUTION = PACKAGE = "taichi"
REQUIREMENTS = """
    taichi==1.7.4 numpy==2.4.6 rich==15.0.0 colorama==0.4.6 dill==0.4.1 pygments==2.21.0
    markdown-it-py==4.3.0 mdurl==0.1.2""".split()
ENV = {"TI_SKIP_VERSION_CHECK": "ON"}
SHORT = ("threads",)
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "taichi_ops.py")


def units(_):
    """The groups of taichi_ops.py."""
    return ["arithmetic", "fields", "threads", "derivatives", "programs"]


def command(_, unit):
    """What Python runs for a unit."""
    return [SCRIPT, unit]
