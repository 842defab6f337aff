/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAB_H
#define SLAB_H

/*
 * Objects of one size. Messages name an object by its number, the program by its
 * address. Their memory is never unmapped, so any value that a program passes as a
 * handle can be tested. Any thread.
 */

#include "base.h"
#include "lock.h"

/* First member of every object. */
struct slab_head {
	_Atomic uint32_t is_used;
	uint32_t next_free; /* number + 1; 0: none */
};

struct slab {
	struct lock lock;
	size_t object_size;
	unsigned n_max;
	uint8_t *_Atomic base; /* mapped when the first object is taken */
	unsigned n_ever;       /* lower numbers have been used before */
	unsigned first_free;   /* number + 1; 0: none */
};

/* Returns a zeroed object. NULL: out of memory, or n_max objects are in use. */
void *slab_take(struct slab *slab);

void slab_give(struct slab *slab, void *object);

/* The object with this address, in use or not. NULL: the address is not that of an object. */
void *slab_slot(const struct slab *slab, const void *handle);

/* The object with this address. NULL: the address is not that of an object in use. */
void *slab_find(const struct slab *slab, const void *handle);

static inline uint32_t slab_id(const struct slab *slab, const void *object)
{
	return (uint32_t)((size_t)((const uint8_t *)object - slab->base) / slab->object_size);
}

#endif
