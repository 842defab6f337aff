/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_H
#define BOX_H

/*
 * Boxes of bytes, and rows of elements: how many bytes they span. A worker.
 */

#include "base.h"

struct box_size {
	uint64_t width, height, depth;
};

/* Bytes from the first to the last of a box. False: no memory can be so large. */
bool box_extent(uint64_t pitch, uint64_t n_rows, const struct box_size *size, uint64_t *ret_extent);

/* The same for a fill (fill.c). 0: no memory can be so large. */
uint64_t fill_extent(uint32_t width, uint64_t count, uint64_t pitch, uint64_t rows);

#endif
