# SPDX-License-Identifier: Apache-2.0
"""PyCUDA's own tests, by pytest, a file at a time. It compiles kernels by nvcc."""

import glob
import os
import shutil
import subprocess

TITLE, DISTRIBUTION = "PyCUDA", "pycuda"
PACKAGE = "pycuda"
REQUIREMENTS = """
    numpy==2.4.6 mako==1.3.12 markupsafe==3.0.3 pytools==2026.1.1 platformdirs==4.3.8
    siphash24==1.8 typing_extensions==4.14.0 setuptools==80.9.0 pytest==9.2.0 iniconfig==2.3.1
    pluggy==1.7.0 pygments==2.21.0 packaging==26.3 nvidia-curand==10.4.0.35""".split()
SOURCE = "pycuda==2026.1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDERS = ("PYCUDA_CACHE_DIR",)
# Building takes longer than a short run may.
SHORT = ()
UNIT_LIMIT_S = 1800
# On the software GPU, test_jit_link_module and test_recursive_launch fail: it has no kernels that
# launch kernels.
TOO_SLOW = {
    "test_gpuarray:*test_big_array_*": "2^32 elements",
    "test_gpuarray:*_with_unequal_dtypes*": "144 pairs of types: compiles for minutes",
}


def cuda_home():
    """The folder of CUDA, by an absolute path."""
    done = subprocess.run([os.path.join(ROOT, "tests", "setup"), "--cuda"], capture_output=True,
                          text=True, check=False)
    return os.path.join(ROOT, done.stdout.strip())


ENV = {"PATH": os.path.join(cuda_home(), "bin") + os.pathsep + os.environ["PATH"]}


def configure(source):
    """Builds fast. cuRAND is that of the wheel, as a folder of CUDA need not have it."""
    curand = glob.glob(os.path.join(os.path.dirname(source), os.pardir, "lib", "python*",
                                    "site-packages", "nvidia", "cu13"))[0]
    curand = os.path.abspath(curand)
    home = cuda_home()
    settings = {
        "CUDA_ROOT": home,
        "CUDA_INC_DIR": [os.path.join(home, "include"), os.path.join(curand, "include")],
        "CUDADRV_LIB_DIR": [os.path.join(ROOT, "build", "softgpu")],
        "CURAND_LIB_DIR": [os.path.join(curand, "lib")],
        "CURAND_LIBNAME": [":libcurand.so.10"],
        "CXXFLAGS": ["-O0", "-g0"],
        "LDFLAGS": ["-Wl,-rpath," + os.path.join(curand, "lib")],
    }
    with open(os.path.join(source, "siteconf.py"), "w", encoding="utf-8") as file:
        file.write("".join("%s = %r\n" % pair for pair in settings.items()))


def prepare(site, real):
    """Puts its tests and cuRAND into the package. The software GPU needs PTX, not machine code."""
    source = glob.glob(os.path.join(site, *[os.pardir] * 3, "src", "pycuda-*", "test"))[0]
    shutil.copytree(source, os.path.join(site, "pycuda", "test"))
    # nvcc looks for headers there, too.
    for path in glob.glob(os.path.join(site, "nvidia", "cu13", "include", "curand*.h")):
        os.symlink(path, os.path.join(site, "pycuda", "cuda", os.path.basename(path)))
    if real:
        return
    path = os.path.join(site, "pycuda", "compiler.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    line = '    target="cubin",\n'
    assert text.count(line) == 1, "PyCUDA's choice of the output has changed"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(line, line.replace("cubin", "ptx")))


def units(site):
    """The files of tests."""
    paths = glob.glob(os.path.join(site, "pycuda", "test", "test_*.py"))
    return [os.path.basename(path)[:-len(".py")] for path in paths]


def command(site, unit):
    """What Python runs for a unit."""
    folder = os.path.join(site, "pycuda", "test")
    return ["-m", "pytest", "-p", "outcomes", "-p", "no:cacheprovider", "-q", "--tb=short",
            "--rootdir", folder, os.path.join(folder, unit + ".py")]
