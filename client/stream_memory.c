/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory allocated and freed in the order of a stream. Any thread of the
 * application.
 *
 * Invariant: neither call says anything to the server where the pool has room;
 * what was freed is given out again only where the order of streams, or the
 * timeline, says that nobody works on it any more.
 */

#include "capture.h"
#include "client.h"
#include "ipc.h"
#include "memory.h"
#include "pool.h"
#include "pool_calls.h"
#include "route.h"
#include "stream.h"

static CUresult enter(CUstream handle, struct context **ret_context, struct stream **ret_stream)
{
	CUresult result = context_enter(ret_context);
	bool captures = false;

	if (result == CUDA_SUCCESS)
		result = stream_resolve(*ret_context, handle, ret_stream);
	if (result == CUDA_SUCCESS)
		result = capture_look(*ret_stream, &captures);
	if (unlikely(captures)) {
		(void)capture_forbid(*ret_stream);
		return refuse("cuMemAllocAsync", "graphs cannot allocate memory yet");
	}
	return result;
}

/* `pool' NULL: the current one of the stream's device. */
static CUresult alloc(CUdeviceptr *ptr, size_t size, struct pool *pool, struct context *context,
	struct stream *stream)
{
	struct memory_range range = {.context = context};
	CUresult result;

	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	/* Unlike cuMemAlloc(), nothing may be asked for. */
	if (size == 0) {
		*ptr = 0;
		return CUDA_SUCCESS;
	}
	if (!pool)
		pool = pool_current(context->device, context->ordinal);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = device_open(pool->device);
	if (result == CUDA_SUCCESS)
		result = memory_alloc(pool, size, MEMORY_POOLED, stream, &range);
	if (result == CUDA_SUCCESS)
		*ptr = range.address;
	return result;
}

CUresult local_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct context *context;
	struct stream *stream = NULL;
	CUresult result = enter(hStream, &context, &stream);

	return result == CUDA_SUCCESS ? alloc(dptr, bytesize, NULL, context, stream) : result;
}

CUresult local_cuMemAllocFromPoolAsync(
	CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	struct pool *found = pool_find(pool);
	struct context *context;
	struct stream *stream = NULL;
	CUresult result = enter(hStream, &context, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	return found ? alloc(dptr, bytesize, found, context, stream) : CUDA_ERROR_INVALID_VALUE;
}

/* Takes what cuMemAlloc() gave as well. */
CUresult local_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct memory_range range;
	struct context *context;
	struct stream *stream = NULL;
	CUresult result = enter(hStream, &context, &stream);

	if (result != CUDA_SUCCESS || dptr == 0)
		return result;
	if (!memory_remove(
		    dptr, MEMORY_KIND(MEMORY_ALLOCATED) | MEMORY_KIND(MEMORY_POOLED), &range))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(range.kind == MEMORY_ALLOCATED && (range.flags & MEMORY_EXPORTED))) {
		result = streams_wait_device(range.context->device->index);
		if (result != CUDA_SUCCESS || !ipc_may_free(&range))
			return result;
	}
	pool_free(range.pool, range.piece, stream);
	return CUDA_SUCCESS;
}
