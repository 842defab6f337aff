/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills: checked at the call, done by the stream.
 *
 * fill_run() runs in streams' threads without the driver's lock, the rest in
 * any thread under it.
 */

#include <string.h>

#include "copy.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

static size_t fill_extent(const struct fill_work *fill)
{
	return fill->pitch * (fill->height - 1) + fill->width;
}

static void fill_row(void *row, uint32_t value, uint32_t unit, size_t width)
{
	uint16_t *words16 = row;
	uint32_t *words32 = row;

	if (unit == 1) {
		memset(row, (int)value, width);
		return;
	}
	for (size_t i = 0; i < width / unit; i++) {
		if (unit == 2)
			words16[i] = (uint16_t)value;
		else
			words32[i] = value;
	}
}

CUresult fill_run(const struct fill_work *fill)
{
	if (driver.copy_us > 0)
		usleep(driver.copy_us);
	if (!range_reaches(fill->dst, fill_extent(fill), NULL))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (size_t y = 0; y < fill->height; y++)
		fill_row((void *)(uintptr_t)(fill->dst + y * fill->pitch), fill->value, fill->unit,
			fill->width);
	return CUDA_SUCCESS;
}

bool fill_is_in_range(const struct fill_work *fill)
{
	size_t extent;

	return !__builtin_mul_overflow(fill->pitch, fill->height - 1, &extent) &&
	       !__builtin_add_overflow(extent, fill->width, &extent) &&
	       range_reaches(fill->dst, extent, NULL);
}

/* A fill of `height' rows of `n' units in any memory. WORK_NONE if there is nothing to do. */
static CUresult fill_shape(const struct fill_work *fill, size_t n, struct work *ret_work)
{
	struct work work = {.kind = WORK_FILL, .fill = *fill};

	if (__builtin_mul_overflow(n, (size_t)fill->unit, &work.fill.width) ||
		fill->dst % fill->unit != 0 ||
		(fill->height > 1 &&
			(fill->pitch < work.fill.width || fill->pitch % fill->unit != 0)))
		return CUDA_ERROR_INVALID_VALUE;
	if (n == 0 || fill->height == 0)
		work.kind = WORK_NONE;
	*ret_work = work;
	return CUDA_SUCCESS;
}

static CUresult fill_check(const struct fill_work *fill, size_t n, struct work *ret_work)
{
	CUresult result = fill_shape(fill, n, ret_work);

	return result == CUDA_SUCCESS && ret_work->kind == WORK_FILL &&
			       !fill_is_in_range(&ret_work->fill)
		       ? CUDA_ERROR_INVALID_VALUE
		       : result;
}

CUresult fill_work_2d(const CUDA_MEMSET_NODE_PARAMS *params, struct work *ret_work)
{
	struct fill_work fill = {.dst = params->dst,
		.pitch = params->pitch,
		.height = params->height,
		.value = params->value,
		.unit = params->elementSize};

	if (fill.unit != 1 && fill.unit != 2 && fill.unit != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->width == 0 || params->height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return fill_check(&fill, params->width, ret_work);
}

/* A synchronous fill waits only if the host can read that memory. */
static CUresult fill_submit(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t n,
	size_t height, CUstream handle, bool is_async)
{
	struct fill_work fill = {dst, pitch, 0, height, value, unit};
	struct stream *stream;
	struct work work;
	CUresult result = stream_get(handle, &stream);

	/* Captured work is checked at instantiation. */
	if (result == CUDA_SUCCESS)
		result =
			stream->capture ? fill_shape(&fill, n, &work) : fill_check(&fill, n, &work);
	if (result != CUDA_SUCCESS || work.kind == WORK_NONE)
		return result;
	if (!is_async && stream->capture)
		return stream_check_sync(stream);
	result = stream_push(stream, &work);
	if (result != CUDA_SUCCESS || is_async)
		return result;
	return stream_finish(stream, !range_is_hidden(dst) || context_is_sync());
}

ENTER_DEFAULT_STREAM(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t n),
	fill_submit(dst, 0, value, 1, n, 1, stream, false))
ENTER_DEFAULT_STREAM(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t n),
	fill_submit(dst, 0, value, 2, n, 1, stream, false))
ENTER_DEFAULT_STREAM(cuMemsetD32_v2, (CUdeviceptr dst, unsigned value, size_t n),
	fill_submit(dst, 0, value, 4, n, 1, stream, false))
ENTER_STREAM(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream),
	fill_submit(dst, 0, value, 1, n, 1, stream, true))
ENTER_STREAM(cuMemsetD16Async, (CUdeviceptr dst, unsigned short value, size_t n, CUstream stream),
	fill_submit(dst, 0, value, 2, n, 1, stream, true))
ENTER_STREAM(cuMemsetD32Async, (CUdeviceptr dst, unsigned value, size_t n, CUstream stream),
	fill_submit(dst, 0, value, 4, n, 1, stream, true))
ENTER_DEFAULT_STREAM(cuMemsetD2D8_v2,
	(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height),
	fill_submit(dst, pitch, value, 1, width, height, stream, false))
ENTER_DEFAULT_STREAM(cuMemsetD2D16_v2,
	(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height),
	fill_submit(dst, pitch, value, 2, width, height, stream, false))
ENTER_DEFAULT_STREAM(cuMemsetD2D32_v2,
	(CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height),
	fill_submit(dst, pitch, value, 4, width, height, stream, false))
ENTER_STREAM(cuMemsetD2D8Async,
	(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
		CUstream stream),
	fill_submit(dst, pitch, value, 1, width, height, stream, true))
ENTER_STREAM(cuMemsetD2D16Async,
	(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height,
		CUstream stream),
	fill_submit(dst, pitch, value, 2, width, height, stream, true))
ENTER_STREAM(cuMemsetD2D32Async,
	(CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height,
		CUstream stream),
	fill_submit(dst, pitch, value, 4, width, height, stream, true))
