/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chunks of an arena leave their GPU and come back. A worker.
 *
 * Invariant: a part of a chunk that is away has all its bytes in the store and no memory of the
 * GPU. The pages stay taken. The session's quota stays charged, those of groups do not.
 */

#include "chunk.h"
#include "eviction.h"
#include "mover.h"

/* The bytes are in the store: the GPU's memory goes back to the driver. */
static void part_left(void *owner, void *item, CUresult result)
{
	struct part *part = item;

	if (result == CUDA_SUCCESS)
		part_leave(owner, part);
	else
		host_store_give(&part->stored);
}

static enum eviction_stay why_it_stays(const struct chunk *chunk)
{
	if (chunk->is_exported)
		return STAY_EXPORTED;
	return arena_sharing->is_offered(chunk->address, chunk->size) ? STAY_SHARED : STAY_NOTHING;
}

/* Returns the bytes of the parts that leave. */
static uint64_t chunk_evict(struct arena *arena, struct chunk *chunk, struct mover *mover,
	uint64_t bytes, unsigned *stays)
{
	enum eviction_stay stay = why_it_stays(chunk);
	uint64_t leaving = 0;

	each_part_of(chunk, part)
	{
		if (part->is_away || leaving >= bytes)
			continue;
		if (stay == STAY_NOTHING &&
			!host_store_take(arena->account, part->size, &part->stored))
			stay = STAY_STORE;
		*stays |= 1u << stay;
		if (stay != STAY_NOTHING)
			break;
		leaving += part->size;
		mover_out(mover, &(struct moved){part_left, arena, part, part->size}, part->address,
			&part->stored);
	}
	return leaving;
}

uint64_t arena_evict(struct arena *arena, struct mover *mover, uint64_t bytes, unsigned *stays)
{
	uint64_t leaving = 0;

	for (uint32_t i = 0; i < arena->n_pages && leaving < bytes; i++) {
		struct chunk *chunk = chunk_at(arena, i);

		if (chunk && !chunk->is_free)
			leaving += chunk_evict(arena, chunk, mover, bytes - leaving, stays);
	}
	return leaving;
}

static CUresult part_return(struct arena *arena, struct part *part, struct mover *mover)
{
	CUresult result;

	if (!device_quota_return(arena->memory, part->size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = arena->backing->back(arena, part->address, part->size, &part->handle);
	if (result != CUDA_SUCCESS) {
		device_quota_leave(arena->memory, part->size);
		return result;
	}
	part->is_away = false;
	part->chunk->away -= part->size;
	arena->away -= part->size;
	return mover_in(mover, part->address, part->size, &part->stored);
}

CUresult arena_return(struct arena *arena, struct mover *mover)
{
	for (uint32_t i = 0; i < arena->n_pages && arena->away > 0; i++) {
		struct chunk *chunk = chunk_at(arena, i);

		if (!chunk || chunk->away == 0)
			continue;
		each_part_of(chunk, part)
		{
			CUresult result =
				part->is_away ? part_return(arena, part, mover) : CUDA_SUCCESS;

			if (result != CUDA_SUCCESS)
				return result;
		}
	}
	return CUDA_SUCCESS;
}

static void part_returned(struct arena *arena, struct part *part, CUresult result)
{
	if (part->is_away || part->stored.n == 0)
		return;
	if (result == CUDA_SUCCESS)
		host_store_give(&part->stored);
	else
		part_leave(arena, part);
}

/*
 * A copy that the driver has refused, or that a fault has ended, may have left its part without the
 * bytes, so all parts of the attempt are away again.
 */
void arena_returned(struct arena *arena, CUresult result)
{
	for (uint32_t i = 0; i < arena->n_pages; i++) {
		struct chunk *chunk = chunk_at(arena, i);

		if (!chunk)
			continue;
		each_part_of(chunk, part) part_returned(arena, part, result);
	}
}
