/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays: elements row after row and slice after slice, in memory without an
 * address for kernels. All under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"

#define ARRAY_LEVELS_MAX 18

struct array {
	struct object object;
	struct array *next; /* of all arrays; a level is on no list */
	struct context *context;
	struct mipmap *mipmap; /* the mipmapped array of a level; not owned */
	CUDA_ARRAY3D_DESCRIPTOR shape;
	uint32_t element; /* bytes */
	uint8_t *bytes;
	size_t size, pitch, slice;
};

struct mipmap {
	struct object object;
	struct mipmap *next;
	struct context *context;
	unsigned n_levels;
	struct array *levels[ARRAY_LEVELS_MAX];
};

struct array *array_find(CUarray handle);
struct mipmap *mipmap_find(CUmipmappedArray handle);

/* Frees every array of this context, without waiting. */
void arrays_free_context(struct context *context);

#endif
