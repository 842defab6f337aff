/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuMemGetInfo(): the free memory falls with an allocation and returns with its free;
 * memory that is reported as free can be allocated, more cannot.
 *
 * Runs: alone
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "mem_info"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)

#define MIB ((size_t)1 << 20)
/* Other programs may allocate a little meanwhile, and the driver keeps some. */
#define SLACK (64 * MIB)

enum {
	PIECES = 96
};

static void expect(CUresult got, CUresult expected, const char *what, int line)
{
	if (got == expected)
		return;
	printf(NAME ": line %d: %s returned %d, not %d\n", line, what, got, expected);
	exit(1);
}

static size_t free_now(CUdevice device)
{
	size_t n_free = 0, total = 0, all = 0;

	CHECK(cuMemGetInfo(&n_free, &total));
	CHECK(cuDeviceTotalMem(&all, device));
	/* The context's total may exclude what the driver needs for itself. */
	if (n_free <= total && total <= all && total > all / 2)
		return n_free;
	printf(NAME ": %zu of %zu bytes are free, the device has %zu\n", n_free, total, all);
	exit(1);
}

static void check_near(size_t got, size_t expected, const char *what)
{
	if (got + SLACK >= expected && got <= expected + SLACK)
		return;
	printf(NAME ": %s: %zu bytes are free, not about %zu\n", what, got, expected);
	exit(1);
}

static void large(CUdevice device)
{
	size_t before = free_now(device), size = 256 * MIB;
	CUdeviceptr ptr;

	CHECK(cuMemAlloc(&ptr, size));
	check_near(free_now(device), before - size, "after an allocation");
	CHECK(cuMemFree(ptr));
	check_near(free_now(device), before, "after its free");
}

static void many(CUdevice device)
{
	CUdeviceptr ptrs[PIECES];
	size_t before = free_now(device);

	for (int i = 0; i < PIECES; i++)
		CHECK(cuMemAlloc(&ptrs[i], 2 * MIB));
	check_near(free_now(device), before - 2 * MIB * PIECES, "after many allocations");
	for (int i = 0; i < PIECES; i++)
		CHECK(cuMemFree(ptrs[i]));
	check_near(free_now(device), before, "after their frees");
}

/* About as much as reported is available. */
static void most(CUdevice device)
{
	size_t before = free_now(device), size = before - before / 8;
	CUdeviceptr ptr, another;

	CHECK(cuMemAlloc(&ptr, size));
	CHECK(cuMemsetD8(ptr + size - MIB, 1, MIB));
	expect(cuMemAlloc(&another, size), CUDA_ERROR_OUT_OF_MEMORY, "a second allocation",
		__LINE__);
	CHECK(cuMemAlloc(&another, MIB));
	CHECK(cuMemsetD8(another, 1, MIB));
	CHECK(cuMemFree(another));
	CHECK(cuMemFree(ptr));
	check_near(free_now(device), before, "after the largest was freed");
	CHECK(cuMemAlloc(&ptr, size));
	CHECK(cuMemFree(ptr));
}

static void in_stream_order(CUdevice device)
{
	size_t before = free_now(device), size = 128 * MIB;
	CUdeviceptr ptr;
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAllocAsync(&ptr, size, stream));
	CHECK(cuMemsetD8Async(ptr, 1, size, stream));
	CHECK(cuStreamSynchronize(stream));
	check_near(free_now(device), before - size, "after an allocation on a stream");
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
	check_near(free_now(device), before, "after its free");
	CHECK(cuStreamDestroy(stream));
}

static void attributes(void)
{
	CUdeviceptr ptr, base;
	size_t size;
	int on = 1;

	CHECK(cuMemAlloc(&ptr, 3 * MIB + 5));
	CHECK(cuMemGetAddressRange(&base, &size, ptr + MIB));
	if (base != ptr || size < 3 * MIB + 5) {
		printf(NAME ": the range of a pointer is %llx, %zu\n", (unsigned long long)base,
			size);
		exit(1);
	}
	CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
	expect(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr),
		CUDA_ERROR_INVALID_VALUE, "setting a type", __LINE__);
	CHECK(cuMemFree(ptr));
	expect(cuMemFree(ptr), CUDA_ERROR_INVALID_VALUE, "a second free", __LINE__);
	expect(cuMemFree(ptr + MIB), CUDA_ERROR_INVALID_VALUE, "a free in the middle", __LINE__);
	expect(cuMemGetAddressRange(&base, &size, ptr), CUDA_ERROR_NOT_FOUND,
		"the range of what is free", __LINE__);
}

int main(void)
{
	CUcontext context;
	CUdevice device;
	CUdeviceptr ptr;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	expect(cuMemAlloc(&ptr, MIB), CUDA_ERROR_INVALID_CONTEXT, "without a context", __LINE__);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	large(device);
	many(device);
	in_stream_order(device);
	most(device);
	attributes();
	expect(cuMemAlloc(&ptr, 0), CUDA_ERROR_INVALID_VALUE, "an allocation of nothing", __LINE__);
	expect(cuMemAlloc(&ptr, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY,
		"an allocation that cannot fit", __LINE__);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
