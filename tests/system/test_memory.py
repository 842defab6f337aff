#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""Memory that is mapped, pooled or shared is freed with its last user."""

import subprocess
import sys
import time

import harness
import mps
from harness import equal, wait_for
from test_kill import gives_back, settle
from test_native import native


def test_orphan():
    """The creator of shared memory is killed; it stays for the processes that have it open."""
    with mps.Service() as service:
        for name in 2 * ("ipc_memory", "pool_ipc"):
            service.run_ok(name)
            service.run_ok(name, "orphan")
        server = service.server()
        before = settle(service, server)
        for name in 3 * ("ipc_memory", "pool_ipc"):
            service.run_ok(name, "orphan")
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_orphans_at_once():
    with mps.Service() as service:
        names = 3 * ("ipc_memory", "pool_ipc")
        running = [service.popen(name, "orphan") for name in names]
        for name, process in zip(names, running):
            code, out, err = service.finish(process)
            equal((code, out), (0, name + ": ok\n"), err)


def test_descriptor_outlives_its_session():
    """No other client gets memory of which a descriptor exists (a file on the software GPU)."""
    word = (0x12345678).to_bytes(4, "little")
    with mps.Service({"SOFTGPU_MEMORY_MIB": "256"}) as service:
        program = service.popen("dma_buf", "hold", stdin=subprocess.PIPE)
        number = program.stdout.readline().strip()
        with open("/proc/%d/fd/%s" % (program.pid, number), "rb") as file:
            equal(service.finish(program)[:2], (0, "dma_buf: ok\n"))
            for way in "plain", "create":
                out, _ = service.run("limited_memory", way, "4096")[1:]
                assert "then 2" in out, out
                service.run_ok("alloc_patterns")
            content = file.read()
            equal(content.count(word), len(content) // 4)
            assert len(content) >= 4 << 20, len(content)


def killed(name, *args):
    """A program is killed at many moments, and the server has everything back."""
    with mps.Service() as service:
        service.run_ok(name, *args)
        service.run_ok(name, *args)
        server = service.server()
        before = settle(service, server)
        dice = harness.dice()
        for i in range(12):
            client = service.popen(name, *args)
            time.sleep(dice.random() * 0.04 * i)
            client.kill()
            client.communicate(timeout=60)
            service.started.remove(client)
        equal(service.servers(), [server])
        gives_back(service, server, before)
        service.run_ok(name, *args)


def test_kill_virtual_memory():
    killed("virtual_memory")


def test_green_contexts_are_kept():
    """The driver leaks memory with each creation, so later clients get those of earlier ones."""
    with mps.Service() as service:
        # One is kept once its streams are known to have ended; until then its own program may need
        # another. So there are enough of each kind after some programs: five more need no other.
        for process in [service.popen("green_contexts") for _ in range(4)]:
            equal(service.finish(process)[:2], (0, "green_contexts: ok\n"))
        server = service.server()

        def kept():
            settle(service, server)
            return service.stats(server)["greens"]

        def grows():
            before = kept()
            for _ in range(5):
                service.run_ok("green_contexts")
            return kept() > before

        assert kept() > 0
        assert not all(grows() for _ in range(4)), "%d green contexts" % kept()


def test_compressed_memory():
    with mps.Service() as service:
        service.run_ok("virtual_memory", "--compressed")


def test_kill_allocations():
    killed("alloc_patterns")


def test_full_pool():
    """An allocation waits for what other streams are about to free, but not for ever."""
    equal(native("pool_full", SOFTGPU_MEMORY_MIB="256")[:2], (0, "pool_full: ok\n"))
    with mps.Service({"SOFTGPU_MEMORY_MIB": "256"}) as service:
        service.run_ok("pool_full", "--semaphore")


MANAGED = ["managed_" + form for form in ("variable", "cubin", "linked", "parts", "debug", "module")]


def test_managed_variables():
    """With every way of building; several programs at once; the server has everything back."""
    with mps.Service() as service:
        service.run_ok("managed_module")
        server = service.server()
        before = settle(service, server)
        for name in MANAGED:
            service.run_ok(name)
        several = [service.popen(name) for name in MANAGED]
        for name, process in zip(MANAGED, several):
            equal(service.finish(process)[:2], (0, name + ": ok\n"))
        equal(service.servers(), [server])
        gives_back(service, server, before)


def test_kill_managed_variables():
    killed("managed_module")


def test_managed_variables_too_late():
    """Refused with a message if a kernel has used its own variables already."""
    with mps.Service() as service:
        code, out, err = service.run("managed_module", "--late")
        equal((code, out), (0, "managed_module: CUDA_ERROR_NOT_SUPPORTED\n"), err)
        assert "the __managed__ variable word" in err, err
        service.run_ok("managed_module")


def test_kill_shared_mappings():
    killed("registered_shared")


def test_exchanged_pages():
    """Kernels use private registered memory; a variable forbids it; a kill leaves nothing."""
    with mps.Service() as service:
        service.run_ok("registered_private")
        server = service.server()
        before = settle(service, server)
        service.run_ok("registered_private", "--rounds", "3")
        gives_back(service, server, before)
        code, out, err = service.run("registered_private",
                                     env={"MPS_DISABLE": "registered"})
        equal(code, 1, out + err)
        assert "operation not supported (801)" in out, out
        assert "MPS_DISABLE=registered forbids" in err, err
    killed("registered_private")


def test_files_cut_short():
    """While the GPU uses them; a neighbour continues, and a kill at any moment leaves nothing."""
    with mps.Service() as service:
        neighbour = service.popen("process1", "--seconds", "2")
        several = [service.popen("registered_cut", "--rounds", "5") for _ in range(2)]
        for process in several:
            equal(service.finish(process)[:2], (0, "registered_cut: ok\n"))
        server = service.server()
        equal(service.finish(neighbour)[:2], (0, "process1: ok\n"))
        equal(service.servers(), [server])
    killed("registered_cut")


def test_kill_ipc():
    killed("ipc_memory")
    killed("pool_ipc")
    killed("ipc_event")


CONTEXT = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)
context, handle, at = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
must("cuInit", 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
must("cuCtxSetCurrent", context)
"""

SLEEPER = CONTEXT + """
prop, access = (ctypes.c_int * 8)(1, 0, 1, 0), (ctypes.c_int * 3)(1, 0, 3)
size, zero = ctypes.c_size_t(2 << 20), ctypes.c_uint64(0)
must("cuMemCreate", ctypes.byref(handle), size, prop, zero)
must("cuMemAddressReserve", ctypes.byref(at), size, zero, zero, zero)
must("cuMemMap", at, size, zero, handle, ctypes.c_uint64(0))
must("cuMemSetAccess", at, size, access, ctypes.c_size_t(1))
for _ in range(20):
    must("cuMemsetD8_v2", at, 1, size)
    must("cuCtxSynchronize")
must("cuMemUnmap", at, size)
print("idle", flush=True)
time.sleep(60)
"""


def test_sleeper():
    """A program that sleeps after a free does not keep other programs' code in the server."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        process = service.popen(sys.executable, "-c", SLEEPER)
        equal(process.stdout.readline(), "idle\n")
        service.run_ok("disturb", "load")
        wait_for("its code to be gone", lambda: service.stats(server)["libraries"]
                 == mps.OWN_LIBRARIES)
        process.kill()


# Frees most of the GPU's memory; then runs the inserted statement at once, and stays.
KEEPER = CONTEXT + """
large, stream, wait = ctypes.c_uint64(), ctypes.c_void_p(), cuda.cuStreamWaitValue32_v2
must("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(64))
must("cuMemsetD8_v2", at, 0, ctypes.c_size_t(64))
must("cuStreamCreate", ctypes.byref(stream), 1)
must("cuMemAlloc_v2", ctypes.byref(large), ctypes.c_size_t(700 << 20))
must("cuCtxSynchronize")
free = cuda.cuMemFree_v2
results = free(large), %s
assert results == (0, 0), results
print("kept", flush=True)
time.sleep(60)
"""

ASKER = CONTEXT + """
free, total = ctypes.c_size_t(), ctypes.c_size_t()
must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print(free.value >> 20, total.value >> 20)
"""


def is_free_for_others(service):
    code, out, err = service.run(sys.executable, "-c", ASKER)
    equal(code, 0, out + err)
    n_free, total = map(int, out.split())
    assert n_free <= total, out
    return n_free > total - 64


def kept_by(service, what):
    keeper = service.popen(sys.executable, "-c", KEEPER % what)
    equal(keeper.stdout.readline(), "kept\n")
    return keeper


def test_freed_memory_is_available_to_all():
    """A program that frees memory and sleeps keeps no more of it than docs/compat/memory.md says."""
    with mps.Service() as service:
        keeper = kept_by(service, "0")
        wait_for("its memory", lambda: is_free_for_others(service))
        keeper.kill()


def test_unused_memory_counts_as_free():
    """Another program's, too: programs rely on the reported free memory, and can get it."""
    with mps.Service() as service:
        keeper = kept_by(service, "wait(stream, at, 1, 0)")
        assert is_free_for_others(service)
        keeper.kill()


if __name__ == "__main__":
    harness.main(globals())
