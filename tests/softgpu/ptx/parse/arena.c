/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The arena of the PTX loader. Runs on the thread that loads a module; memory from it
 * never moves.
 */

#include "arena.h"

#include <stdalign.h>
#include <string.h>

#include "base.h"

#define ARENA_CHUNK_SIZE ((size_t)64 << 10)

struct ptx_arena_chunk {
	struct ptx_arena_chunk *next;
	size_t size;
	alignas(max_align_t) unsigned char bytes[];
};

void *ptx_arena_alloc(struct ptx_arena *arena, size_t size)
{
	struct ptx_arena_chunk *chunk = arena->chunks;
	size_t want = ALIGN_UP(size, alignof(max_align_t));
	void *p;

	if (want < size)
		return NULL;
	if (!chunk || !range_ok(arena->used, want, chunk->size)) {
		size_t room = MAX(want, ARENA_CHUNK_SIZE);

		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->size = room;
		chunk->next = arena->chunks;
		arena->chunks = chunk;
		arena->used = 0;
	}
	p = chunk->bytes + arena->used;
	arena->used += want;
	return p;
}

char *ptx_arena_string(struct ptx_arena *arena, const char *text, size_t len)
{
	char *copy = ptx_arena_alloc(arena, len + 1);

	if (copy)
		memcpy(copy, text, len);
	return copy;
}

void *ptx_arena_grow(struct ptx_arena *arena, void *array, size_t n, size_t item_size)
{
	void *more;

	if (n & (n - 1) || (n == 0 && array))
		return array;
	more = ptx_arena_alloc(arena, MAX(n * 2, (size_t)1) * item_size);
	if (more && n)
		memcpy(more, array, n * item_size);
	return more;
}

void ptx_arena_fini(struct ptx_arena *arena)
{
	while (arena->chunks) {
		struct ptx_arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
}
