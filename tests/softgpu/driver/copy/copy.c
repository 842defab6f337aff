/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies: checked at the call, done by the stream.
 *
 * copy_run() runs in streams' threads without the driver's lock, the rest in
 * any thread under it. Memory of the GPU is checked again when the copy is
 * done; pageable memory is not checked.
 */

#include "copy.h"

#include <string.h>

#include "tests/softgpu/driver/graph/capture.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

/* A pageable source up to this size is staged, so that the call does not wait. */
#define STAGED_MAX ((size_t)1 << 20)

/* The range of bytes of a box; false on overflow. */
static bool box_extent(const struct copy_work *copy, size_t pitch, size_t slice, size_t *ret_size)
{
	size_t rows, layers;

	if (__builtin_mul_overflow(pitch, copy->height - 1, &rows) ||
		__builtin_mul_overflow(slice, copy->depth - 1, &layers) ||
		__builtin_add_overflow(rows, layers, ret_size))
		return false;
	return !__builtin_add_overflow(*ret_size, copy->width, ret_size);
}

static bool copy_is_reached(const struct copy_work *copy)
{
	size_t dst, src;

	return box_extent(copy, copy->dst_pitch, copy->dst_slice, &dst) &&
	       box_extent(copy, copy->src_pitch, copy->src_slice, &src) &&
	       (!copy->is_dst_device || copy->is_dst_array ||
		       range_reaches(copy->dst, dst, NULL)) &&
	       (!copy->is_src_device || copy->is_src_array || range_reaches(copy->src, src, NULL));
}

/* AddressSanitizer's memmove() copies byte by byte. */
static void copy_row(uint64_t dst, uint64_t src, size_t width)
{
	if (dst - src >= width && src - dst >= width)
		memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, width);
	else
		memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, width);
}

CUresult copy_run(const struct copy_work *copy)
{
	const uint64_t from = copy->staged ? (uint64_t)(uintptr_t)copy->staged : copy->src;

	if (driver.copy_us > 0)
		usleep(driver.copy_us);
	if (!copy_is_reached(copy))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (size_t z = 0; z < copy->depth; z++) {
		for (size_t y = 0; y < copy->height; y++) {
			uint64_t dst = copy->dst + z * copy->dst_slice + y * copy->dst_pitch;
			uint64_t src = from + z * copy->src_slice + y * copy->src_pitch;

			copy_row(dst, src, copy->width);
		}
	}
	return CUDA_SUCCESS;
}

/*
 * Finds the kind of memory at one end of a copy. Host memory that begins in a
 * registration must end in it. Memory of a host pool that no device reaches is pageable.
 */
static CUresult end_classify(
	uint64_t address, size_t size, bool is_host_allowed, bool is_array, bool *ret_device)
{
	const struct range *range = range_find(address);

	if (is_array) {
		*ret_device = true;
		return CUDA_SUCCESS;
	}
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = range && range_is_reached(range);
	if (!*ret_device)
		return is_host_allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return range_reaches(address, size, NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_classify(struct copy_work *copy, bool is_dst_host, bool is_src_host)
{
	size_t dst, src;
	CUresult result;

	if (!box_extent(copy, copy->dst_pitch, copy->dst_slice, &dst) ||
		!box_extent(copy, copy->src_pitch, copy->src_slice, &src))
		return CUDA_ERROR_INVALID_VALUE;
	result =
		end_classify(copy->dst, dst, is_dst_host, copy->is_dst_array, &copy->is_dst_device);
	if (result == CUDA_SUCCESS)
		result = end_classify(
			copy->src, src, is_src_host, copy->is_src_array, &copy->is_src_device);
	return result;
}

static bool copy_is_staged(const struct copy_work *copy)
{
	return !copy->is_src_device && copy->is_dst_device && copy->height == 1 &&
	       copy->depth == 1 && copy->width <= STAGED_MAX;
}

/* A synchronous copy waits if the host can see either end, or has asked for that. */
static bool copy_is_awaited(const struct copy_work *copy)
{
	return context_is_sync() || !(copy->is_dst_array || range_is_hidden(copy->dst)) ||
	       !(copy->is_src_array || range_is_hidden(copy->src));
}

static bool is_host_end(uint64_t address, bool is_array)
{
	return !is_array && host_owns(address);
}

bool copy_is_on_host(const struct copy_work *copy)
{
	return is_host_end(copy->dst, copy->is_dst_array) &&
	       is_host_end(copy->src, copy->is_src_array);
}

static bool is_managed_end(uint64_t address, bool is_array, enum copy_end end)
{
	return end == END_HOST && !is_array && range_is_managed(address);
}

/*
 * Submits a classified copy. An asynchronous call waits for a copy on the host, for
 * a copy that names managed memory as the host's (`is_named'), and until it no longer
 * needs pageable memory. Only asynchronous calls stage: the others read the source in
 * the stream's order.
 */
static CUresult copy_push(
	struct copy_work *copy, struct stream *stream, bool is_async, bool is_named)
{
	struct work work = {.kind = WORK_COPY};
	bool is_on_host = copy_is_on_host(copy);
	bool is_waited =
		is_async ? is_on_host || is_named || !copy->is_src_device || !copy->is_dst_device
			 : copy_is_awaited(copy);
	CUresult result;

	if (!is_async && stream->capture)
		return stream_check_sync(stream);
	if (is_async && !is_on_host && copy_is_staged(copy) && !stream->capture) {
		copy->staged = malloc(copy->width);
		if (!copy->staged)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(copy->staged, (void *)(uintptr_t)copy->src, copy->width);
		is_waited = false;
	}
	work.copy = *copy;
	result = stream_push(stream, &work);
	if (result != CUDA_SUCCESS || stream->capture || (is_async && !is_waited))
		return result;
	return stream_finish(stream, is_waited);
}

CUresult copy_submit(struct copy_work *copy, CUstream handle, bool is_async, enum copy_end dst,
	enum copy_end src)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result != CUDA_SUCCESS || copy->width == 0 || copy->height == 0 || copy->depth == 0)
		return result;
	result = copy_classify(copy, dst != END_DEVICE, src != END_DEVICE);
	if (result != CUDA_SUCCESS)
		return result;
	return copy_push(copy, stream, is_async,
		is_managed_end(copy->dst, copy->is_dst_array, dst) ||
			is_managed_end(copy->src, copy->is_src_array, src));
}

