/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A green context that ends while it is current: the runtime's calls return
 * cudaErrorContextIsDestroyed until the program chooses a device again.
 */

#define NAME "green_ended"
#define ENTRY_VERSION 12040

#include "../helpers/entry.h"
#include "../helpers/program.h"

static CUcontext make_current(CUgreenCtx *ret_green)
{
	CUdevResource all = {}, part = {}, rest = {};
	CUdevResourceDesc description;
	CUcontext context = NULL;
	unsigned n = 1;

	DRIVER(CUDA_SUCCESS, cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
	DRIVER(CUDA_SUCCESS, cuDevSmResourceSplitByCount, &part, &n, &all, &rest, 0, 16);
	DRIVER(CUDA_SUCCESS, cuDevResourceGenerateDesc, &description, &part, 1);
	DRIVER(CUDA_SUCCESS, cuGreenCtxCreate, ret_green, description, 0,
		CU_GREEN_CTX_DEFAULT_STREAM);
	DRIVER(CUDA_SUCCESS, cuCtxFromGreenCtx, &context, *ret_green);
	DRIVER(CUDA_SUCCESS, cuCtxSetCurrent, context);
	return context;
}

int main(void)
{
	CUcontext context, current = NULL;
	CUgreenCtx green;
	void *memory;

	CHECK(cudaFree(0));
	context = make_current(&green);
	CHECK(cudaMalloc(&memory, 64));
	CHECK(cudaFree(memory));
	DRIVER(CUDA_SUCCESS, cuGreenCtxDestroy, green);
	DRIVER(CUDA_SUCCESS, cuCtxGetCurrent, &current);
	if (current != context)
		FAIL("the ended context is no longer current");
	if (cudaMalloc(&memory, 64) != cudaErrorContextIsDestroyed)
		FAIL("memory for an ended context");
	(void)cudaGetLastError();
	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&memory, 64));
	CHECK(cudaFree(memory));
	puts(NAME ": ok");
	return 0;
}
