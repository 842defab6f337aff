/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The memory of an array comes from free memory, and is free again as soon as the
 * array is destroyed, even right after the end of work on it.
 *
 * Runs: alone
 */

#define NAME "array_memory"
#include "../helpers/driver_program.h"

#define MIB ((size_t)1 << 20)

static size_t free_bytes(void)
{
	size_t available, total;

	CHECK(cuMemGetInfo(&available, &total));
	return available;
}

int main(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {4096, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	static float row[4096];
	CUdeviceptr memory;
	CUcontext context;
	CUdevice device;
	CUarray array;
	size_t before;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, sizeof(row)));
	before = free_bytes();
	for (int i = 0; i < 5; i++) {
		CHECK(cuArray3DCreate(&array, &shape));
		CHECK(cuMemcpyHtoD(memory, row, sizeof(row)));
		CHECK(cuMemcpyDtoA(array, 0, memory, sizeof(row)));
		MUST(free_bytes() + 48 * MIB < before);
		CHECK(cuArrayDestroy(array));
		MUST(free_bytes() + 16 * MIB > before);
	}
	CHECK(cuMemFree(memory));
	printf(NAME ": ok\n");
	return 0;
}
