/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The values that limits of a context get when a program sets others: rounded, raised to a least
 * value, or refused.
 */

#define NAME "limit_values"
#include "../helpers/driver_program.h"

static size_t get(CUlimit limit)
{
	size_t value;

	CHECK(cuCtxGetLimit(&value, limit));
	return value;
}

static void becomes(CUlimit limit, size_t value, size_t wanted, int line)
{
	size_t got;

	check(cuCtxSetLimit(limit, value), "cuCtxSetLimit", line);
	got = get(limit);
	if (got == wanted)
		return;
	printf(NAME ": line %d: limit %d of %zu became %zu, not %zu\n", line, limit, value, got,
		wanted);
	exit(1);
}

static void refused(CUlimit limit, size_t value, CUresult result, int line)
{
	size_t before = get(limit);

	check_is(cuCtxSetLimit(limit, value), result, "cuCtxSetLimit", line);
	must(get(limit) == before, "the value before", line);
}

#define BECOMES(limit, value, wanted) becomes(CU_LIMIT_##limit, value, wanted, __LINE__)
#define REFUSED(limit, value, result) refused(CU_LIMIT_##limit, value, result, __LINE__)

static void of_kernels(void)
{
	BECOMES(STACK_SIZE, 0, 0);
	BECOMES(STACK_SIZE, 1, 16);
	BECOMES(STACK_SIZE, 1000, 1008);
	BECOMES(STACK_SIZE, 1024, 1024);
	BECOMES(STACK_SIZE, 5000, 5008);
	BECOMES(PRINTF_FIFO_SIZE, 0, 512 << 10);
	BECOMES(PRINTF_FIFO_SIZE, 1 << 20, 1 << 20);
	BECOMES(PRINTF_FIFO_SIZE, 5000000, 5000192);
	BECOMES(PRINTF_FIFO_SIZE, 10000000, 10000128);
	BECOMES(MALLOC_HEAP_SIZE, 0, 4 << 20);
	BECOMES(MALLOC_HEAP_SIZE, 5000000, 5046272);
	BECOMES(MALLOC_HEAP_SIZE, 10000000, 10027008);
	BECOMES(DEV_RUNTIME_PENDING_LAUNCH_COUNT, 0, 32);
	BECOMES(DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096, 4096);
}

/* A sixteenth of the cache at a time. */
static void of_cache(CUdevice device)
{
	int cache, most;
	size_t part;

	CHECK(cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device));
	CHECK(cuDeviceGetAttribute(
		&most, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, device));
	part = (size_t)cache / 16;
	BECOMES(PERSISTING_L2_CACHE_SIZE, 1, part);
	BECOMES(PERSISTING_L2_CACHE_SIZE, part, part);
	BECOMES(PERSISTING_L2_CACHE_SIZE, part + 1, 2 * part);
	BECOMES(PERSISTING_L2_CACHE_SIZE, (size_t)most, (size_t)most);
	REFUSED(PERSISTING_L2_CACHE_SIZE, (size_t)most + 1, CUDA_ERROR_INVALID_VALUE);
	BECOMES(PERSISTING_L2_CACHE_SIZE, 0, 0);
	BECOMES(MAX_L2_FETCH_GRANULARITY, 0, 0);
	BECOMES(MAX_L2_FETCH_GRANULARITY, 128, 128);
	REFUSED(MAX_L2_FETCH_GRANULARITY, 129, CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	CUcontext context;
	CUdevice device;
	size_t value;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	of_kernels();
	of_cache(device);
	REFUSED(SHMEM_SIZE, get(CU_LIMIT_SHMEM_SIZE), CUDA_ERROR_NOT_PERMITTED);
	REFUSED(CIG_ENABLED, 0, CUDA_ERROR_NOT_PERMITTED);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MAX, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, CU_LIMIT_MAX));
	CHECK(cuDevicePrimaryCtxRelease(device));
	/* The next context has the first values. */
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	MUST(get(CU_LIMIT_STACK_SIZE) == 1024);
	MUST(get(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT) == 2048);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
