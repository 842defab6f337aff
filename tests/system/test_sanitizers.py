#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
# without sanitizers: the library has another sanitizer than the program
"""Programs that were built with a compiler's sanitizers run as clients as they do natively."""

import os
import shutil
import subprocess
import tempfile

import harness
import mps
from harness import Skip, equal
from test_native import native_env
from test_runtimes import tool

SOURCE = os.path.join(harness.ROOT, "tests", "programs", "driver_api", "host_pages.c")


def build(folder, compiler, sanitizer):
    path = os.path.join(folder, "sanitized")
    headers = tool("--headers") + "/include"
    done = subprocess.run(
        [compiler, "-fsanitize=" + sanitizer, "-g", "-O1", "-isystem", headers, "-o", path,
         SOURCE, os.path.join(harness.BUILD, "lib", "libcuda.so.1"),
         "-Wl,--allow-shlib-undefined", "-pthread"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip("%s cannot link with -fsanitize=%s: %s"
                   % (compiler, sanitizer, done.stderr.strip()[-120:]))
    return path


def run(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


def check(compiler, sanitizer):
    if not shutil.which(compiler):
        raise Skip("%s is not installed" % compiler)
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        command = [build(folder, compiler, sanitizer)]
        alone = run(command, native_env())
        if alone[0] != 0:
            # The kernel may spread mappings further than the sanitizer supports.
            command = ["setarch", "-R"] + command
            alone = run(command, native_env())
        if alone[0] != 0:
            raise Skip("the program does not run natively: " + alone[2].strip()[:120])
        equal(alone, (0, "ready\nhost_pages: ok\n", ""))
        # gcc's AddressSanitizer insists on being the first library.
        found = service.client_env(preload=False,
                                   LD_LIBRARY_PATH=os.path.join(harness.BUILD, "lib"))
        equal(run(command, found), alone)
        loaded = service.client_env()
        loaded["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        equal(run(command, loaded), alone)


def test_thread_gcc():
    check("gcc", "thread")


def test_thread_clang():
    check("clang", "thread")


def test_address_gcc():
    check("gcc", "address")


def test_address_clang():
    check("clang", "address")


def test_memory_clang():
    check("clang", "memory")


if __name__ == "__main__":
    harness.main(globals())
