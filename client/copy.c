/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of linear memory. Any thread of the application.
 *
 * Invariant: the GPU never sees the program's pageable memory: its bytes go by
 * way of staging. An asynchronous copy to the device returns when they lie
 * there, any other when it has been made.
 */

#include "allocation.h"
#include "bulk.h"
#include "capture.h"
#include "client.h"
#include "copy.h"
#include "memory.h"
#include "pool.h"
#include "registered.h"
#include "send.h"
#include "timeline.h"

static CUresult copy_device(struct stream *stream, uint64_t dst, uint64_t src, uint64_t size)
{
	CUresult result = send_copy_device(stream_id(stream), dst, src, size);

	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

/* Before a copy that is waited for: nothing of its kind can be captured. */
static CUresult enter_now(CUstream handle)
{
	struct stream *stream;
	CUresult result = stream_enter(handle, &stream);

	return result == CUDA_SUCCESS ? capture_check_wait(stream) : result;
}

/* Whether the program knows it as host memory, pinned or not. */
static bool is_host(uint64_t address)
{
	struct memory_range range;

	return !memory_find(address, &range) || range.kind == MEMORY_PINNED ||
	       range.kind == MEMORY_ALIAS;
}

/* Both ends are memory of ours. */
static CUresult copy_ours(struct stream *stream, CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	bool captures;
	CUresult result = capture_look(stream, &captures);

	if (unlikely(captures))
		return capture_copy(stream, dst, src, size);
	return result == CUDA_SUCCESS ? copy_device(stream, dst, src, size) : result;
}

static CUresult on_device(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle)
{
	struct stream *stream;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	return memory_reaches(stream->device, dst, size) &&
			       memory_reaches(stream->device, src, size)
		       ? copy_ours(stream, dst, src, size)
		       : CUDA_ERROR_INVALID_VALUE;
}

/* The stream's GPU need not reach either end. */
static CUresult between_devices(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle)
{
	struct stream *stream;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	return memory_contains(dst, size) && memory_contains(src, size)
		       ? copy_ours(stream, dst, src, size)
		       : CUDA_ERROR_INVALID_VALUE;
}

/* The GPU that the memory is of; false: of none. */
static bool device_of(CUdeviceptr address, unsigned *ret_device)
{
	struct memory_range range;

	if (is_host(address) || !memory_find(address, &range))
		return false;
	if (range.kind == MEMORY_MAPPED)
		*ret_device = range.allocation->device;
	else
		*ret_device = range.pool ? range.pool->device->index : range.context->device->index;
	return true;
}

/* A copy that names no stream. Between two GPUs it waits for all work of both, which waits for it.
 */
static CUresult on_device_now(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle,
	CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle))
{
	struct stream *stream;
	unsigned to, from;
	CUresult result;

	if (!device_of(dst, &to) || !device_of(src, &from) || to == from)
		return copy(dst, src, size, handle);
	result = streams_wait_device(to);
	if (result == CUDA_SUCCESS)
		result = streams_wait_device(from);
	if (result == CUDA_SUCCESS)
		result = copy(dst, src, size, handle);
	if (result == CUDA_SUCCESS)
		result = stream_enter(handle, &stream);
	return result == CUDA_SUCCESS ? stream_wait(stream) : result;
}

