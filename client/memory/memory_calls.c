/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocating and freeing memory of each kind. Any thread of the application.
 *
 * Invariant: a range is removed from the map before the server is told of its end.
 */

#include "calls_memory.h"
#include "host.h"
#include "ipc.h"
#include "managed.h"
#include "memory.h"
#include "pool.h"
#include "registered.h"
#include "client/context/hooks.h"
#include "client/stream/recorder.h"
#include "client/stream/stream.h"
#include "send_memory.h"

/* The driver's alignment of rows in cuMemAllocPitch(). */
#define PITCH_ALIGN 512u

#define ALLOC_FLAGS                                                                                \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

static bool is_of_others(const struct memory_range *range)
{
	return range->kind == MEMORY_IPC || range->kind == MEMORY_IMPORTED;
}

static CUresult give_back(const struct memory_range *range)
{
	if (is_of_others(range))
		return ipc_close_range(range);
	if (range->kind == MEMORY_ALIAS)
		return send_host_alias_end(range->address);
	managed_forget(range);
	if (!range->pool)
		return host_free(range->address);
	if ((range->flags & MEMORY_EXPORTED) && !ipc_may_free(range, NULL))
		return CUDA_SUCCESS;
	pool_free(range->pool, range->piece, NULL);
	return CUDA_SUCCESS;
}

void memory_end_owner(const void *owner)
{
	struct memory_range range;
	uint64_t at = 0;

	while (memory_take(&at, NULL, owner, &range))
		if (range.kind == MEMORY_MANAGED)
			(void)give_back(&range);
}

void memory_end_context(struct context *context)
{
	struct memory_range range;
	uint64_t at = 0;

	while (memory_take(&at, context, NULL, &range))
		(void)give_back(&range);
	(void)pools_trim_device(context->device);
	registered_end_context(context);
}

/* The advice about new memory of a managed pool: the pool's location. NULL: out of memory. */
static struct advised *advised_by(const struct pool *pool, uint64_t size)
{
	struct advised *advised = advised_new(size);

	if (!advised || advised_change(advised, 0, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
				pool->preferred) == 0)
		return advised;
	advised_free(advised);
	return NULL;
}

CUresult memory_alloc(struct pool *pool, uint64_t size, enum memory_kind kind,
	struct stream *stream, struct memory_range *range)
{
	CUresult result;

	if (pool->memory == POOL_MANAGED) {
		range->advised = advised_by(pool, size);
		if (!range->advised)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = pool_alloc(pool, size, stream, &range->piece);
	if (result == CUDA_SUCCESS) {
		range->pool = pool;
		range->kind = kind;
		range->address = range->piece->address;
		range->size = size;
		result = memory_add(range);
		if (result == CUDA_ERROR_OUT_OF_MEMORY)
			pool_free(pool, range->piece, stream);
	}
	if (result != CUDA_SUCCESS)
		advised_free(range->advised);
	return result;
}

CUresult local_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct memory_range range = {0};
	struct pool *pool;
	CUresult result = context_enter(&range.context);

	if (result == CUDA_SUCCESS)
		result = recorder.check_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pool = pool_plain(range.context->device, range.context->ordinal);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = memory_alloc(pool, bytesize, MEMORY_ALLOCATED, NULL, &range);
	if (result == CUDA_SUCCESS)
		*dptr = range.address;
	return result;
}

CUresult local_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
	size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch = ALIGN_UP(WidthInBytes, PITCH_ALIGN), size;
	CUresult result;

	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 || pitch < WidthInBytes ||
		(ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
		__builtin_mul_overflow(pitch, Height, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = local_cuMemAlloc_v2(dptr, size);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

/* Waits as the driver does, but only for this process's work. */
CUresult memory_free(uint64_t address, unsigned kinds)
{
	struct memory_range range;
	CUresult result;

	if (!memory_find_start(address, kinds, &range) ||
		(range.kind == MEMORY_MANAGED && range.owner))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_of_others(&range) && !ipc_is_last(address))
		return CUDA_SUCCESS;
	result = streams_wait_device(range.context->device->index);
	if (result != CUDA_SUCCESS)
		return result;
	if (range.kind == MEMORY_GRAPH)
		return hooks.free_graph_memory(address, NULL);
	if (!memory_remove(address, kinds, &range))
		return CUDA_ERROR_INVALID_VALUE;
	result = give_back(&range);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult local_cuMemFree_v2(CUdeviceptr dptr)
{
	/* The driver's check precedes that for 0, which cudaFree(NULL) passes on. */
	CUresult result = recorder.check_unsafe();

	if (result != CUDA_SUCCESS || dptr == 0)
		return result;
	return memory_free(dptr, MEMORY_KIND(MEMORY_ALLOCATED) | MEMORY_KIND(MEMORY_POOLED) |
					 MEMORY_KIND(MEMORY_MANAGED) | MEMORY_KIND(MEMORY_GRAPH) |
					 MEMORY_KIND(MEMORY_IMPORTED));
}

CUresult local_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct context *context = context_current;
	uint64_t free_bytes, total_bytes;
	CUresult result = send_memory_info(context->device->index, &free_bytes, &total_bytes);

	if (result != CUDA_SUCCESS)
		return result;
	if (free)
		*free = MIN(free_bytes + pools_kept(context->device), total_bytes);
	if (total)
		*total = total_bytes;
	return CUDA_SUCCESS;
}

CUresult local_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct memory_range range;

	if (!pbase && !psize)
		return CUDA_SUCCESS;
	/* The driver knows no range of a host pool unless a device may access it. */
	if (!memory_find(dptr, &range) || (memory_is_pinned(&range) && !memory_is_admitted(&range)))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = range.address;
	if (psize)
		*psize = range.size;
	return CUDA_SUCCESS;
}

CUresult host_alloc(void **pp, size_t size, unsigned flags)
{
	struct memory_range range = {
		.size = size,
		.kind = MEMORY_PINNED,
		/* with unified addressing all memory is mapped */
		.flags = flags | CU_MEMHOSTALLOC_DEVICEMAP,
	};
	CUresult result = context_enter(&range.context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pp || (flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	*pp = NULL;
	if (size == 0)
		return CUDA_SUCCESS;
	result = host_new(&range);
	if (result == CUDA_SUCCESS)
		*pp = (void *)(uintptr_t)range.address;
	return result;
}

/* Needs no context. */
CUresult local_cuMemFreeHost(void *p)
{
	return p ? memory_free((uintptr_t)p, MEMORY_KIND(MEMORY_PINNED)) : CUDA_SUCCESS;
}

static bool find_host(const void *p, struct memory_range *ret_range)
{
	return registered_find((uintptr_t)p, ret_range) ||
	       (memory_find((uintptr_t)p, ret_range) && ret_range->kind == MEMORY_PINNED);
}

CUresult local_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct memory_range range;
	CUresult result = CUDA_SUCCESS;

	if (!pdptr || !p || Flags != 0 || !find_host(p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == MEMORY_REGISTERED && range.other == 0)
		result = registered_reach((uintptr_t)p);
	if (result != CUDA_SUCCESS)
		return result;
	*pdptr = registered_translate((uintptr_t)p, 1);
	return CUDA_SUCCESS;
}

CUresult local_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct memory_range range;

	if (!pFlags || !find_host(p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	/* As the driver: whether the GPU may write is no flag of host memory. */
	*pFlags = range.flags & ~(unsigned)CU_MEMHOSTREGISTER_READ_ONLY;
	return CUDA_SUCCESS;
}
