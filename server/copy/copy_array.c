/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies with an end in an array. A worker.
 *
 * Invariant: the box lies within the array, and its other end within memory or an array of
 * the session.
 */

#include "copy.h"
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

CUresult do_copy_array(struct session *session, struct stream *stream, struct array *array,
	const struct msg_copy_array *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	const struct box_end line = {
		.at = end_of(msg->address), .pitch = msg->pitch, .rows = msg->rows};
	struct box_end end;

	if (!box_end_in(array, msg->x, msg->y, msg->z, &size, &end) ||
		!box_end_ok(session, &line, &size))
		return CUDA_ERROR_INVALID_VALUE;
	return msg->is_out ? copy_box(session, stream, &line, &end, &size)
			   : copy_box(session, stream, &end, &line, &size);
}

CUresult do_copy_arrays(struct session *session, struct stream *stream, struct array *dst,
	struct array *src, const struct msg_copy_arrays *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	struct box_end to, from;

	if (!box_end_in(dst, msg->dst_x, msg->dst_y, msg->dst_z, &size, &to) ||
		!box_end_in(src, msg->src_x, msg->src_y, msg->src_z, &size, &from))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_box(session, stream, &to, &from, &size);
}

CUresult do_copy_array_rows(struct session *session, struct stream *stream, struct array *array,
	const struct msg_copy_array_rows *msg)
{
	const struct box_size size = {msg->width, msg->rows, 1};
	struct box_end end;

	if (!box_end_in(array, msg->x, msg->y, msg->z, &size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_box_staged(session, stream, &end, msg->offset, &size, msg->is_out);
}
