/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory allocated and freed in the order of a stream. Any thread of the
 * application.
 *
 * Invariant: neither call sends a message while the pool has space. Freed memory is
 * reused only if the order of streams, or the timeline, proves that no work uses it
 * any more.
 */

#include "calls_memory.h"
#include "ipc.h"
#include "managed.h"
#include "memory.h"
#include "pool.h"
#include "pool_calls.h"
#include "client/transport/route.h"
#include "client/context/hooks.h"
#include "client/stream/recorder.h"
#include "client/stream/stream.h"

static CUresult stream_memory_enter(CUstream handle, struct context **ret_context,
	struct stream **ret_stream, bool *ret_captures)
{
	CUresult result = context_enter(ret_context);

	*ret_captures = false;
	if (result == CUDA_SUCCESS)
		result = stream_resolve(*ret_context, handle, ret_stream);
	if (result == CUDA_SUCCESS)
		result = recorder_look(*ret_stream, ret_captures);
	return result;
}

/* `pool' NULL: the current pool of the stream's device. */
CUresult stream_memory_alloc(CUdeviceptr *ptr, size_t size, struct pool *pool, CUstream handle)
{
	struct memory_range range = {0};
	struct stream *stream = NULL;
	bool captures;
	CUresult result = stream_memory_enter(handle, &range.context, &stream, &captures);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	/* Unlike cuMemAlloc(), this call accepts a size of 0. */
	if (size == 0) {
		*ptr = 0;
		return CUDA_SUCCESS;
	}
	if (!pool)
		pool = pool_current(range.context->device, range.context->ordinal);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* In a capture only the pool's device counts: the graph has its own memory. */
	if (unlikely(captures)) {
		result = pool->memory == POOL_OF_DEVICE
				 ? recorder.alloc(stream, pool->ordinal, size, &range.address)
				 : refuse("cuMemAllocFromPoolAsync",
					   "graphs allocate only memory of a GPU");
	} else {
		if (pool->device)
			result = device_open(pool->device);
		if (result == CUDA_SUCCESS)
			result = memory_alloc(pool, size, MEMORY_POOLED, stream, &range);
	}
	if (result == CUDA_SUCCESS)
		*ptr = range.address;
	return result;
}

/*
 * Memory of another process, or of a graph. Earlier work may still use memory of
 * another process: the server waits for that work.
 */
static CUresult free_other(CUdeviceptr dptr, struct stream *stream)
{
	struct memory_range range;

	if (!memory_find_start(dptr, MEMORY_KIND(MEMORY_IMPORTED), &range))
		return hooks.free_graph_memory(dptr, stream);
	if (!ipc_is_last(dptr))
		return CUDA_SUCCESS;
	return memory_remove(dptr, MEMORY_KIND(MEMORY_IMPORTED), &range) ? ipc_close_range(&range)
									 : CUDA_ERROR_INVALID_VALUE;
}

/* Also frees memory of cuMemAlloc(). */
CUresult local_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct memory_range range;
	struct context *context;
	struct stream *stream = NULL;
	bool captures;
	CUresult result = stream_memory_enter(hStream, &context, &stream, &captures);

	if (result != CUDA_SUCCESS || dptr == 0)
		return result;
	if (unlikely(captures))
		return recorder.free(stream, dptr);
	if (!memory_remove(
		    dptr, MEMORY_KIND(MEMORY_ALLOCATED) | MEMORY_KIND(MEMORY_POOLED), &range))
		return free_other(dptr, stream);
	managed_forget(&range);
	if (unlikely(range.flags & MEMORY_EXPORTED) && !ipc_may_free(&range, stream))
		return CUDA_SUCCESS;
	pool_free(range.pool, range.piece, stream);
	return CUDA_SUCCESS;
}
