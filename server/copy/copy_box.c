/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of boxes: within the session's memory, and row by row through the staging memory. A
 * worker.
 *
 * Invariant: all bytes from a box's first to its last belong to the session, including those
 * between its rows. A box in an array lies within it.
 */

#include "copy.h"
#include "messages.h"
#include "staging.h"
#include "server/session/counting.h"
#include "server/session/session.h"
#include "server/stream/observed.h"
#include "server/stream/stream.h"
#include "server/memory/box.h"
#include "server/memory/host.h"
#include "server/array/array.h"
#include "do_copy.h"

bool box_extent(uint64_t pitch, uint64_t n_rows, const struct box_size *size, uint64_t *ret_extent)
{
	uint64_t slice, slices = 0, rows = 0;

	if (size->height > 1 || size->depth > 1) {
		if (pitch < size->width || __builtin_mul_overflow(pitch, size->height - 1, &rows))
			return false;
	}
	if (size->depth > 1) {
		if (n_rows < size->height || __builtin_mul_overflow(pitch, n_rows, &slice) ||
			__builtin_mul_overflow(slice, size->depth - 1, &slices))
			return false;
	}
	return !__builtin_add_overflow(rows, slices, ret_extent) &&
	       !__builtin_add_overflow(*ret_extent, size->width, ret_extent);
}

bool box_end_find(struct session *session, struct box_end *end, const struct box_size *size)
{
	uint64_t bytes;

	if (!box_extent(end->pitch, end->rows, size, &bytes))
		return false;
	end->at.address = memory_find(session, end->at.address, bytes);
	return end->at.address != 0;
}

/*
 * If both ends are host memory, uses their device pointers, which are equal to the host
 * pointers.
 */
static CUmemorytype type_of(const struct box_end *end, const struct box_end *other)
{
	if (end->array)
		return CU_MEMORYTYPE_ARRAY;
	return end->at.is_host && !other->at.is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

bool box_is_within_host(const struct box_end *dst, const struct box_end *src)
{
	return !dst->array && dst->at.is_host && !src->array && src->at.is_host;
}

CUDA_MEMCPY3D box_describe(
	const struct box_end *dst, const struct box_end *src, const struct box_size *size)
{
	return (CUDA_MEMCPY3D){
		.dstMemoryType = type_of(dst, src),
		.dstXInBytes = dst->x,
		.dstY = dst->y,
		.dstZ = dst->z,
		.dstHost = (void *)(uintptr_t)dst->at.address,
		.dstDevice = dst->at.address,
		.dstArray = dst->array,
		.dstPitch = dst->pitch,
		.dstHeight = dst->rows,
		.srcMemoryType = type_of(src, dst),
		.srcXInBytes = src->x,
		.srcY = src->y,
		.srcZ = src->z,
		.srcHost = (const void *)(uintptr_t)src->at.address,
		.srcDevice = src->at.address,
		.srcArray = src->array,
		.srcPitch = src->pitch,
		.srcHeight = src->rows,
		.WidthInBytes = size->width,
		.Height = size->height,
		.Depth = size->depth,
	};
}

static CUresult copy_rows(const struct box_end *dst, const struct box_end *src,
	const struct box_size *size, CUstream real)
{
	const CUDA_MEMCPY2D copy = {
		.dstMemoryType = type_of(dst, src),
		.dstXInBytes = dst->x,
		.dstY = dst->y,
		.dstHost = (void *)(uintptr_t)dst->at.address,
		.dstDevice = dst->at.address,
		.dstArray = dst->array,
		.dstPitch = dst->pitch,
		.srcMemoryType = type_of(src, dst),
		.srcXInBytes = src->x,
		.srcY = src->y,
		.srcHost = (const void *)(uintptr_t)src->at.address,
		.srcDevice = src->at.address,
		.srcArray = src->array,
		.srcPitch = src->pitch,
		.WidthInBytes = size->width,
		.Height = size->height,
	};

	return cuda.cuMemcpy2DAsync_v2(&copy, real);
}

static CUresult copy_whole(const struct box_end *dst, const struct box_end *src,
	const struct box_size *size, CUstream real)
{
	const CUDA_MEMCPY3D slices = box_describe(dst, src, size);

	/* Only this form reaches beyond the first slice of an array. */
	if (size->depth > 1 || dst->z > 0 || src->z > 0)
		return cuda.cuMemcpy3DAsync_v2(&slices, real);
	if (size->height > 1 || dst->array || src->array)
		return copy_rows(dst, src, size, real);
	return copy_line(dst->at, src->at, size->width, real);
}

/* How many of `n' parts of `size' bytes, `step' apart, lie before the end of a registration. */
static uint64_t parts_before_cut(
	const struct box_end *end, uint64_t n, uint64_t size, uint64_t step)
{
	uint64_t left = host_cut(end->at.address, UINT64_MAX);

	if (end->array)
		return n;
	if (left < size)
		return 0;
	return n == 1 || step == 0 ? n : MIN(n, 1 + (left - size) / step);
}

static void advance_rows(struct box_end *end, uint64_t n)
{
	if (end->array)
		end->y += n;
	else
		end->at.address += n * end->pitch;
}

static void advance_slices(struct box_end *end, uint64_t n)
{
	if (end->array)
		end->z += n;
	else
		end->at.address += n * end->pitch * end->rows;
}

/* Copies a row between an array and memory that crosses the end of a registration. */
static CUresult copy_row_cut(struct box_end dst, struct box_end src, uint64_t width, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	while (width > 0 && result == CUDA_SUCCESS) {
		uint64_t n = dst.array ? width : host_cut(dst.at.address, width);

		if (!src.array)
			n = host_cut(src.at.address, n);
		result = copy_whole(&dst, &src, &(struct box_size){n, 1, 1}, real);
		dst.x += dst.array ? n : 0;
		src.x += src.array ? n : 0;
		dst.at.address += n;
		src.at.address += n;
		width -= n;
	}
	return result;
}

/*
 * The rows of one slice: runs of rows between the ends of registrations, and rows that cross
 * one.
 */
static CUresult copy_rows_cut(struct session *session, struct box_end dst, struct box_end src,
	const struct box_size *size, CUstream real)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t n;

	for (uint64_t left = size->height; left > 0 && result == CUDA_SUCCESS; left -= n) {
		if (atomic_load(&session->is_ending))
			break;
		n = parts_before_cut(&dst, left, size->width, dst.pitch);
		n = MIN(n, parts_before_cut(&src, left, size->width, src.pitch));
		if (n > 0)
			result =
				copy_whole(&dst, &src, &(struct box_size){size->width, n, 1}, real);
		else
			result = copy_row_cut(dst, src, size->width, real);
		n = MAX(n, 1u);
		advance_rows(&dst, n);
		advance_rows(&src, n);
	}
	return result;
}

