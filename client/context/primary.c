/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The primary context of each device. Any thread of the application.
 *
 * Invariant: the handle stays the same over release, reset and the next retain. An
 * inactive primary context may be current, but cannot be used.
 */

#include <stdatomic.h>

#include "client.h"
#include "context.h"
#include "context_share.h"
#include "lock.h"

CUresult primary_retain(CUcontext *pctx, struct device *device)
{
	struct context *context = device->primary;
	CUresult result = device_open(device);

	if (result != CUDA_SUCCESS)
		return result;
	lock_hold(&context->lock);
	if (!context->is_active)
		result = context_share_begin(context, UINT32_MAX);
	if (result == CUDA_SUCCESS) {
		context->n_retained++;
		atomic_store_explicit(&context->is_active, 1, memory_order_release);
		*pctx = (CUcontext)context;
	}
	return result;
}

CUresult primary_release(struct device *device)
{
	struct context *context = device->primary;
	CUresult result = CUDA_SUCCESS;
	bool is_last;

	lock_take(&context->lock);
	if (context->n_retained == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		context->n_retained--;
	is_last = result == CUDA_SUCCESS && context->n_retained == 0 && context->is_active;
	lock_release(&context->lock);
	if (is_last)
		context_end(context);
	return result;
}

CUresult local_cuDevicePrimaryCtxReset_v2(struct device *device)
{
	if (context_is_active(device->primary))
		context_end(device->primary);
	return CUDA_SUCCESS;
}
