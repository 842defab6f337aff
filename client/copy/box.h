/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_H
#define BOX_H

/*
 * Boxes of bytes in linear memory and in arrays: slices of rows. Each end has its
 * own pitch. Any thread.
 */

#include "client/stream/stream.h"
#include "client/memory/sync_rules.h"
#include "client/array/array.h"

struct box_end {
	struct array *array; /* NULL: linear memory, described by the next three fields */
	uint64_t address;    /* of the first byte */
	uint64_t pitch;      /* bytes from row to row */
	uint64_t rows;       /* rows from slice to slice */
	uint64_t x, y, z;    /* in the array: bytes, rows, slices */
	bool is_ours;        /* the GPU can access it; otherwise the program's own memory */
	enum sync_side side; /* the kind of memory */
};

struct box {
	struct box_end dst, src;
	uint64_t width, height, depth; /* bytes, rows, slices; none is 0 */
};

/* Converts and checks the driver's description. If there is nothing to copy, one size is 0. */
CUresult box_read(const CUDA_MEMCPY3D *copy, struct box *ret_box);

/* Bytes from an end's first byte to its last; false: the sum overflows. */
bool box_extent(const struct box *box, const struct box_end *end, uint64_t *ret_bytes);

/*
 * Each function copies between the ends in its name. From the device: the bytes
 * have arrived when it returns.
 */
CUresult box_on_device(const struct box *box, struct stream *stream);
CUresult box_to_device(const struct box *box, struct stream *stream);
CUresult box_from_device(const struct box *box, struct stream *stream);
void box_on_host(const struct box *box);

/* A copy as the driver describes it; NULL is an error. `is_sync': not an Async function. */
CUresult box_copy(const CUDA_MEMCPY3D *copy, CUstream stream, bool is_sync);
CUresult box_copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, bool is_sync);
CUresult box_copy_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, bool is_sync);

/* An end of a copy of one row: an array or an address, and the offset in the array. */
struct row_end {
	CUmemorytype type;
	uintptr_t at;
	size_t x;
};

CUresult box_copy_row(
	struct row_end dst, struct row_end src, size_t size, CUstream stream, bool is_sync);

#endif
