/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAB_H
#define SLAB_H

/*
 * Objects of one size that are known by a number on the wire and by their
 * address to the program. Their memory is never given back, so any value a
 * program passes as a handle can be tested. Any thread.
 */

#include <pthread.h>

#include "base.h"

/* First member of every object. */
struct slab_head {
	uint32_t is_used;   /* atomic */
	uint32_t next_free; /* number + 1; 0: none */
};

struct slab {
	pthread_mutex_t lock;
	size_t object_size;
	unsigned n_max;
	uint8_t *base;       /* atomic: mapped at the first taking */
	unsigned n_ever;     /* numbers below were used at some time */
	unsigned first_free; /* number + 1; 0: none */
};

/* A zeroed object. NULL: no memory, or as many as there can be. */
void *slab_take(struct slab *slab);

void slab_give(struct slab *slab, void *object);

/* The object that a handle is the address of; NULL: it is none in use. */
void *slab_find(const struct slab *slab, const void *handle);

static inline uint32_t slab_id(const struct slab *slab, const void *object)
{
	return (uint32_t)((size_t)((const uint8_t *)object - slab->base) / slab->object_size);
}

#endif
