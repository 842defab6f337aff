/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Ends of copies, and copies of plain lines of bytes and of boxes. The
 * session's worker only, with the stream's context current.
 */

#include "server/memory/box.h"
#include "server/driver/driver.h"

struct array;
struct session;

/* An end of a copy: pinned memory and staging are the host's. */
struct end {
	uint64_t address;
	bool is_host;
};

/* Of memory of the client's: in one of its units, or a variable at any address. */
struct end end_of(uint64_t address);

/* Of a piece of the staging memory. */
struct end end_of_piece(const void *piece);

/* Cut where a registration ends: the driver copies within one only. */
CUresult copy_line(struct end dst, struct end src, uint64_t size, CUstream real);

/* The same within host memory, without waiting in the driver (copy_host.c). */
CUresult copy_host_line(uint64_t dst, uint64_t src, uint64_t size, CUstream real);

/* One end of a box; rows of a slice that is the only one mean nothing. */
struct box_end {
	struct end at;
	uint64_t pitch, rows;
	CUarray array;    /* NULL: at `at', in linear memory */
	uint64_t x, y, z; /* in the array: bytes, rows, slices */
};

/* Whether both ends are host memory, staging included. */
bool box_is_within_host(const struct box_end *dst, const struct box_end *src);

/* Whether all bytes of an end in linear memory are the session's. */
bool box_end_ok(struct session *session, const struct box_end *end, const struct box_size *size);

/* The end of a box in an array; false: it leaves the array, or it is a mipmapped one. */
bool box_end_in(const struct array *array, uint64_t x, uint64_t y, uint64_t z,
	const struct box_size *size, struct box_end *ret_end);

/* As the driver has it. */
CUDA_MEMCPY3D box_describe(
	const struct box_end *dst, const struct box_end *src, const struct box_size *size);

/* As few copies as the ends of registrations allow. Both ends have been checked. */
CUresult copy_box(struct session *session, struct box_end dst, struct box_end src,
	const struct box_size *size, CUstream real);

/* The same of a box within host memory; neither end is in an array. */
CUresult copy_host_box(struct session *session, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size, CUstream real);

#endif
