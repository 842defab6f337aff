/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHUNK_H
#define CHUNK_H

/* The chunks of an arena, for arena.c and arena_evict.c. */

#include "arena.h"

struct chunk {
	struct chunk *next; /* arena::shared or arena::spare */
	uint64_t address, size;
	CUmemGenericAllocationHandle handle;
	struct stored stored; /* its bytes, if it is away: then it has no memory of the GPU */
	bool is_away;
	bool is_shared;
	bool is_exported; /* a descriptor may hold its memory: arena_set_exported() */
	bool is_free;     /* or its session has ended and no other session has it open */
	/* Only for a shared chunk: */
	uint32_t n_slots_used;
	uint32_t n_slots;
	uint64_t *used; /* a bit for each slot of ARENA_ALIGN */
	uint64_t *last; /* a bit for the last slot of each piece */
};

/*
 * A new chunk at that page, whose pages are free, in the quota and on no list. `handle' is what is
 * mapped there, and is taken, on failure too; NULL: new memory. `size' is a multiple of the page
 * size.
 */
CUresult chunk_new(struct arena *arena, uint32_t page, uint64_t size,
	const CUmemGenericAllocationHandle *handle, struct chunk **ret_chunk);

/* Makes a whole chunk one that is divided into pieces. False: there is no memory. */
bool chunk_share(struct arena *arena, struct chunk *chunk);

/* Nothing of the chunk is used any more. */
void chunk_unuse(struct arena *arena, struct chunk *chunk);

/* The chunk that begins with that page of the arena; NULL: there is none. */
static inline struct chunk *chunk_at(const struct arena *arena, uint32_t page)
{
	struct chunk *chunk = arena->chunk_of[page];

	return chunk && chunk->address == arena->base + (uint64_t)page * arena->page ? chunk : NULL;
}

#endif
