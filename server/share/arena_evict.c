/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chunks of an arena leave their GPU and come back. A worker.
 *
 * Invariant: a chunk that is away has all its bytes in the store and no memory of the GPU. Its
 * pages stay taken, and its quota stays charged.
 */

#include "chunk.h"
#include "eviction.h"
#include "mover.h"
#include "server/session/fault.h"

/* The bytes are in the store: the GPU's memory goes back to the driver. */
static void chunk_left(void *owner, void *item, CUresult result)
{
	struct arena *arena = owner;
	struct chunk *chunk = item;

	if (result != CUDA_SUCCESS) {
		host_store_give(&chunk->stored);
		return;
	}
	arena->backing->unback(arena, chunk->address, chunk->size, chunk->handle);
	chunk->is_away = true;
	arena->away += chunk->size;
}

static enum eviction_stay why_it_stays(const struct chunk *chunk)
{
	if (chunk->is_exported)
		return STAY_EXPORTED;
	return arena_sharing->is_offered(chunk->address, chunk->size) ? STAY_SHARED : STAY_NOTHING;
}

uint64_t arena_evict(struct arena *arena, struct mover *mover, uint64_t bytes, unsigned *stays)
{
	uint64_t leaving = 0;

	for (uint32_t i = 0; i < arena->n_pages && leaving < bytes; i++) {
		struct chunk *chunk = chunk_at(arena, i);
		enum eviction_stay stay;

		if (!chunk || chunk->is_free || chunk->is_away)
			continue;
		stay = why_it_stays(chunk);
		if (stay == STAY_NOTHING && !host_store_take(chunk->size, &chunk->stored))
			stay = STAY_STORE;
		*stays |= 1u << stay;
		if (stay != STAY_NOTHING)
			continue;
		leaving += chunk->size;
		mover_out(mover, &(struct moved){chunk_left, arena, chunk, chunk->size},
			chunk->address, &chunk->stored);
	}
	return leaving;
}

CUresult arena_return(struct arena *arena, struct mover *mover)
{
	for (uint32_t i = 0; i < arena->n_pages && arena->away > 0; i++) {
		struct chunk *chunk = chunk_at(arena, i);
		CUresult result;

		if (!chunk || !chunk->is_away)
			continue;
		result = arena->backing->back(arena, chunk->address, chunk->size, &chunk->handle);
		if (result != CUDA_SUCCESS)
			return result;
		chunk->is_away = false;
		arena->away -= chunk->size;
		result = mover_in(mover, chunk->address, chunk->size, &chunk->stored);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

/*
 * A copy that the driver has refused may have left its chunk without the bytes, so all chunks of
 * the attempt are away again. After a fault nobody reads them.
 */
void arena_returned(struct arena *arena, CUresult result)
{
	for (uint32_t i = 0; i < arena->n_pages; i++) {
		struct chunk *chunk = chunk_at(arena, i);

		if (!chunk || chunk->is_away || chunk->stored.n == 0)
			continue;
		if (result == CUDA_SUCCESS)
			host_store_give(&chunk->stored);
		else if (!result_is_fault(result))
			chunk_left(arena, chunk, CUDA_SUCCESS);
	}
}
