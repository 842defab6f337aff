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

static CUresult find_primary(CUdevice ordinal, struct context **ret_context)
{
	const struct device *device = device_get(ordinal);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_context = device->primary;
	return CUDA_SUCCESS;
}

CUresult local_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct context *context;
	CUresult result = find_primary(dev, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	result = device_open(context->device);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&context->lock);
	if (!context->is_active)
		result = context_share_begin(context, UINT32_MAX);
	if (result == CUDA_SUCCESS) {
		context->n_retained++;
		atomic_store_explicit(&context->is_active, 1, memory_order_release);
		*pctx = (CUcontext)context;
	}
	pthread_mutex_unlock(&context->lock);
	return result;
}

CUresult local_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct context *context;
	CUresult result = find_primary(dev, &context);
	bool is_last;

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&context->lock);
	if (context->n_retained == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		context->n_retained--;
	is_last = result == CUDA_SUCCESS && context->n_retained == 0 && context->is_active;
	pthread_mutex_unlock(&context->lock);
	if (is_last)
		context_end(context);
	return result;
}

CUresult local_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct context *context;
	CUresult result = find_primary(dev, &context);

	if (result == CUDA_SUCCESS &&
		atomic_load_explicit(&context->is_active, memory_order_acquire))
		context_end(context);
	return result;
}

CUresult local_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct context *context;
	CUresult result = find_primary(dev, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	*active = (int)atomic_load_explicit(&context->is_active, memory_order_acquire);
	return CUDA_SUCCESS;
}

/* The driver adds the flag for mapped memory itself. */
static CUresult find_primary_for_flags(
	CUdevice ordinal, unsigned flags, struct context **ret_context)
{
	CUresult result = find_primary(ordinal, ret_context);

	if (result == CUDA_SUCCESS && (!context_flags_are_valid(flags) || flags & CU_CTX_MAP_HOST))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

CUresult local_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct context *context;
	CUresult result = find_primary_for_flags(dev, flags, &context);

	if (result == CUDA_SUCCESS)
		context->flags = flags;
	return result;
}

/* The first version does not change an active context. */
CUresult local_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	struct context *context;
	CUresult result = find_primary_for_flags(dev, flags, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (atomic_load_explicit(&context->is_active, memory_order_acquire))
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	context->flags = flags;
	return CUDA_SUCCESS;
}
