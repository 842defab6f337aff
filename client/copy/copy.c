/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of linear memory. Any thread of the application.
 *
 * Invariant: the GPU never accesses the program's pageable memory, whose bytes go
 * through staging. An asynchronous copy to the device returns when the bytes are in
 * staging; sync_rules.h says what else waits.
 */

#include "copy.h"

#include "box.h"
#include "pageable_copy.h"
#include "client/stream/recorder.h"
#include "client/stream/timeline.h"
#include "client/memory/allocation.h"
#include "client/memory/memory.h"
#include "client/memory/pool.h"
#include "client/memory/registered.h"
#include "client/memory/sync_rules.h"
#include "send_copy.h"

struct copy {
	CUdeviceptr dst, src; /* registered memory by its address on the GPU */
	size_t size;
	enum host_ends host;
	bool is_sync;
	bool is_peer; /* the stream's GPU need not have access to both ends */
	enum sync_side dst_side, src_side;
};

/* A call with HOST_BOTH accepts any pointer at both ends. */
static enum sync_side side_of(const struct copy *copy, CUdeviceptr address, enum host_ends end)
{
	return sync_side_named(sync_side_at(address), copy->host == end);
}

static bool end_is_valid(const struct copy *copy, const struct stream *stream, CUdeviceptr address,
	enum sync_side side, enum host_ends end)
{
	if (!sync_is_reached(side))
		return address && (copy->host & end);
	return copy->is_peer ? memory_contains(address, copy->size)
			     : memory_reaches(stream->device, address, copy->size);
}

/* Whether the GPU can access both ends. */
static bool copy_is_ours(const struct copy *copy)
{
	return sync_is_reached(copy->dst_side) && sync_is_reached(copy->src_side);
}

