/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Setting memory. Any thread of the application.
 *
 * Invariant: the memory of each message lies in one range of this process. A call
 * waits only for memory that the host can access (sync_rules.h).
 */

#include "fill.h"

#include "client/stream/recorder.h"
#include "client/stream/stream.h"
#include "client/memory/memory.h"
#include "client/memory/registered.h"
#include "client/memory/sync_rules.h"
#include "send_copy.h"

/* Bytes from the first one to the last; false: the sum overflows. */
static bool fill_extent(const struct fill *fill, uint64_t *ret_bytes)
{
	uint64_t row, above;

	return !__builtin_mul_overflow(fill->count, fill->width, &row) &&
	       !__builtin_mul_overflow(fill->rows - 1, fill->pitch, &above) &&
	       !__builtin_add_overflow(row, above, ret_bytes) &&
	       (fill->rows == 1 || fill->pitch >= row);
}

/* Whether the shape is valid, wherever the memory is. */
static bool fill_shape(const struct fill *fill, uint64_t *ret_bytes)
{
	return fill->dst % fill->width == 0 &&
	       (fill->rows == 1 || fill->pitch % fill->width == 0) && fill_extent(fill, ret_bytes);
}

CUresult fill_check(const struct fill *fill)
{
	uint64_t bytes;

	return fill_shape(fill, &bytes) && memory_contains(fill->dst, bytes)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fill_send(const struct fill *fill, struct stream *stream)
{
	CUresult result = send_fill(stream_id(stream), fill->dst, fill->value, fill->width,
		fill->count, fill->pitch, fill->rows);

	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

CUresult fill_post(struct fill fill, CUstream handle, bool is_sync)
{
	struct stream *stream = NULL;
	struct memory_range range;
	bool captures = false;
	uint64_t bytes;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || fill.count == 0 || fill.rows == 0)
		return result;
	fill.dst = registered_translate(fill.dst, 1);
	if (!fill_shape(&fill, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = recorder_look(stream, &captures);
	/*
	 * The owner of the memory is checked when the graph is instantiated: cuDNN tries its
	 * kernels in captures with invalid addresses.
	 */
	if (unlikely(captures))
		return recorder.fill(stream, &fill);
	if (result == CUDA_SUCCESS && !memory_find_whole(fill.dst, bytes, &range))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = fill_send(&fill, stream);
	if (result != CUDA_SUCCESS || !is_sync)
		return result;
	if (sync_set_waits(is_sync, sync_side_of(&range)))
		return sync_finish(stream);
	sync_leave(stream);
	return CUDA_SUCCESS;
}
