/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies in two and three dimensions, and between contexts of a process. Any thread
 * of the application.
 *
 * Invariant: every form becomes a struct box. Its ends lie in memory of the right
 * kind, and no later sum of its fields overflows.
 */

#include "box.h"
#include "copy.h"
#include "client/stream/recorder.h"
#include "client/memory/memory.h"
#include "client/memory/registered.h"

static bool box_end_place(struct box_end *end, const struct box *box, uint64_t base, uint64_t x,
	uint64_t y, uint64_t z)
{
	uint64_t right, below, slice, slices, rows, offset;

	if (__builtin_add_overflow(x, box->width, &right) ||
		__builtin_add_overflow(y, box->height, &below))
		return false;
	if (end->pitch == 0)
		end->pitch = right;
	if (end->rows == 0)
		end->rows = below;
	if (end->pitch < right || end->rows < below ||
		__builtin_mul_overflow(end->pitch, end->rows, &slice) ||
		__builtin_mul_overflow(z, slice, &slices) ||
		__builtin_mul_overflow(y, end->pitch, &rows) ||
		__builtin_add_overflow(slices, rows, &offset) ||
		__builtin_add_overflow(offset, x, &offset))
		return false;
	return !__builtin_add_overflow(base, offset, &end->address);
}

/* Sets the array of an end; the box must be within it. */
static CUresult box_end_in_array(const struct box *box, struct box_end *end, CUarray handle,
	uint64_t x, uint64_t y, uint64_t z)
{
	struct array_size size;

	end->array = array_find(handle);
	if (!end->array)
		return handle ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	array_size(end->array, &size);
	if (!range_ok(x, box->width, size.width) || !range_ok(y, box->height, size.height) ||
		!range_ok(z, box->depth, size.depth) || x % size.element != 0 ||
		box->width % size.element != 0)
		return CUDA_ERROR_INVALID_VALUE;
	end->x = x;
	end->y = y;
	end->z = z;
	end->is_ours = true;
	end->side = SYNC_DEVICE;
	return CUDA_SUCCESS;
}

/* Finds out whose memory an end is. Host memory that the GPU can access counts as the GPU's. */
static CUresult end_classify(const struct box *box, struct box_end *end, CUmemorytype type)
{
	uint64_t bytes;

	if (end->array)
		return CUDA_SUCCESS;
	if (!end->address || !box_extent(box, end, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	end->address = registered_translate(end->address, bytes);
	end->side = sync_side_named(sync_side_at(end->address), type == CU_MEMORYTYPE_HOST);
	end->is_ours = sync_is_reached(end->side);
	if (!end->is_ours)
		return type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	return memory_contains(end->address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool type_is_linear(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
	       type == CU_MEMORYTYPE_UNIFIED;
}

static uint64_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
}

static CUresult box_end_read(const struct box *box, struct box_end *end, CUmemorytype type,
	uint64_t base, CUarray array, const uint64_t at[3])
{
	if (type == CU_MEMORYTYPE_ARRAY)
		return box_end_in_array(box, end, array, at[0], at[1], at[2]);
	return type_is_linear(type) && box_end_place(end, box, base, at[0], at[1], at[2])
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult box_read(const CUDA_MEMCPY3D *copy, struct box *ret_box)
{
	const uint64_t dst_at[3] = {copy->dstXInBytes, copy->dstY, copy->dstZ};
	const uint64_t src_at[3] = {copy->srcXInBytes, copy->srcY, copy->srcZ};
	struct box box = {
		.dst = {.pitch = copy->dstPitch, .rows = copy->dstHeight},
		.src = {.pitch = copy->srcPitch, .rows = copy->srcHeight},
		.width = copy->WidthInBytes,
		.height = copy->Height,
		.depth = copy->Depth,
	};
	uint64_t n_rows;
	CUresult result;

	if (__builtin_mul_overflow(box.height, box.depth, &n_rows))
		return CUDA_ERROR_INVALID_VALUE;
	result = box_end_read(&box, &box.dst, copy->dstMemoryType,
		base_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice), copy->dstArray,
		dst_at);
	if (result == CUDA_SUCCESS)
		result = box_end_read(&box, &box.src, copy->srcMemoryType,
			base_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice),
			copy->srcArray, src_at);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_box = box;
	if (box.width == 0 || n_rows == 0)
		return CUDA_SUCCESS;
	result = end_classify(ret_box, &ret_box->dst, copy->dstMemoryType);
	return result == CUDA_SUCCESS ? end_classify(ret_box, &ret_box->src, copy->srcMemoryType)
				      : result;
}

static CUresult box_move(const struct box *box, struct stream *stream, bool is_sync)
{
	CUresult result;

	if (box->dst.is_ours && box->src.is_ours)
		return box_on_device(box, stream);
	if (sync_is_host(box->dst.side) && sync_is_host(box->src.side)) {
		result = stream_wait_turn(stream);
		if (result == CUDA_SUCCESS)
			box_on_host(box);
		return result;
	}
	if (box->src.is_ours)
		return box_from_device(box, stream);
	result = sync_before_read(stream, is_sync, box->src.side);
	return result == CUDA_SUCCESS ? box_to_device(box, stream) : result;
}

static CUresult box_post(const struct box *box, struct stream *stream, bool is_sync)
{
	CUresult result = box_move(box, stream, is_sync);

	if (result != CUDA_SUCCESS)
		return result;
	if (sync_copy_waits(is_sync, box->dst.side, box->src.side))
		return sync_finish(stream);
	if (is_sync)
		sync_leave(stream);
	return is_sync || !box->dst.is_ours ? server_link_late_error(&server) : CUDA_SUCCESS;
}

static CUresult box_copy_by(const CUDA_MEMCPY3D *copy, CUstream handle, bool is_sync, bool is_peer)
{
	struct stream *stream = NULL;
	struct context *context;
	struct box box = {0};
	bool captures = false;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context, handle, &stream);
	if (result == CUDA_SUCCESS)
		result = copy ? box_read(copy, &box) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS || box.width == 0 || box.height == 0 || box.depth == 0)
		return result;
	result = is_sync ? recorder.check_wait(stream) : recorder_look(stream, &captures);
	if (unlikely(captures))
		return is_peer ? recorder.forbid(stream) : recorder.copy(stream, &box, copy);
	return result == CUDA_SUCCESS ? box_post(&box, stream, is_sync) : result;
}

