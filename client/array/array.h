/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays and mipmapped arrays. Their handles have different types in programs; here
 * both are one kind of object. Any thread.
 */

#include "client/util/slab.h"
#include "client/context/context.h"

#define LEVELS_MAX 32

struct array {
	struct slab_head slab;
	struct context *context;
	CUDA_ARRAY3D_DESCRIPTOR shape;
	unsigned n_levels; /* 0: not mipmapped */
	bool is_level;
	struct array *levels[LEVELS_MAX]; /* the levels that exist; under a lock of array.c */
};

/* The size in units of copies; no field is 0. */
struct array_size {
	uint64_t width, height, depth; /* bytes of a row, rows, slices */
	uint32_t element;              /* bytes */
};

/* NULL: no such array. Levels of mipmapped arrays are arrays; mipmapped arrays are not. */
struct array *array_find(CUarray handle);
struct array *array_find_mipmapped(CUmipmappedArray handle);

/* The same of a call, which names the array's context by it: or the error. */
CUresult array_enter(const void *handle, bool is_mipmapped, struct array **ret_array);

uint32_t array_id(const struct array *array);
void array_size(const struct array *array, struct array_size *ret_size);

/* Waits for the work of its GPU first. A level is refused: it ends with its mipmapped array. */
CUresult array_destroy(struct array *array);

/* Ends the arrays of a context that ends. */
void arrays_end_context(struct context *context);

#endif
