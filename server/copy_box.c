/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of boxes: within the session's memory, and row by row by way of the
 * staging memory. A worker.
 *
 * Invariant: all bytes from a box's first to its last are the session's, those
 * between its rows too.
 */

#include "session.h"
#include "staging.h"

/* One end of a box; rows of a slice that is the only one mean nothing. */
struct end {
	uint64_t address, pitch, rows;
};

struct size {
	uint64_t width, height, depth;
};

/* Bytes from the first to the last of a box; false if no such memory can be. */
static bool extent(const struct end *end, const struct size *size, uint64_t *ret_extent)
{
	uint64_t slice, slices = 0, rows = 0;

	if (size->height > 1 || size->depth > 1) {
		if (end->pitch < size->width ||
			__builtin_mul_overflow(end->pitch, size->height - 1, &rows))
			return false;
	}
	if (size->depth > 1) {
		if (end->rows < size->height ||
			__builtin_mul_overflow(end->pitch, end->rows, &slice) ||
			__builtin_mul_overflow(slice, size->depth - 1, &slices))
			return false;
	}
	return !__builtin_add_overflow(rows, slices, ret_extent) &&
	       !__builtin_add_overflow(*ret_extent, size->width, ret_extent);
}

static bool end_ok(struct session *session, const struct end *end, const struct size *size)
{
	uint64_t bytes;

	return extent(end, size, &bytes) && memory_check(session, end->address, bytes);
}

static CUresult copy_slices(
	const struct end *dst, const struct end *src, const struct size *size, CUstream real)
{
	const CUDA_MEMCPY3D copy = {
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst->address,
		.dstPitch = dst->pitch,
		.dstHeight = dst->rows,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src->address,
		.srcPitch = src->pitch,
		.srcHeight = src->rows,
		.WidthInBytes = size->width,
		.Height = size->height,
		.Depth = size->depth,
	};

	return cuda.cuMemcpy3DAsync_v2(&copy, real);
}

static CUresult copy_rows(
	const struct end *dst, const struct end *src, const struct size *size, CUstream real)
{
	const CUDA_MEMCPY2D copy = {
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst->address,
		.dstPitch = dst->pitch,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src->address,
		.srcPitch = src->pitch,
		.WidthInBytes = size->width,
		.Height = size->height,
	};

	return cuda.cuMemcpy2DAsync_v2(&copy, real);
}

CUresult do_copy_box(struct session *session, struct stream *stream, uint64_t dst, uint64_t src,
	uint64_t dst_pitch, uint64_t src_pitch, uint64_t dst_rows, uint64_t src_rows,
	uint64_t width, uint64_t height, uint64_t depth)
{
	const struct size size = {width, height, depth};
	const struct end to = {dst, dst_pitch, dst_rows}, from = {src, src_pitch, src_rows};
	CUstream real;
	CUresult result;

	if (!end_ok(session, &to, &size) || !end_ok(session, &from, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	if (result != CUDA_SUCCESS)
		return result;
	if (depth > 1)
		return copy_slices(&to, &from, &size, real);
	if (height > 1)
		return copy_rows(&to, &from, &size, real);
	return cuda.cuMemcpyAsync(dst, src, width, real);
}

CUresult do_copy_rows_in(struct session *session, struct stream *stream, uint64_t dst,
	uint64_t pitch, uint32_t offset, uint32_t width, uint32_t rows)
{
	const struct size size = {width, rows, 1};
	const struct end to = {dst, pitch, rows};
	CUDA_MEMCPY2D copy = {
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dst,
		.dstPitch = rows > 1 ? pitch : width,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = width,
		.WidthInBytes = width,
		.Height = rows,
	};
	void *piece = NULL;
	CUstream real;
	CUresult result;

	if (!end_ok(session, &to, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, (uint64_t)width * rows, &piece);
	copy.srcHost = piece;
	return result == CUDA_SUCCESS ? cuda.cuMemcpy2DAsync_v2(&copy, real) : result;
}

CUresult do_copy_rows_out(struct session *session, struct stream *stream, uint64_t src,
	uint64_t pitch, uint32_t offset, uint32_t width, uint32_t rows)
{
	const struct size size = {width, rows, 1};
	const struct end from = {src, pitch, rows};
	CUDA_MEMCPY2D copy = {
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstPitch = width,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = src,
		.srcPitch = rows > 1 ? pitch : width,
		.WidthInBytes = width,
		.Height = rows,
	};
	void *piece = NULL;
	CUstream real;
	CUresult result;

	if (!end_ok(session, &from, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, (uint64_t)width * rows, &piece);
	copy.dstHost = piece;
	return result == CUDA_SUCCESS ? cuda.cuMemcpy2DAsync_v2(&copy, real) : result;
}
