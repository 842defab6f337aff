# SPDX-License-Identifier: Apache-2.0
"""Warp's own tests, by unittest as its authors run them, a module at a time.

Each unit has an empty cache of kernels: both sides compile.
"""

import glob
import os

# Later versions write machine code, which the software GPU does not run.
TITLE, DISTRIBUTION = "Warp", "warp-lang"
PACKAGE = "warp"
REQUIREMENTS = ["warp-lang==1.17.0", "numpy==2.4.6"]
FOLDERS = ("WARP_CACHE_PATH",)
STALL_S = 150
UNIT_LIMIT_S = 1800
SHORT = tuple("""
    cuda.test_capture_mode cuda.test_conditional_captures cuda.test_ipc cuda.test_kernel_attributes
    cuda.test_mempool cuda.test_pinned cuda.test_texture cuda.test_unified_memory geometry.test_mesh
    test_allocator test_array_reduce test_atomic test_copy test_launch test_rand test_struct test_tape
    test_types test_utils""".split())
LEFT_OUT = {"*:*_cpu": "uses no GPU"}
TOO_SLOW = {
    "fem.*": "integrates over meshes: minutes for a test",
    "geometry.test_grouped_bvh:*_capture_bvh_rebuild_*": "sorts 100 000 boxes",
    "test_examples": "whole simulations: minutes for each",
    "test_graph:*_alloc_transient_stream_*": "runs 6 thousand million threads",
    "test_graph:*_preserves_merged_frontier_*": "runs thousands of millions of threads",
    "test_large:*": "launches 2^33 threads",
    "test_linear_solvers:*_gmres_*": "minutes for a test",
    "tile.test_tile_cholesky": "code of libmathdx: a minute for a test",
    "tile.test_tile_mathdx": "code of libmathdx: a minute for a test",
    "tile.test_tile_matmul": "code of libmathdx: a minute for a test",
    "tile.test_tile_solve": "code of libmathdx: a minute for a test",
}


def prepare(site, real):
    """The software GPU needs PTX, which also programs that tests start have to write."""
    if real:
        return
    path = os.path.join(site, "warp", "config.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    line = "\ncuda_output: str | None = "
    assert line + "None\n" in text, "Warp's setting of the output has changed"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(line + "None\n", line + '"ptx"\n'))


def units(site):
    """The modules of tests."""
    root = os.path.join(site, "warp", "tests")
    paths = glob.glob(os.path.join(root, "**", "test_*.py"), recursive=True)
    return [os.path.relpath(path, root)[:-len(".py")].replace(os.sep, ".") for path in paths]


def command(_, unit):
    """What Python runs for a unit."""
    return ["-m", "outcomes", "unittest", "warp.tests." + unit]
