/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays and mipmapped arrays. Their handles are different types to a program
 * and one kind of object here. Any thread.
 */

#include "client/device/context.h"

struct array;

/* What copies go by; none is 0. */
struct array_size {
	uint64_t width, height, depth; /* bytes of a row, rows, slices */
	uint32_t element;              /* bytes */
};

/* NULL: no such array. Levels of mipmapped ones are arrays, those themselves are not. */
struct array *array_find(CUarray handle);
struct array *array_find_mipmapped(CUmipmappedArray handle);

uint32_t array_id(const struct array *array);
void array_size(const struct array *array, struct array_size *ret_size);

/* Ends the arrays of a context that goes. */
void arrays_end_context(struct context *context);

#endif
