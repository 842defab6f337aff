/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of pools belongs to no context: it outlives the context in whose stream it was allocated,
 * with its bytes, and is freed in another one. Other memory ends with its context.
 */

#define NAME "pool_outlives"
#include <stdbool.h>

#include "../helpers/driver_program.h"

#define SIZE ((size_t)4 << 20)

static CUdevice device;
static CUmemoryPool pools[2]; /* the default pool, and one of the program */

static void make_pools(void)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};

	CHECK(cuDeviceGetDefaultMemPool(&pools[0], device));
	CHECK(cuMemPoolCreate(&pools[1], &props));
}

static unsigned long long used(CUmemoryPool pool)
{
	cuuint64_t value = 77;

	CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	return value;
}

/* Fills memory of both pools in the current context. */
static void allocate(CUdeviceptr memory[2])
{
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 2; i++) {
		CHECK(cuMemAllocFromPoolAsync(&memory[i], SIZE, pools[i], stream));
		CHECK(cuMemsetD32Async(memory[i], 7 + i, SIZE / 4, stream));
	}
	CHECK(cuStreamSynchronize(stream));
}

static bool is_known(CUdeviceptr address)
{
	unsigned type;

	return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
	       CUDA_SUCCESS;
}

static void check_bytes(const CUdeviceptr memory[2])
{
	CUdeviceptr other;
	unsigned last;

	/* New memory is not there. */
	CHECK(cuMemAlloc(&other, SIZE));
	CHECK(cuMemsetD32(other, 1, SIZE / 4));
	MUST(used(pools[0]) == SIZE);
	for (unsigned i = 0; i < 2; i++) {
		MUST(is_known(memory[i]));
		CHECK(cuMemcpyDtoH(&last, memory[i] + SIZE - 4, 4));
		MUST(last == 7 + i);
	}
	CHECK(cuMemFree(other));
}

/* One by each call. */
static void free_both(const CUdeviceptr memory[2])
{
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemFreeAsync(memory[0], stream));
	CHECK(cuStreamSynchronize(stream));
	MUST(used(pools[0]) == 0);
	CHECK(cuMemFree(memory[1]));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory[1]));
	CHECK(cuStreamDestroy(stream));
}

static void of_created_context(void)
{
	CUcontext context, primary;
	CUdeviceptr memory[2], plain;

	CHECK(cuCtxCreate(&context, NULL, 0, device));
	allocate(memory);
	CHECK(cuMemAlloc(&plain, SIZE));
	CHECK(cuCtxDestroy(context));
	CHECK(cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(cuCtxSetCurrent(primary));
	MUST(!is_known(plain));
	check_bytes(memory);
	free_both(memory);
	CHECK(cuDevicePrimaryCtxRelease(device));
}

/* Another context is there all the time. */
static void of_primary_context(void)
{
	CUcontext context, primary;
	CUdeviceptr memory[2];

	CHECK(cuCtxCreate(&context, NULL, 0, device));
	CHECK(cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(cuCtxSetCurrent(primary));
	allocate(memory);
	CHECK(cuDevicePrimaryCtxReset(device));
	CHECK(cuCtxSetCurrent(context));
	check_bytes(memory);
	free_both(memory);
	CHECK(cuCtxDestroy(context));
}

int main(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	make_pools();
	of_created_context();
	of_primary_context();
	CHECK(cuMemPoolDestroy(pools[1]));
	printf(NAME ": ok\n");
	return 0;
}