/* The driver takes a device address on the host's side too. */
static CUresult to_device(CUdeviceptr dst, const void *src, size_t size, CUstream handle)
{
	struct stream *stream;
	struct memory_range range;
	bool captures;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	if (!src || !memory_reaches(stream->device, dst, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_find((uintptr_t)src, &range))
		return on_device(dst, (uintptr_t)src, size, handle);
	result = capture_look(stream, &captures);
	if (unlikely(captures))
		return capture_copy(stream, dst, (uintptr_t)src, size);
	if (result != CUDA_SUCCESS)
		return result;
	/* What comes before on the stream may write registered memory yet. */
	if (registered_find((uintptr_t)src, &range)) {
		result = stream_wait(stream);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return copy_staged(stream, dst, (uint8_t *)(uintptr_t)src, size, true);
}

static bool is_pinned(uint64_t address)
{
	struct memory_range range;

	return memory_find(address, &range) &&
	       (range.kind == MEMORY_PINNED || range.kind == MEMORY_ALIAS);
}

/*
 * The end of a synchronous copy that was posted with `result'. `host' is its
 * end that is not on the device: pinned, its bytes are all still to come.
 */
static CUresult settle(CUresult result, uint64_t host, size_t size, CUstream handle)
{
	struct stream *stream;
	uint64_t mark;

	if (result == CUDA_SUCCESS && size > 0)
		result = stream_enter(handle, &stream);
	if (result != CUDA_SUCCESS || size == 0)
		return result;
	if (size >= BULK_MIN && is_pinned(host) && timeline_mark(stream, &mark) == CUDA_SUCCESS)
		timeline_expect_copy(stream, mark, size);
	result = stream_wait(stream);
	return result == CUDA_SUCCESS ? link_late_error(&server) : result;
}

/* Its bytes are there for work on any stream, also on one that does not wait for this. */
static CUresult to_device_now(CUdeviceptr dst, const void *src, size_t size, CUstream handle)
{
	CUresult result = enter_now(handle);

	if (result == CUDA_SUCCESS)
		result = to_device(dst, src, size, handle);
	return settle(result, (uintptr_t)src, size, handle);
}

/* Pageable memory is filled when the call returns, asynchronous or not. */
static CUresult from_device(void *dst, CUdeviceptr src, size_t size, CUstream handle)
{
	struct stream *stream;
	struct memory_range range;
	bool captures;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	if (!dst || !memory_reaches(stream->device, src, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_find((uintptr_t)dst, &range))
		return on_device((uintptr_t)dst, src, size, handle);
	result = capture_look(stream, &captures);
	if (unlikely(captures))
		return capture_copy(stream, (uintptr_t)dst, src, size);
	if (result != CUDA_SUCCESS)
		return result;
	result = copy_staged(stream, src, dst, size, false);
	return result == CUDA_SUCCESS ? link_late_error(&server) : result;
}

static CUresult from_device_now(void *dst, CUdeviceptr src, size_t size, CUstream handle)
{
	CUresult result = enter_now(handle);

	if (result == CUDA_SUCCESS)
		result = from_device(dst, src, size, handle);
	/* Natively a copy within the device does not wait. */
	return is_host((uintptr_t)dst) ? settle(result, (uintptr_t)dst, size, handle) : result;
}

/* Host to host keeps its place in the stream's order. */
static CUresult on_host(void *dst, const void *src, size_t size, CUstream handle)
{
	struct stream *stream;
	bool captures;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS || size == 0)
		return result;
	if (!dst || !src)
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_look(stream, &captures);
	if (unlikely(captures))
		return capture_copy(stream, (uintptr_t)dst, (uintptr_t)src, size);
	if (result != CUDA_SUCCESS)
		return result;
	result = stream_wait(stream);
	if (result == CUDA_SUCCESS)
		memmove(dst, src, size);
	return result == CUDA_SUCCESS ? link_late_error(&server) : result;
}

/* Where this process has a byte that may have been named by its alias. */
static void *here(CUdeviceptr address)
{
	struct memory_range range;

	if (memory_find(address, &range) && range.kind == MEMORY_ALIAS)
		address = range.other + (address - range.address);
	return (void *)(uintptr_t)address;
}

/* The direction is in the addresses. */
static CUresult anywhere(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle)
{
	struct memory_range range;
	bool dst_is_ours = memory_find(dst, &range), src_is_ours = memory_find(src, &range);

	if (dst_is_ours && src_is_ours)
		return on_device(dst, src, size, handle);
	if (dst_is_ours && !is_host(dst))
		return to_device(dst, (const void *)(uintptr_t)src, size, handle);
	if (src_is_ours && !is_host(src))
		return from_device((void *)(uintptr_t)dst, src, size, handle);
	return on_host(here(dst), here(src), size, handle);
}

/* Registered bytes by the name that the GPU has for them; any others by theirs. */
static CUdeviceptr seen(CUdeviceptr address, size_t size)
{
	return registered_translate(address, size);
}

static void *seen_host(const void *host, size_t size)
{
	return (void *)(uintptr_t)registered_translate((uintptr_t)host, size);
}

CUresult local_cuMemcpyHtoD_v2(
	CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream implicit)
{
	return to_device_now(
		seen(dstDevice, ByteCount), seen_host(srcHost, ByteCount), ByteCount, implicit);
}

CUresult local_cuMemcpyHtoDAsync_v2(
	CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return to_device(
		seen(dstDevice, ByteCount), seen_host(srcHost, ByteCount), ByteCount, hStream);
}

CUresult local_cuMemcpyDtoH_v2(
	void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream implicit)
{
	return from_device_now(
		seen_host(dstHost, ByteCount), seen(srcDevice, ByteCount), ByteCount, implicit);
}

CUresult local_cuMemcpyDtoHAsync_v2(
	void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return from_device(
		seen_host(dstHost, ByteCount), seen(srcDevice, ByteCount), ByteCount, hStream);
}

CUresult local_cuMemcpyDtoD_v2(
	CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream implicit)
{
	CUresult result = enter_now(implicit);

	return result == CUDA_SUCCESS
		       ? on_device_now(seen(dstDevice, ByteCount), seen(srcDevice, ByteCount),
				 ByteCount, implicit, on_device)
		       : result;
}

CUresult local_cuMemcpyDtoDAsync_v2(
	CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return on_device(
		seen(dstDevice, ByteCount), seen(srcDevice, ByteCount), ByteCount, hStream);
}

CUresult local_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream implicit)
{
	CUdeviceptr to = seen(dst, ByteCount), from = seen(src, ByteCount);
	bool is_within = !is_host(to) && !is_host(from);
	CUresult result = enter_now(implicit);

	if (result == CUDA_SUCCESS)
		result = is_within ? on_device_now(to, from, ByteCount, implicit, on_device)
				   : anywhere(to, from, ByteCount, implicit);
	/* Natively a copy within the device does not wait. */
	return is_within ? result : settle(result, is_host(to) ? to : from, ByteCount, implicit);
}

CUresult local_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return anywhere(seen(dst, ByteCount), seen(src, ByteCount), ByteCount, hStream);
}