CUresult box_copy(const CUDA_MEMCPY3D *copy, CUstream handle, bool is_sync)
{
	return box_copy_by(copy, handle, is_sync, false);
}

CUresult box_copy_2d(const CUDA_MEMCPY2D *copy, CUstream handle, bool is_sync)
{
	CUDA_MEMCPY3D whole = {.Depth = 1};

	if (!copy)
		return box_copy(NULL, handle, is_sync);
	whole.srcXInBytes = copy->srcXInBytes;
	whole.srcY = copy->srcY;
	whole.srcMemoryType = copy->srcMemoryType;
	whole.srcHost = copy->srcHost;
	whole.srcDevice = copy->srcDevice;
	whole.srcArray = copy->srcArray;
	whole.srcPitch = copy->srcPitch;
	whole.dstXInBytes = copy->dstXInBytes;
	whole.dstY = copy->dstY;
	whole.dstMemoryType = copy->dstMemoryType;
	whole.dstHost = copy->dstHost;
	whole.dstDevice = copy->dstDevice;
	whole.dstArray = copy->dstArray;
	whole.dstPitch = copy->dstPitch;
	whole.WidthInBytes = copy->WidthInBytes;
	whole.Height = copy->Height;
	return box_copy(&whole, handle, is_sync);
}

_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D), "the same layout");
_Static_assert(offsetof(CUDA_MEMCPY3D_PEER, dstContext) == offsetof(CUDA_MEMCPY3D, reserved1),
	"contexts in place of what is reserved");

CUresult box_copy_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream handle, bool is_sync)
{
	return box_copy_by((const CUDA_MEMCPY3D *)copy, handle, is_sync, true);
}

/* Nothing is checked for a copy of nothing. */
CUresult box_copy_row(
	struct row_end dst, struct row_end src, size_t size, CUstream handle, bool is_sync)
{
	CUDA_MEMCPY3D copy = {.dstMemoryType = dst.type,
		.dstXInBytes = dst.x,
		.srcMemoryType = src.type,
		.srcXInBytes = src.x,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};

	if (dst.type == CU_MEMORYTYPE_ARRAY)
		copy.dstArray = (CUarray)dst.at;
	else if (dst.type == CU_MEMORYTYPE_HOST)
		copy.dstHost = (void *)dst.at;
	else
		copy.dstDevice = dst.at;
	if (src.type == CU_MEMORYTYPE_ARRAY)
		copy.srcArray = (CUarray)src.at;
	else if (src.type == CU_MEMORYTYPE_HOST)
		copy.srcHost = (const void *)src.at;
	else
		copy.srcDevice = src.at;
	return size > 0 ? box_copy(&copy, handle, is_sync) : CUDA_SUCCESS;
}
