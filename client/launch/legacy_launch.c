/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches as before CUDA 4: shape, shared memory and parameters are set one by
 * one, and remain set on the function. Any thread of the application.
 *
 * Invariant: the settings stay in the client until a launch, which is then an
 * ordinary one.
 */

#include <stdatomic.h>
#include <string.h>

#include "calls_launch.h"
#include "launch.h"
#include "lock.h"
#include "wire.h"
#include "client/module/library.h"

/* The settings of such calls on a function. The end of its kernel frees them by free(). */
struct legacy_launch {
	CUfunction function;
	struct lock lock;
	unsigned block[3];
	unsigned shared_bytes;
	size_t param_bytes;
	uint8_t params[WIRE_PARAMS_MAX];
};

CUresult legacy_launch_find(CUfunction function, struct legacy_launch **ret_legacy)
{
	struct kernel *kernel = kernel_find_function(function);
	struct legacy_launch *legacy, *before = NULL;
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!kernel ||
		(kernel->library->context && kernel->library->context->device != context->device))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_legacy = atomic_load_explicit(&kernel->legacy, memory_order_acquire);
	if (*ret_legacy)
		return CUDA_SUCCESS;
	legacy = malloc(sizeof(*legacy));
	if (!legacy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*legacy = (struct legacy_launch){function, LOCK_INIT(LEGACY_LAUNCH), .block = {1, 1, 1}};
	*ret_legacy = legacy;
	/* Another thread may have created it first. */
	if (!atomic_compare_exchange_strong_explicit(
		    &kernel->legacy, &before, legacy, memory_order_acq_rel, memory_order_acquire)) {
		free(legacy);
		*ret_legacy = before;
	}
	return CUDA_SUCCESS;
}

/* A limit of the current context's device; legacy_launch_find() has checked that there is one. */
static int device_limit(CUdevice_attribute attribute)
{
	return device_facts(context_current->device)->attribute[attribute];
}

static bool block_fits(const int block[3])
{
	int64_t threads = 1;

	for (unsigned i = 0; i < 3; i++) {
		if (block[i] <= 0 ||
			block[i] > device_limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i))
			return false;
		threads *= block[i];
	}
	return threads <= device_limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

CUresult local_cuFuncSetBlockShape(struct legacy_launch *legacy, int x, int y, int z)
{
	if (!block_fits((const int[]){x, y, z}))
		return CUDA_ERROR_INVALID_VALUE;
	lock_hold(&legacy->lock);
	legacy->block[0] = (unsigned)x;
	legacy->block[1] = (unsigned)y;
	legacy->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult local_cuFuncSetSharedSize(struct legacy_launch *legacy, unsigned int bytes)
{
	if (bytes > (unsigned)device_limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))
		return CUDA_ERROR_INVALID_VALUE;
	lock_hold(&legacy->lock);
	legacy->shared_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult local_cuParamSetSize(struct legacy_launch *legacy, unsigned int numbytes)
{
	lock_hold(&legacy->lock);
	legacy->param_bytes = numbytes;
	return CUDA_SUCCESS;
}

CUresult local_cuParamSetv(
	struct legacy_launch *legacy, int offset, void *ptr, unsigned int numbytes)
{
	lock_hold(&legacy->lock);
	memcpy(legacy->params + offset, ptr, numbytes);
	return CUDA_SUCCESS;
}

CUresult local_cuLaunchGridAsync(
	struct legacy_launch *legacy, int grid_width, int grid_height, CUstream hStream)
{
	lock_hold(&legacy->lock);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, legacy->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &legacy->param_bytes, CU_LAUNCH_PARAM_END};
	return local_cuLaunchKernel(legacy->function, (unsigned)grid_width, (unsigned)grid_height,
		1, legacy->block[0], legacy->block[1], legacy->block[2], legacy->shared_bytes,
		hStream, NULL, extra);
}
