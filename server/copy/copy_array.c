/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies with an end in an array. A worker.
 *
 * Invariant: the box lies within the array, and its other end within memory or an array of
 * the session.
 */

#include "copy.h"
#include "staging.h"
#include "server/session/session.h"
#include "server/stream/stream.h"
#include "server/array/array.h"

bool box_end_in(const struct array *array, uint64_t x, uint64_t y, uint64_t z,
	const struct box_size *size, struct box_end *ret_end)
{
	*ret_end = (struct box_end){.array = array->real, .x = x, .y = y, .z = z};
	return !array->mipmap && range_ok(x, size->width, array->width) &&
	       range_ok(y, size->height, array->height) && range_ok(z, size->depth, array->depth);
}

static CUresult copy_either(struct session *session, struct stream *stream,
	const struct box_end *array, const struct box_end *other, uint32_t is_out,
	const struct box_size *size)
{
	return is_out ? copy_box(session, stream, *other, *array, size)
		      : copy_box(session, stream, *array, *other, size);
}

CUresult do_copy_array(struct session *session, struct stream *stream, struct array *array,
	uint32_t is_out, uint64_t x, uint64_t y, uint64_t z, uint64_t address, uint64_t pitch,
	uint64_t rows, uint64_t width, uint64_t height, uint64_t depth)
{
	const struct box_size size = {width, height, depth};
	const struct box_end line = {.at = end_of(address), .pitch = pitch, .rows = rows};
	struct box_end end;
	CUstream real;
	CUresult result;

	if (!box_end_in(array, x, y, z, &size, &end) || !box_end_ok(session, &line, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	return result == CUDA_SUCCESS ? copy_either(session, stream, &end, &line, is_out, &size)
				      : result;
}

CUresult do_copy_arrays(struct session *session, struct stream *stream, struct array *dst,
	struct array *src, uint64_t dst_x, uint64_t dst_y, uint64_t dst_z, uint64_t src_x,
	uint64_t src_y, uint64_t src_z, uint64_t width, uint64_t height, uint64_t depth)
{
	const struct box_size size = {width, height, depth};
	struct box_end to, from;
	CUstream real;
	CUresult result;

	if (!box_end_in(dst, dst_x, dst_y, dst_z, &size, &to) ||
		!box_end_in(src, src_x, src_y, src_z, &size, &from))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	return result == CUDA_SUCCESS ? copy_box(session, stream, to, from, &size) : result;
}

CUresult do_copy_array_rows(struct session *session, struct stream *stream, struct array *array,
	uint32_t is_out, uint64_t x, uint64_t y, uint64_t z, uint32_t offset, uint32_t width,
	uint32_t rows)
{
	const struct box_size size = {width, rows, 1};
	struct box_end end;
	void *piece = NULL;
	CUstream real;
	CUresult result;

	if (!box_end_in(array, x, y, z, &size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, (uint64_t)width * rows, &piece);
	if (result != CUDA_SUCCESS)
		return result;
	return copy_either(session, stream, &end,
		&(struct box_end){.at = end_of_piece(piece), .pitch = width, .rows = rows}, is_out,
		&size);
}