CUresult copy_peer(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle, bool is_waited)
{
	CUdeviceptr to = seen(dst, size), from = seen(src, size);
	CUresult result = is_waited ? enter_now(handle) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		return result;
	return is_waited ? on_device_now(to, from, size, handle, between_devices)
			 : between_devices(to, from, size, handle);
}

bool copy_is_pageable(CUdeviceptr address)
{
	struct memory_range range;

	return !memory_find(registered_translate(address, 1), &range);
}

/* Whether an end is whole, if it is ours at all. */
static bool is_whole(CUdeviceptr address, size_t size)
{
	CUdeviceptr at = seen(address, size);
	struct memory_range range;

	return address && (!memory_find(at, &range) || memory_contains(at, size));
}

CUresult copy_check(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return size == 0 || (is_whole(dst, size) && is_whole(src, size)) ? CUDA_SUCCESS
									 : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_early(CUdeviceptr dst, CUdeviceptr src, size_t size, struct stream *stream)
{
	CUdeviceptr to = seen(dst, size), from = seen(src, size);
	CUresult result;

	/* Pinned bytes are copied as if they were not: by way of staging, now. */
	if (is_pinned(from) && !is_host(to))
		return copy_staged(stream, to, here(from), size, true);
	result = local_cuMemcpyAsync(dst, src, size, (CUstream)stream);
	return result == CUDA_SUCCESS && !copy_is_pageable(src) ? stream_wait(stream) : result;
}