/* Slices in the same way. A slice that crosses an end is copied by rows. Both ends are checked. */
static CUresult copy_slices_cut(struct session *session, struct box_end dst, struct box_end src,
	const struct box_size *size, CUstream real)
{
	const struct box_size slice = {size->width, size->height, 1};
	uint64_t dst_bytes = 0, src_bytes = 0, n;
	CUresult result = CUDA_SUCCESS;

	if (box_is_within_host(&dst, &src))
		return copy_host_box(session, &dst, &src, size, real);
	if ((!dst.array && !box_extent(dst.pitch, dst.rows, &slice, &dst_bytes)) ||
		(!src.array && !box_extent(src.pitch, src.rows, &slice, &src_bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t left = size->depth; left > 0 && result == CUDA_SUCCESS; left -= n) {
		if (atomic_load(&session->is_ending))
			break;
		n = parts_before_cut(&dst, left, dst_bytes, dst.pitch * dst.rows);
		n = MIN(n, parts_before_cut(&src, left, src_bytes, src.pitch * src.rows));
		if (n > 0)
			result = copy_whole(
				&dst, &src, &(struct box_size){size->width, size->height, n}, real);
		else
			result = copy_rows_cut(session, dst, src, size, real);
		n = MAX(n, 1u);
		advance_slices(&dst, n);
		advance_slices(&src, n);
	}
	return result;
}

/* The stream is ready for the copy. */
static CUresult copy_begun(struct session *session, struct stream *stream,
	const struct box_end *dst, const struct box_end *src, const struct box_size *size)
{
	uint64_t bytes = size->width * size->height * size->depth;

	counter_add_copy(session, dst->at.is_host, src->at.is_host, bytes);
	return OBSERVED(session, stream, copy_slices_cut(session, *dst, *src, size, stream->real),
		{.kind = trace_copy_kind(dst->at.is_host, src->at.is_host), .size = bytes});
}

CUresult copy_box(struct session *session, struct stream *stream, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size)
{
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	return result == CUDA_SUCCESS ? copy_begun(session, stream, dst, src, size) : result;
}

CUresult copy_box_staged(struct session *session, struct stream *stream, const struct box_end *end,
	uint64_t offset, const struct box_size *size, bool is_out)
{
	struct box_end staged = {.pitch = size->width, .rows = size->height};
	void *piece = NULL;
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, size->width * size->height, &piece);
	if (result != CUDA_SUCCESS)
		return result;
	staged.at = end_of_piece(piece);
	return is_out ? copy_begun(session, stream, &staged, end, size)
		      : copy_begun(session, stream, end, &staged, size);
}

CUresult do_copy_box(struct session *session, struct stream *stream, const struct msg_copy_box *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	struct box_end to = {
		.at = end_of(msg->dst), .pitch = msg->dst_pitch, .rows = msg->dst_rows};
	struct box_end from = {
		.at = end_of(msg->src), .pitch = msg->src_pitch, .rows = msg->src_rows};

	if (!box_end_find(session, &to, &size) || !box_end_find(session, &from, &size))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_box(session, stream, &to, &from, &size);
}

static CUresult copy_rows_staged(struct session *session, struct stream *stream, uint64_t address,
	uint64_t pitch, uint32_t offset, const struct box_size *size, bool is_out)
{
	struct box_end line = {.at = end_of(address),
		.pitch = size->height > 1 ? pitch : size->width,
		.rows = size->height};

	return box_end_find(session, &line, size)
		       ? copy_box_staged(session, stream, &line, offset, size, is_out)
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_copy_rows_in(struct session *session, struct stream *stream, uint64_t dst,
	uint64_t pitch, uint32_t offset, uint32_t width, uint32_t rows)
{
	return copy_rows_staged(
		session, stream, dst, pitch, offset, &(struct box_size){width, rows, 1}, false);
}

CUresult do_copy_rows_out(struct session *session, struct stream *stream, uint64_t src,
	uint64_t pitch, uint32_t offset, uint32_t width, uint32_t rows)
{
	return copy_rows_staged(
		session, stream, src, pitch, offset, &(struct box_size){width, rows, 1}, true);
}

/* ---- with an end in an array */

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
	struct box_end line = {.at = end_of(msg->address), .pitch = msg->pitch, .rows = msg->rows};
	struct box_end end;

	if (!box_end_in(array, msg->x, msg->y, msg->z, &size, &end) ||
		!box_end_find(session, &line, &size))
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
