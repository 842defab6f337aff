# SPDX-License-Identifier: Apache-2.0
"""numba-cuda's own tests, by pytest, a module at a time."""

import glob
import os
import subprocess

TITLE = DISTRIBUTION = "numba-cuda"
PACKAGE = "numba_cuda"
# Compilers of CUDA 13.0: those of later versions write PTX that a driver of 13.0 cannot load.
# Later bindings lack a member that the tests of IPC read.
REQUIREMENTS = """
    numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 numpy==2.4.6 packaging==26.3 cffi==2.0.0
    pycparser==2.23 cuda-bindings==13.0.3 cuda-core==1.2.2 cuda-pathfinder==1.9.0
    nvidia-nvvm==13.0.88 nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 filecheck==1.0.6 pytest==9.2.0 iniconfig==2.3.1 pluggy==1.7.0
    pygments==2.21.0 ml_dtypes==0.5.4""".split()
REQUIREMENTS_GPU = ["nvidia-nvjitlink==13.0.88"]
TESTS = os.path.join("numba_cuda", "numba", "cuda", "tests")
SHORT = tuple("""
    cudadrv.test_context_stack cudadrv.test_cuda_driver cudadrv.test_cuda_memory
    cudadrv.test_cuda_ndarray cudadrv.test_events cudadrv.test_host_alloc cudadrv.test_linker
    cudadrv.test_managed_alloc cudadrv.test_pinned cudapy.test_cooperative_groups
    cudapy.test_cuda_array_interface cudapy.test_dispatcher cudapy.test_gufunc cudapy.test_ipc
    cudapy.test_print cudapy.test_reduction cudapy.test_stream_api cudapy.test_warp_ops""".split())


def prepare(site, real):
    """The software GPU runs PTX only: an empty nvJitLink makes Numba use the driver's linker.

    Without any, Numba would find that of a CUDA toolkit on the machine.
    """
    if real:
        return
    path = os.path.join(site, "nvidia", "cu13", "lib", "libnvJitLink.so.13")
    subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-x", "c", "-", "-o", path],
                   stdin=subprocess.DEVNULL, check=True)


def units(site):
    """The modules of tests. `benchmarks' measure time, and check nothing."""
    root = os.path.join(site, TESTS)
    paths = glob.glob(os.path.join(root, "**", "test_*.py"), recursive=True)
    names = [os.path.relpath(path, root)[:-len(".py")].replace(os.sep, ".") for path in paths]
    return [name for name in names if not name.startswith("benchmarks.")]


def command(site, unit):
    """What Python runs for a unit."""
    path = os.path.join(site, TESTS, *unit.split(".")) + ".py"
    return ["-m", "pytest", "-p", "outcomes", "-p", "numba_fixture", "-p", "no:cacheprovider", "-q",
            "--tb=short", "-o", "consider_namespace_packages=true", "--rootdir", site, path]