/* How a call names the ends of a copy. */
struct ends {
	enum copy_end dst, src;
};

static const struct ends on_device = {END_DEVICE, END_DEVICE};
static const struct ends to_host = {END_HOST, END_DEVICE};
static const struct ends from_host = {END_DEVICE, END_HOST};
static const struct ends any = {END_ANY, END_ANY};

static CUmemorytype type_of(enum copy_end end)
{
	if (end == END_ANY)
		return CU_MEMORYTYPE_UNIFIED;
	return end == END_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* For queries of the graph node, if the stream captures. */
static CUDA_MEMCPY3D line_desc(CUdeviceptr dst, CUdeviceptr src, size_t size, struct ends ends)
{
	CUDA_MEMCPY3D desc = {.dstMemoryType = type_of(ends.dst),
		.srcMemoryType = type_of(ends.src),
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};

	if (ends.dst == END_HOST)
		desc.dstHost = (void *)(uintptr_t)dst;
	else
		desc.dstDevice = dst;
	if (ends.src == END_HOST)
		desc.srcHost = (const void *)(uintptr_t)src;
	else
		desc.srcDevice = src;
	return desc;
}

static CUresult copy_between(CUdeviceptr dst, CUdeviceptr src, size_t size, struct ends ends,
	CUstream handle, bool is_async)
{
	struct copy_work copy = {.dst = dst,
		.src = src,
		.width = size,
		.height = 1,
		.depth = 1,
		.desc = line_desc(dst, src, size, ends)};

	return copy_submit(&copy, handle, is_async, ends.dst, ends.src);
}

/* Mapped memory to which the device has no access. */
static bool is_barred(CUdeviceptr address, size_t size, const struct device *device)
{
	const struct range *range = range_find(address);

	return range && range->kind == RANGE_MAPPED && !range_reaches(address, size, device);
}

static CUresult copy_line(CUdeviceptr dst, CUdeviceptr src, size_t size, struct ends ends,
	CUstream handle, bool is_async)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	if (is_barred(dst, size, stream->context->device) ||
		is_barred(src, size, stream->context->device))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_between(dst, src, size, ends, handle, is_async);
}

static CUdeviceptr host(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

ENTER_DEFAULT_STREAM(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t size),
	copy_line(dst, host(src), size, from_host, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t size),
	copy_line(host(dst), src, size, to_host, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t size),
	copy_line(dst, src, size, on_device, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t size),
	copy_line(dst, src, size, any, stream, false))
ENTER_STREAM(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
	copy_line(dst, host(src), size, from_host, stream, true))
ENTER_STREAM(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t size, CUstream stream),
	copy_line(host(dst), src, size, to_host, stream, true))
ENTER_STREAM(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
	copy_line(dst, src, size, on_device, stream, true))
ENTER_STREAM(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
	copy_line(dst, src, size, any, stream, true))

/* As driver 580 on an H100: copies between contexts cannot be captured. */
CUresult copy_peer_check(CUstream handle)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	return result == CUDA_SUCCESS && stream->capture ? capture_forbid(stream) : result;
}

static CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
	CUcontext src_context, size_t size, CUstream handle, bool is_async)
{
	struct context *context;
	CUresult result;

	if (size == 0)
		return CUDA_SUCCESS;
	if (context_get(dst_context, &context) != CUDA_SUCCESS ||
		context_get(src_context, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = copy_peer_check(handle);
	return result == CUDA_SUCCESS ? copy_between(dst, src, size, on_device, handle, is_async)
				      : result;
}

ENTER_DEFAULT_STREAM(cuMemcpyPeer,
	(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
		size_t size),
	copy_peer(dst, dst_context, src, src_context, size, stream, false))
ENTER_STREAM(cuMemcpyPeerAsync,
	(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
		size_t size, CUstream stream),
	copy_peer(dst, dst_context, src, src_context, size, stream, true))
