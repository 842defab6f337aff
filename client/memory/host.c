/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned host memory. Any thread of the application.
 *
 * Invariant: memory that the server allocates for this process lies in a region
 * that was mapped here, at the server's address, where nothing else was. So no
 * thread requests memory while a region is being mapped (region_lock).
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "client.h"
#include "host.h"
#include "client/util/log.h"
#include "pool.h"
#include "registered.h"
#include "send.h"

/* How many regions to request until one's addresses are free in this process too. */
#define REGION_TRIES 16

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ALLOC_FLAGS                                                                                \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

/* Held from a request for memory until the region that it may need is mapped. */
static pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under server_link::reading: the descriptor on the connection must be the one for this answer. */
static CUresult region_ask(uint64_t size, uint64_t after, uint32_t payer, uint64_t *ret_address,
	uint64_t *ret_size, int *ret_map_error)
{
	_cleanup_close_ int fd = -EBADF;
	CUresult result = send_host_region(size, after, payer, ret_address, ret_size);

	if (result != CUDA_SUCCESS)
		return result;
	if (server_link_read_memory(&server, *ret_address, *ret_size, &fd) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	if (*ret_address < HOST_SPACE ||
		!range_ok(*ret_address - HOST_SPACE, *ret_size, HOST_SPACE_END - HOST_SPACE))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	*ret_map_error = shm_map_at(fd, *ret_address, *ret_size);
	return CUDA_SUCCESS;
}

/* Under region_lock. */
static CUresult region_new(uint64_t size, uint32_t payer)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t address = 0, region_size = 0;
	int r = -EEXIST;

	/* The answer to a process that has no room for its descriptor would be lost. */
	if (!descriptor_has_room())
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&server.reading);
	for (int i = 0; i < REGION_TRIES && r == -EEXIST; i++) {
		result = region_ask(size, address + region_size, payer, &address, &region_size, &r);
		if (result != CUDA_SUCCESS)
			break;
		if (r < 0) {
			(void)send_host_region_end(address);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	pthread_mutex_unlock(&server.reading);
	return result;
}

/*
 * Kernels before 5.14 lack this advice: touch each page without changing it, as
 * other threads may use it.
 */
static bool touch_pages(uint64_t start, uint64_t span)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (uint64_t at = start; at < start + span; at += page)
		atomic_fetch_add_explicit(
			(_Atomic uint8_t *)(uintptr_t)at, 0, memory_order_relaxed);
	return true;
}

static bool populate_pages(uint64_t start, uint64_t span)
{
	if (start < HOST_SPACE || !range_ok(start - HOST_SPACE, span, HOST_SPACE_END - HOST_SPACE))
		return false;
	if (madvise((void *)(uintptr_t)start, span, MADV_POPULATE_WRITE) == 0)
		return true;
	return errno == EINVAL && touch_pages(start, span);
}

/* Allocates from an existing region, or from a new one that no other thread can fill first. */
static CUresult host_take(uint64_t size, uint32_t payer, uint64_t *ret_address, uint64_t *ret_start,
	uint64_t *ret_span, uint32_t *ret_is_pinned)
{
	CUresult result;

	pthread_mutex_lock(&region_lock);
	result = send_host_alloc(size, payer, ret_address, ret_start, ret_span, ret_is_pinned);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		result = region_new(size, payer);
		if (result == CUDA_SUCCESS)
			result = send_host_alloc(
				size, payer, ret_address, ret_start, ret_span, ret_is_pinned);
	}
	pthread_mutex_unlock(&region_lock);
	return result;
}

/* Managed memory counts against the memory limit of its GPU. */
static uint32_t payer_of(const struct memory_range *range)
{
	return range->kind == MEMORY_MANAGED ? range->context->device->index + 1 : 0;
}

static CUresult pinned_alloc(struct memory_range *range)
{
	uint32_t payer = payer_of(range), is_pinned;
	uint64_t start, span;
	CUresult result = host_take(range->size, payer, &range->address, &start, &span, &is_pinned);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && payer && pools_make_room(range->context->device))
		result = host_take(range->size, payer, &range->address, &start, &span, &is_pinned);
	if (result != CUDA_SUCCESS || is_pinned)
		return result;
	result = populate_pages(start, span)
			 ? send_host_pin(range->context->device->index, range->address)
			 : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		(void)send_host_free(range->address);
	return result;
}

CUresult host_new(struct memory_range *range)
{
	CUresult result;

	if (range->size > WIRE_HOST_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = pinned_alloc(range);
	if (result != CUDA_SUCCESS)
		return result;
	result = memory_add(range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		(void)send_host_free(range->address);
	return result;
}

static CUresult host_alloc(void **pp, size_t size, unsigned flags)
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

CUresult local_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	return host_alloc(pp, bytesize, Flags);
}

CUresult local_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return host_alloc(pp, bytesize, 0);
}

/* Needs no context. */
CUresult local_cuMemFreeHost(void *p)
{
	if (server_link_check(&server) != CUDA_SUCCESS)
		return server_link_check(&server);
	if (!p)
		return CUDA_SUCCESS;
	return memory_free((uintptr_t)p, MEMORY_KIND(MEMORY_PINNED));
}

static bool find_host(const void *p, struct memory_range *ret_range)
{
	return registered_find((uintptr_t)p, ret_range) ||
	       (memory_find((uintptr_t)p, ret_range) && ret_range->kind == MEMORY_PINNED);
}

CUresult local_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct memory_range range;
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
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
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pFlags || !find_host(p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	/* As the driver: whether the GPU may write is no flag of host memory. */
	*pFlags = range.flags & ~(unsigned)CU_MEMHOSTREGISTER_READ_ONLY;
	return CUDA_SUCCESS;
}