/* How the call names that end, for queries of the node. */
static CUmemorytype type_of(const struct copy *copy, enum host_ends end)
{
	if (copy->host == HOST_BOTH)
		return CU_MEMORYTYPE_UNIFIED;
	return copy->host == end ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUresult copy_capture(const struct copy *copy, struct stream *stream)
{
	const CUdeviceptr dst = registered_own(copy->dst), src = registered_own(copy->src);
	CUDA_MEMCPY3D desc = {
		.dstMemoryType = type_of(copy, HOST_DST),
		.srcMemoryType = type_of(copy, HOST_SRC),
		.WidthInBytes = copy->size,
		.Height = 1,
		.Depth = 1,
	};
	struct box box;
	CUresult result;

	if (copy->host == HOST_DST)
		desc.dstHost = (void *)(uintptr_t)dst;
	else
		desc.dstDevice = dst;
	if (copy->host == HOST_SRC)
		desc.srcHost = (const void *)(uintptr_t)src;
	else
		desc.srcDevice = src;
	result = box_read(&desc, &box);
	return result == CUDA_SUCCESS ? recorder.copy(stream, &box, &desc) : result;
}

/* A copy from host to host runs in the order of the stream. */
static CUresult copy_on_host(const struct copy *copy, struct stream *stream)
{
	CUresult result = stream_wait_turn(stream);

	if (result == CUDA_SUCCESS)
		memmove((void *)(uintptr_t)registered_own(copy->dst),
			(const void *)(uintptr_t)registered_own(copy->src), copy->size);
	return result;
}

static CUresult copy_to_device(const struct copy *copy, struct stream *stream)
{
	CUresult result = sync_before_read(stream, copy->is_sync, copy->src_side);

	return result == CUDA_SUCCESS ? pageable_copy(stream, copy->dst,
						(uint8_t *)(uintptr_t)copy->src, copy->size, true)
				      : result;
}

static CUresult copy_from_device(const struct copy *copy, struct stream *stream)
{
	CUresult result = pageable_copy(
		stream, copy->src, (uint8_t *)(uintptr_t)copy->dst, copy->size, false);

	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

static CUresult copy_on_device(const struct copy *copy, struct stream *stream)
{
	CUresult result = send_copy_device(stream_id(stream), copy->dst, copy->src, copy->size);

	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

static CUresult copy_move(const struct copy *copy, struct stream *stream)
{
	if (copy_is_ours(copy))
		return copy_on_device(copy, stream);
	if (sync_is_host(copy->dst_side) && sync_is_host(copy->src_side))
		return copy_on_host(copy, stream);
	return sync_is_reached(copy->dst_side) ? copy_to_device(copy, stream)
					       : copy_from_device(copy, stream);
}

/* The GPU whose memory it is; false: not the memory of a GPU. */
static bool device_of(CUdeviceptr address, enum sync_side side, unsigned *ret_device)
{
	struct memory_range range;

	if (sync_is_host(side) || !memory_find(address, &range))
		return false;
	if (range.kind == MEMORY_MAPPED)
		*ret_device = range.allocation->device;
	else
		*ret_device = memory_device(&range)->index;
	return true;
}

/*
 * A copy between two GPUs without a stream waits for all work of both GPUs, and
 * later work of both waits for the copy.
 */
static CUresult wait_for_both(const struct copy *copy, bool *ret_waits)
{
	unsigned to, from;
	CUresult result;

	*ret_waits = copy->is_sync && device_of(copy->dst, copy->dst_side, &to) &&
		     device_of(copy->src, copy->src_side, &from) && to != from;
	if (!*ret_waits)
		return CUDA_SUCCESS;
	result = streams_wait_device(to);
	return result == CUDA_SUCCESS ? streams_wait_device(from) : result;
}

/* Whether the GPU copies over the bus. */
static bool copy_takes_bus(const struct copy *copy)
{
	return copy_is_ours(copy) &&
	       (copy->dst_side >= SYNC_MANAGED || copy->src_side >= SYNC_MANAGED);
}

/* After a large copy was posted, all its bytes are still to come. */
static CUresult copy_finish(const struct copy *copy, struct stream *stream)
{
	uint64_t seqno;

	if (copy->size >= PAGEABLE_COPY_SHARED_MIN && copy_takes_bus(copy) &&
		timeline_post(stream, &seqno) == CUDA_SUCCESS)
		timeline_expect_copy(stream, seqno, copy->size);
	return sync_finish(stream);
}

static CUresult copy_post(const struct copy *copy, struct stream *stream)
{
	bool waits;
	CUresult result = wait_for_both(copy, &waits);

	if (result == CUDA_SUCCESS)
		result = copy_move(copy, stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (waits || sync_copy_waits(copy->is_sync, copy->dst_side, copy->src_side))
		return copy_finish(copy, stream);
	if (copy->is_sync)
		sync_leave(stream);
	return CUDA_SUCCESS;
}

static CUresult copy_run(struct copy copy, CUstream handle)
{
	struct stream *stream;
	bool captures = false;
	CUresult result = stream_enter(handle, &stream);

	/* A copy that waits cannot be captured. */
	if (result == CUDA_SUCCESS && copy.is_sync)
		result = recorder.check_wait(stream);
	if (result != CUDA_SUCCESS || copy.size == 0)
		return result;
	copy.dst = registered_translate(copy.dst, copy.size);
	copy.src = registered_translate(copy.src, copy.size);
	copy.dst_side = side_of(&copy, copy.dst, HOST_DST);
	copy.src_side = side_of(&copy, copy.src, HOST_SRC);
	if (!end_is_valid(&copy, stream, copy.dst, copy.dst_side, HOST_DST) ||
		!end_is_valid(&copy, stream, copy.src, copy.src_side, HOST_SRC))
		return CUDA_ERROR_INVALID_VALUE;
	if (!copy.is_sync)
		result = recorder_look(stream, &captures);
	if (unlikely(captures))
		return copy.is_peer ? recorder.forbid(stream) : copy_capture(&copy, stream);
	return result == CUDA_SUCCESS ? copy_post(&copy, stream) : result;
}

CUresult copy_call(CUdeviceptr dst, CUdeviceptr src, size_t size, enum host_ends host, bool is_sync,
	CUstream handle)
{
	return copy_run(
		(struct copy){
			.dst = dst, .src = src, .size = size, .host = host, .is_sync = is_sync},
		handle);
}

CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
	size_t size, CUstream handle, bool is_sync)
{
	struct context *context;
	CUresult result = size > 0 ? context_named(dst_context, &context) : CUDA_SUCCESS;

	if (size > 0 && result == CUDA_SUCCESS)
		result = context_named(src_context, &context);
	if (result != CUDA_SUCCESS)
		return result;
	return copy_run(
		(struct copy){
			.dst = dst, .src = src, .size = size, .is_sync = is_sync, .is_peer = true},
		handle);
}

bool copy_is_pageable(CUdeviceptr address)
{
	return !sync_is_reached(sync_side_at(registered_translate(address, 1)));
}

/* Whether the whole end is in one range, if the GPU can access it. */
static bool is_whole(CUdeviceptr address, size_t size)
{
	CUdeviceptr at = registered_translate(address, size);
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
	CUdeviceptr to = registered_translate(dst, size), from = registered_translate(src, size);
	CUresult result;

	/* Pinned memory is copied like pageable memory: through staging, now. */
	if (sync_side_at(from) == SYNC_PINNED && !sync_is_host(sync_side_at(to)))
		return pageable_copy(
			stream, to, (uint8_t *)(uintptr_t)registered_own(from), size, true);
	result = copy_call(dst, src, size, HOST_BOTH, false, (CUstream)stream);
	return result == CUDA_SUCCESS && !copy_is_pageable(src) ? stream_wait(stream) : result;
}
