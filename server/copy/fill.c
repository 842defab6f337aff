/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills memory with a value, one row or several. A worker.
 *
 * Invariant: all bytes from the first to the last belong to the session, including those
 * between rows.
 */

#include "messages.h"
#include "server/session/counting.h"
#include "server/session/session.h"
#include "server/schedule/closed_gpu.h"
#include "server/share/session_device.h"
#include "server/stream/observed.h"
#include "server/stream/stream.h"
#include "server/memory/box.h"
#include "server/memory/host.h"
#include "do_copy.h"

uint64_t fill_extent(uint32_t width, uint64_t count, uint64_t pitch, uint64_t rows)
{
	uint64_t row, rest;

	if (__builtin_mul_overflow(count, (uint64_t)width, &row))
		return 0;
	if (rows == 1)
		return row;
	if (pitch < row || __builtin_mul_overflow(pitch, rows - 1, &rest) ||
		__builtin_add_overflow(rest, row, &row))
		return 0;
	return row;
}

static CUresult fill_row(
	CUdeviceptr dst, uint32_t value, uint32_t width, uint64_t count, CUstream real)
{
	switch (width) {
	case 1:
		return cuda.cuMemsetD8Async(dst, (unsigned char)value, count, real);
	case 2:
		return cuda.cuMemsetD16Async(dst, (unsigned short)value, count, real);
	default:
		return cuda.cuMemsetD32Async(dst, value, count, real);
	}
}

static CUresult fill_rows(CUdeviceptr dst, uint32_t value, uint32_t width, uint64_t count,
	uint64_t pitch, uint64_t rows, CUstream real)
{
	switch (width) {
	case 1:
		return cuda.cuMemsetD2D8Async(dst, pitch, (unsigned char)value, count, rows, real);
	case 2:
		return cuda.cuMemsetD2D16Async(
			dst, pitch, (unsigned short)value, count, rows, real);
	default:
		return cuda.cuMemsetD2D32Async(dst, pitch, value, count, rows, real);
	}
}

/* Row by row and piece by piece: in pinned memory a call must not cross the end of a piece. */
static CUresult fill_cut(struct session *session, CUdeviceptr dst, uint32_t value, uint32_t width,
	uint64_t count, uint64_t pitch, uint64_t rows, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	for (; rows > 0 && result == CUDA_SUCCESS; rows--, dst += pitch) {
		uint64_t n = 0;

		if (atomic_load(&session->is_ending))
			return CUDA_SUCCESS;

		for (uint64_t i = 0; i < count && result == CUDA_SUCCESS; i += n) {
			CUdeviceptr at = dst + i * width;

			n = host_cut(at, (count - i) * width) / width;
			result = fill_row(at, value, width, n, real);
		}
	}
	return result;
}

static CUresult fill_any(struct session *session, bool is_cut, CUdeviceptr dst, uint32_t value,
	uint32_t width, uint64_t count, uint64_t pitch, uint64_t rows, CUstream real)
{
	if (is_cut)
		return fill_cut(session, dst, value, width, count, pitch, rows, real);
	return rows == 1 ? fill_row(dst, value, width, count, real)
			 : fill_rows(dst, value, width, count, pitch, rows, real);
}

CUresult do_fill(struct session *session, struct stream *stream, const struct msg_fill *msg)
{
	uint64_t size = fill_extent(msg->width, msg->count, msg->pitch, msg->rows);
	uint64_t dst = size > 0 ? memory_find(session, msg->dst, size) : 0;
	CUstream real;
	CUresult result;

	if (dst == 0 || msg->dst % msg->width != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_begin_light(session, stream, &real);
	if (result != CUDA_SUCCESS)
		return result;
	counter_add(session, COUNTER_FILLS, 1);
	return OBSERVED(session, stream,
		LAUNCHING(session, stream->device,
			fill_any(session, host_cut(dst, size) < size, dst, msg->value, msg->width,
				msg->count, msg->pitch, msg->rows, real)),
		{.kind = TRACE_FILL, .size = msg->count * msg->width * msg->rows});
}
