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
# Modules about the code that the compiler generates: they compile for minutes.
COMPILER = """
    deterministic.test_deterministic_[bcos]* matrix.* test_arithmetic test_assert test_bf16 test_codegen*
    test_compil* test_fabricarray test_fast_math test_func* test_generics test_grad* test_map test_math
    test_module_* test_noise test_op* test_overwrite test_quat* test_ref test_scalar_ops test_spatial*
    test_special_values test_static test_subscript_types test_template_* test_vec*""".split()
TOO_SLOW = {
    "cuda.test_async:*_Access[BDS]*": "access between GPUs changes nothing on one GPU",
    "cuda.test_async:*_Grad_*": "copies as without gradients, and there are 2373 of these tests",
    "fem.*": "integrates over meshes: minutes for a test",
    "geometry.test_grouped_bvh:*_capture_bvh_rebuild_*": "sorts 100 000 boxes",
    "geometry.test_volume": "a minute of compiling",
    "test_examples": "whole simulations: minutes for each",
    "test_graph:*_alloc_transient_stream_*": "runs 6 thousand million threads",
    "test_graph:*_preserves_merged_frontier_*": "runs thousands of millions of threads",
    "test_large:*": "launches 2^33 threads",
    "test_linear_solvers:*_gmres_*": "minutes for a test",
    "tile.test_tile_[a-z]*": "compiles for minutes; tile.test_tile runs",
    **dict.fromkeys(COMPILER, "tests the generated code, and compiles for minutes"),
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
