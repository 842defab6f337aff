/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating and ending green contexts and their streams. Any thread of the
 * application.
 *
 * Invariant: everything created while a green context is current belongs to its
 * primary context; only streams end with the green context.
 */

#include <stdatomic.h>

#include "calls_stream.h"
#include "context_events.h"
#include "green.h"
#include "lock.h"
#include "wire.h"
#include "send_stream.h"

static _Atomic uint64_t last_serial;

CUresult green_stream(struct context *green, int priority, struct stream **ret_stream)
{
	return context_is_active(green) ? stream_new_green(green, priority, ret_stream)
					: CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Its work continues; the server keeps the green context until that work is done. */
static void green_end(struct green *green)
{
	struct context *context = green->context;

	atomic_store_explicit(&context->is_active, 0, memory_order_release);
	if (green->null)
		(void)stream_end(green->null);
	streams_orphan(context);
	streams_new_wait(context, NULL);
	(void)send_green_destroy(green_id(green));
	slab_give(&greens, green);
}

/* Also releases the primary context for each of them: the program no longer can. */
void greens_end_context(struct context *context)
{
	for (unsigned i = 0; i < greens.n_ever; i++) {
		struct green *green = slab_find(&greens, greens.base + i * sizeof(*green));
		/* NULL while another thread is still creating it. */
		const struct context *its =
			green ? atomic_load_explicit(&green->context, memory_order_acquire) : NULL;

		if (!its || its->home != context)
			continue;
		green_end(green);
		lock_take(&context->lock);
		if (context->n_retained > 0)
			context->n_retained--;
		lock_release(&context->lock);
	}
}

/* The server's half exists already. */
static CUresult green_fill(struct green *green, struct context *home, CUdevice ordinal)
{
	CUresult result;
	struct context *context = context_new(home->device, ordinal, false);

	if (!context) {
		(void)send_green_destroy(green_id(green));
		slab_give(&greens, green);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
	context->home = home;
	context->green = green;
	atomic_store_explicit(&context->is_active, 1, memory_order_release);
	atomic_store_explicit(&green->context, context, memory_order_release);
	result = stream_new_green(green->context, 0, &green->null);
	if (result == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	green->null = NULL;
	green_end(green);
	return result;
}

static CUresult green_new(
	const struct resource_desc *desc, struct context *home, CUdevice ordinal, CUgreenCtx *ret)
{
	struct green *green = slab_take(&greens);
	CUresult result;

	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = resource_desc_create(desc, green_id(green), ordinal);
	if (result != CUDA_SUCCESS) {
		slab_give(&greens, green);
		return result;
	}
	result = green_fill(green, home, ordinal);
	if (result == CUDA_SUCCESS)
		*ret = (CUgreenCtx)green->context;
	return result;
}

CUresult local_cuGreenCtxCreate(
	CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	const struct resource_desc *found = desc ? resource_desc_find(desc) : NULL;
	struct device *device = device_get(dev);
	CUcontext home = NULL;
	CUresult result;

	if (!phCtx || (desc && !found) || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	result = primary_retain(&home, device);
	if (result != CUDA_SUCCESS)
		return result;
	result = green_new(found, context_find(home), dev, phCtx);
	if (result != CUDA_SUCCESS)
		(void)primary_release(device);
	return result;
}

CUresult local_cuGreenCtxDestroy(struct green *green)
{
	struct device *device = green->context->device;

	green_end(green);
	return primary_release(device);
}

CUresult local_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	const struct green *green = green_find(greenCtx);
	const struct context *context = green ? green->context : greenCtx ? NULL : context_green;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* The current green context may have ended, and its slot may be in use by another. */
	if (!context_is_active(context))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*greenCtxId = context->id;
	return CUDA_SUCCESS;
}

CUresult local_cuGreenCtxStreamCreate(
	CUstream *phStream, struct green *green, unsigned int flags, int priority)
{
	struct stream *stream;
	CUresult result = green_stream(green->context, priority, &stream);

	if (result == CUDA_SUCCESS)
		*phStream = (CUstream)stream;
	return result;
}
