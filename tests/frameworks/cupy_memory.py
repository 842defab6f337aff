# SPDX-License-Identifier: Apache-2.0
"""CuPy's memory pools, pinned and managed memory, streams, events, host functions and graphs."""

import ctypes

import cupy
import numpy
from outputs import done, record

MIB = 1 << 20


def pools():
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.used_bytes()
    x = cupy.zeros(MIB, cupy.float64)
    assert pool.used_bytes() - before == 8 * MIB
    del x
    assert pool.used_bytes() == before and pool.free_bytes() >= 8 * MIB
    pool.free_all_blocks()
    assert pool.free_bytes() == 0
    pool.set_limit(size=pool.total_bytes() + 64 * MIB)
    held = cupy.ones(4 * MIB, cupy.float64)
    try:
        cupy.ones(8 * MIB, cupy.float64)
        raise SystemExit("the pool's limit did not hold")
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    pool.set_limit(size=0)
    assert float(held.sum()) == 4 * MIB
    try:
        cupy.empty(1 << 42, cupy.uint8)
        raise SystemExit("four TiB were given")
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    record("after that", cupy.ones(1000).cumsum())
    free, total = cupy.cuda.Device().mem_info
    assert 0 < free <= total


def asynchronous():
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            sums = [cupy.full(n * 1000, n, cupy.int64).sum() for n in range(1, 40)]
            stream.synchronize()
            assert [int(s) for s in sums] == [n * n * 1000 for n in range(1, 40)]
            record("in the order of a stream", cupy.stack(sums))


def pinned():
    memory = cupy.cuda.alloc_pinned_memory(4 * MIB)
    host = numpy.frombuffer(memory, numpy.int32, MIB)
    host[:] = numpy.arange(MIB)
    stream = cupy.cuda.Stream(non_blocking=True)
    back = cupy.cuda.alloc_pinned_memory(4 * MIB)
    out = numpy.frombuffer(back, numpy.int32, MIB)
    with stream:
        device = cupy.empty(MIB, numpy.int32)
        for i in range(5):
            device.set(host, stream=stream)
            (device * (i + 2)).get(stream=stream, out=out, blocking=False)
    stream.synchronize()
    assert numpy.array_equal(out, host * 6)
    record("pinned", out)
    # The runtime's own, read in place by a kernel.
    zero_copy = cupy.ndarray(MIB, cupy.int32, cupy.cuda.MemoryPointer(
        cupy.cuda.UnownedMemory(memory.ptr, 4 * MIB, memory), 0))
    assert int(zero_copy.sum(dtype=cupy.int64)) == MIB * (MIB - 1) // 2


def managed():
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
        x = cupy.arange(MIB, dtype=cupy.int64)
        assert int((x * 2).sum()) == MIB * (MIB - 1)
        record("managed", x * 2)
        assert cupy.cuda.runtime.pointerGetAttributes(x.data.ptr).type == 3
    memory = cupy.cuda.ManagedMemory(4 * MIB)
    shared = numpy.ctypeslib.as_array((ctypes.c_int32 * MIB).from_address(memory.ptr))
    shared[:] = 5
    device = cupy.ndarray(MIB, cupy.int32, cupy.cuda.MemoryPointer(memory, 0))
    memory.prefetch(cupy.cuda.Stream.null)
    device += 1
    cupy.cuda.Stream.null.synchronize()
    assert (shared == 6).all()
    record("managed, both sides", shared)


def streams():
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True, priority=-1)
    x = cupy.zeros(MIB)
    cupy.cuda.Device().synchronize()
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record(first)
    for i in range(10):
        with first:
            x += i
        second.wait_event(first.record())
        with second:
            x *= 1.5
        first.wait_event(second.record())
    end.record(first)
    end.synchronize()
    assert cupy.cuda.get_elapsed_time(start, end) > 0 and end.done
    record("by turns", x)
    heard = []
    with first:
        for i in range(5):
            x += 1
            first.launch_host_func(heard.append, i)
    first.synchronize()
    assert heard == list(range(5)), heard


def graphs():
    x = cupy.arange(1000, dtype=cupy.float64)
    y = cupy.zeros_like(x)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        # Compiled before the capture, which allows no load of a module in some modes.
        cupy.multiply(x, 2, out=y)
        cupy.add(y, 1, out=y)
        y += x
        stream.synchronize()
        stream.begin_capture()
        cupy.multiply(x, 2, out=y)
        cupy.add(y, 1, out=y)
        y += x
        assert stream.is_capturing()
        graph = stream.end_capture()
        for i in range(10):
            x += i
            graph.launch(stream=stream)
        stream.synchronize()
    assert cupy.array_equal(y, 3 * x + 1)
    record("graph", y)
    other = cupy.cuda.Stream(non_blocking=True)
    graph.upload(other)
    graph.launch(stream=other)
    other.synchronize()
    assert cupy.array_equal(y, 3 * x + 1)


def main():
    for part in (pools, asynchronous, pinned, managed, streams, graphs):
        part()
    done()


if __name__ == "__main__":
    main()
