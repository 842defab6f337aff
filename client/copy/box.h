/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_H
#define BOX_H

/*
 * Boxes of bytes in linear memory and in arrays: slices of rows, each end with
 * its own distances. Any thread.
 */

#include "array.h"
#include "client/stream/stream.h"
#include "client/memory/sync_rules.h"

struct box_end {
	struct array *array; /* NULL: linear memory, where the next three count */
	uint64_t address;    /* of the first byte */
	uint64_t pitch;      /* from row to row, bytes */
	uint64_t rows;       /* from slice to slice */
	uint64_t x, y, z;    /* in the array: bytes, rows, slices */
	bool is_ours;        /* the GPU may touch it; else the program's own memory */
	enum sync_side side; /* what it is */
};

struct box {
	struct box_end dst, src;
	uint64_t width, height, depth; /* bytes, rows, slices; none is 0 */
};

/* The driver's description, checked; where there is nothing to copy, a size is 0. */
CUresult box_read(const CUDA_MEMCPY3D *copy, struct box *ret_box);

/* Bytes from an end's first to its last; false: more than there are addresses. */
bool box_extent(const struct box *box, const struct box_end *end, uint64_t *ret_bytes);

/* Each for the ends that its name says. From the device it returns when the bytes are there. */
CUresult box_on_device(const struct box *box, struct stream *stream);
CUresult box_to_device(const struct box *box, struct stream *stream);
CUresult box_from_device(const struct box *box, struct stream *stream);
void box_on_host(const struct box *box);

/* A copy as the driver has it; NULL is an error. `is_sync': by no Async function. */
CUresult box_copy(const CUDA_MEMCPY3D *copy, CUstream stream, bool is_sync);

#endif
