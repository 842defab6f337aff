/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a context beyond the maximum of a client: refused as by a driver without
 * memory; the limits stay unchanged.
 *
 * Runs: for a test of its own
 */

#define NAME "limits_refused"
#include "../helpers/driver_program.h"

static void is_refused(CUlimit limit, size_t value)
{
	size_t before = 0, after = 0;

	CHECK(cuCtxGetLimit(&before, limit));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(limit, value));
	CHECK(cuCtxGetLimit(&after, limit));
	MUST(before == after);
}

int main(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	is_refused(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)2 << 30);
	is_refused(CU_LIMIT_PRINTF_FIFO_SIZE, (size_t)1 << 30);
	CHECK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)128 << 20));
	CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (size_t)16 << 20));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
