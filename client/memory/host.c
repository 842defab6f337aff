/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned host memory. Any thread of the application.
 *
 * Invariant: memory that the server allocates for this process lies in a region that was
 * added here. So no thread requests memory while a region is being added (region_lock).
 */

#include "host.h"

#include <string.h>

#include "lock.h"
#include "client/util/host_map.h"
#include "client/util/log.h"
#include "client/util/mapping.h"
#include "send_memory.h"

/*
 * How many regions to request until one's addresses are free in this process too. The second half
 * of them lies where sanitizers allow memory.
 */
#define REGION_TRIES 16
/* How many chunks of a region to request likewise. */
#define CHUNK_TRIES 16

/* Held from a request for memory until the region that it may need is added. */
static struct lock region_lock = LOCK_INIT(HOST_REGIONS);

/* What the server has allocated, and the pages that it pins for it. */
struct host_chunk {
	uint64_t address, start, span;
	uint32_t is_pinned;
	bool is_new; /* mapped now: its pages are not in the tables of this process */
};

/* Under server_link::reading: the descriptor on the connection must be the one for this answer. */
static CUresult region_ask(uint64_t size, uint64_t after, uint32_t payer, uint64_t *ret_address,
	uint64_t *ret_size, int *ret_add_error)
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
	*ret_add_error = host_map_add(*ret_address, *ret_size, TAKE_FD(fd));
	return CUDA_SUCCESS;
}

/* Under region_lock. */
static CUresult region_new(uint64_t size, uint32_t payer)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t address, region_size, after = 0;
	int r = -EEXIST;

	/* The answer to a process that has no space for its descriptor would be lost. */
	if (!descriptor_has_space())
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_hold(&server.reading);
	for (int i = 0; i < REGION_TRIES && r == -EEXIST; i++) {
		result = region_ask(size, after, payer, &address, &region_size, &r);
		if (result != CUDA_SUCCESS)
			break;
		after = address + region_size;
		if (i + 1 == REGION_TRIES / 2)
			after = MAX(after, HOST_SPACE_CHECKED);
		if (r < 0) {
			(void)send_host_region_end(address);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return result;
}

/*
 * Allocates from an existing region, and maps the chunk. Chunks at whose addresses the program has
 * something else are set aside meanwhile. `ret_error': why no chunk could be mapped.
 */
static CUresult chunk_take(
	uint64_t size, uint32_t payer, struct host_chunk *ret_chunk, int *ret_error)
{
	struct host_chunk chunk = {0};
	uint64_t aside[CHUNK_TRIES];
	unsigned n_aside = 0;
	CUresult result;
	int r;

	do {
		r = 0;
		result = send_host_alloc(
			size, payer, &chunk.address, &chunk.start, &chunk.span, &chunk.is_pinned);
		if (result != CUDA_SUCCESS)
			break;
		r = host_map_use(chunk.start, chunk.span);
		if (r < 0)
			aside[n_aside++] = chunk.address;
	} while (r == -EEXIST && n_aside < CHUNK_TRIES);
	while (n_aside > 0)
		(void)send_host_free(aside[--n_aside]);
	chunk.is_new = r > 0;
	*ret_chunk = chunk;
	*ret_error = r;
	return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/* Takes a chunk of an existing region, or of a new one that no other thread can fill first. */
static CUresult host_take(uint64_t size, uint32_t payer, struct host_chunk *ret_chunk)
{
	CUresult result;
	int r;

	lock_take(&region_lock);
	result = chunk_take(size, payer, ret_chunk, &r);
	/* Another region is of use unless this process may not map more. */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && (r == 0 || r == -EEXIST || r == -EBADF)) {
		result = region_new(size, payer);
		if (result == CUDA_SUCCESS)
			result = chunk_take(size, payer, ret_chunk, &r);
	}
	lock_release(&region_lock);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && r < 0)
		log_warn("cannot map %llu bytes of pinned memory: %s", (unsigned long long)size,
			strerror(-r));
	return result;
}

/* Managed memory counts against the memory limit of its GPU. */
CUresult host_block_new(uint32_t device, bool is_managed, uint64_t size, uint64_t *ret_address)
{
	struct host_chunk chunk;
	CUresult result = host_take(size, is_managed ? device + 1 : 0, &chunk);

	if (result != CUDA_SUCCESS)
		return result;
	if ((chunk.is_new || !chunk.is_pinned) && mapping_populate(chunk.start, chunk.span) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!chunk.is_pinned)
		result = send_host_pin(device, chunk.address);
	if (result == CUDA_SUCCESS)
		*ret_address = chunk.address;
	else
		(void)host_free(chunk.address);
	return result;
}

CUresult host_free(uint64_t address)
{
	host_map_unuse(address);
	return send_host_free(address);
}

CUresult host_new(struct memory_range *range)
{
	CUresult result;

	if (range->size > WIRE_HOST_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = host_block_new(range->context->device->index, range->kind == MEMORY_MANAGED,
		range->size, &range->address);
	if (result != CUDA_SUCCESS)
		return result;
	result = memory_add(range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		(void)host_free(range->address);
	return result;
}
