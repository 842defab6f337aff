/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Ends of copies, and copies of contiguous lines of bytes and of boxes. The session's worker
 * only, with the stream's context current.
 */

#include "server/driver/driver.h"
#include "server/memory/box.h"

struct array;
struct session;
struct stream;

/* An end of a copy. Pinned memory and staging are host memory. */
struct end {
	uint64_t address;
	bool is_host;
};

/* For memory of the client: in one of its VA windows, or a variable at any address. */
struct end end_of(uint64_t address);

/* For a piece of the staging memory. */
struct end end_of_piece(const void *piece);

/* Splits the copy at the end of a registration, because the driver copies within one only. */
CUresult copy_line(struct end dst, struct end src, uint64_t size, CUstream real);

/* The same within host memory, without waiting in the driver (copy_host.c). */
CUresult copy_host_line(uint64_t dst, uint64_t src, uint64_t size, CUstream real);

/* One end of a box; rows per slice is unused if there is only one slice. */
struct box_end {
	struct end at;
	uint64_t pitch, rows;
	CUarray array;    /* NULL: linear memory at `at' */
	uint64_t x, y, z; /* in the array: bytes, rows, slices */
};

/* Whether both ends are host memory, staging included. */
bool box_is_within_host(const struct box_end *dst, const struct box_end *src);

/*
 * Whether all bytes of an end in linear memory belong to the session. The end gets the address that
 * the driver knows.
 */
bool box_end_find(struct session *session, struct box_end *end, const struct box_size *size);

/* The end of a box in an array. False: it leaves the array, or the array is mipmapped. */
bool box_end_in(const struct array *array, uint64_t x, uint64_t y, uint64_t z,
	const struct box_size *size, struct box_end *ret_end);

/* Describes the copy for the driver. */
CUDA_MEMCPY3D box_describe(
	const struct box_end *dst, const struct box_end *src, const struct box_size *size);

/* Makes as few copies as the ends of registrations allow, on the stream. Both ends are checked. */
CUresult copy_box(struct session *session, struct stream *stream, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size);

/*
 * The same between an end and rows without gaps in the staging memory, from `offset' on; `is_out':
 * to the staging memory.
 */
CUresult copy_box_staged(struct session *session, struct stream *stream, const struct box_end *end,
	uint64_t offset, const struct box_size *size, bool is_out);

/* The same for a box within host memory; neither end is in an array. */
CUresult copy_host_box(struct session *session, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size, CUstream real);

#endif
