/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHUNK_H
#define CHUNK_H

/*
 * The chunks of an arena, for its files. A chunk consists of parts of arena_backing::part bytes,
 * the last one of less. Each part has memory of its own, so it leaves its GPU alone: two large
 * chunks change places without space for one of them.
 */

#include "arena.h"

/* Of a chunk on a GPU: as much as the mover has on its way at a time (mover.c). */
#define ARENA_PART ((uint64_t)128 << 20)

struct part {
	struct chunk *chunk;
	uint64_t address, size;
	CUmemGenericAllocationHandle handle;
	struct stored stored; /* its bytes, if it is away: then it has no memory of the GPU */
	bool is_away;
};

struct chunk {
	struct chunk *next; /* arena::shared or arena::spare */
	uint64_t address, size;
	uint64_t away; /* bytes of the parts that are away */
	bool is_shared;
	bool is_exported; /* a descriptor may hold its memory: arena_set_exported() */
	bool is_free;     /* or its session has ended and no other session has it open */
	/* Only for a shared chunk: */
	uint32_t n_slots_used;
	uint32_t n_slots;
	uint64_t *used; /* a bit for each slot of ARENA_ALIGN */
	uint64_t *last; /* a bit for the last slot of each piece */

	uint32_t n_parts;
	struct part parts[];
};

/* NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none. */

#define each_part_of(chunk, part)                                                                  \
	for (__typeof__(&(chunk)->parts[0]) part = (chunk)->parts;                                 \
		part < (chunk)->parts + (chunk)->n_parts; part++)

/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * A chunk at that page, in the quota and on no list, whose parts have no memory yet. The pages are
 * free, and `size' is a multiple of their size. When each part has memory: chunk_complete(). If
 * not: chunk_abandon(), with the number of those that have. NULL: there is no memory, or quota.
 */
struct chunk *chunk_begin(struct arena *arena, uint32_t page, uint64_t size);
void chunk_complete(struct arena *arena, struct chunk *chunk);
void chunk_abandon(struct arena *arena, struct chunk *chunk, uint32_t n_backed);

/* The part has its bytes in the store, and gives its memory back. */
void part_leave(struct arena *arena, struct part *part);

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
