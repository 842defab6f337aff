/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_ARENA_H
#define PTX_ARENA_H

/*
 * Memory of one owner, freed all at once: one arena has the parsed form of a module,
 * another the tables of a translated module.
 */

#include <stddef.h>

struct ptx_arena_chunk;

struct ptx_arena {
	struct ptx_arena_chunk *chunks;
	size_t used; /* of the newest chunk */
};

/* Zeroed, aligned for any type; NULL without memory. */
void *ptx_arena_alloc(struct ptx_arena *arena, size_t size);

/* A NUL-terminated copy of `len' bytes. */
char *ptx_arena_string(struct ptx_arena *arena, const char *text, size_t len);

/*
 * Room for one more item after the `n' of an array from this arena, which may move;
 * its old memory stays until the arena is freed.
 */
void *ptx_arena_grow(struct ptx_arena *arena, void *array, size_t n, size_t item_size);

void ptx_arena_fini(struct ptx_arena *arena);

#endif
