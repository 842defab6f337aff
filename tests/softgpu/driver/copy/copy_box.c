/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of boxes in two and three dimensions, between linear memory and arrays.
 *
 * Runs in any thread, under the driver's lock. Every form first becomes a
 * CUDA_MEMCPY3D.
 */

#include "array.h"
#include "copy.h"

/* One end of a box. */
struct end {
	CUmemorytype type;
	uint64_t base;
	CUarray array;
	size_t x, y, z;
	size_t pitch, rows; /* 0: without gaps */
	uint64_t address;   /* of the box's first byte */
	size_t slice;
};

static CUresult end_in_array(struct end *end, size_t width, size_t height, size_t depth)
{
	const struct array *array = array_find(end->array);

	if (!array)
		return end->array ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	if (!range_ok(end->x, width, array->pitch) ||
		!range_ok(end->y, height, MAX(array->shape.Height, 1u)) ||
		!range_ok(end->z, depth, MAX(array->shape.Depth, 1u)) ||
		end->x % array->element != 0 || width % array->element != 0)
		return CUDA_ERROR_INVALID_VALUE;
	end->pitch = array->pitch;
	end->slice = array->slice;
	end->address = (uint64_t)(uintptr_t)array->bytes + end->z * end->slice +
		       end->y * end->pitch + end->x;
	return CUDA_SUCCESS;
}

static CUresult end_place(struct end *end, size_t width, size_t height, size_t depth)
{
	size_t rows, layers, offset;

	if (end->type == CU_MEMORYTYPE_ARRAY)
		return end_in_array(end, width, height, depth);
	if (end->type != CU_MEMORYTYPE_HOST && end->type != CU_MEMORYTYPE_DEVICE &&
		end->type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	if (end->pitch == 0 && __builtin_add_overflow(end->x, width, &end->pitch))
		return CUDA_ERROR_INVALID_VALUE;
	if (end->rows == 0 && __builtin_add_overflow(end->y, height, &end->rows))
		return CUDA_ERROR_INVALID_VALUE;
	if (end->pitch < end->x + width || end->rows < end->y + height ||
		__builtin_mul_overflow(end->pitch, end->rows, &end->slice) ||
		__builtin_mul_overflow(end->y, end->pitch, &rows) ||
		__builtin_mul_overflow(end->z, end->slice, &layers) ||
		__builtin_add_overflow(rows, layers, &offset) ||
		__builtin_add_overflow(offset, end->x, &offset) ||
		__builtin_add_overflow(end->base, offset, &end->address))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static uint64_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
}

static CUresult box(const CUDA_MEMCPY3D *c, struct copy_work *ret_copy)
{
	struct end dst = {.type = c->dstMemoryType,
		.base = base_of(c->dstMemoryType, c->dstHost, c->dstDevice),
		.array = c->dstArray,
		.x = c->dstXInBytes,
		.y = c->dstY,
		.z = c->dstZ,
		.pitch = c->dstPitch,
		.rows = c->dstHeight};
	struct end src = {.type = c->srcMemoryType,
		.base = base_of(c->srcMemoryType, c->srcHost, c->srcDevice),
		.array = c->srcArray,
		.x = c->srcXInBytes,
		.y = c->srcY,
		.z = c->srcZ,
		.pitch = c->srcPitch,
		.rows = c->srcHeight};
	CUresult result = end_place(&dst, c->WidthInBytes, c->Height, c->Depth);

	if (result == CUDA_SUCCESS)
		result = end_place(&src, c->WidthInBytes, c->Height, c->Depth);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_copy = (struct copy_work){.dst = dst.address,
		.src = src.address,
		.dst_pitch = dst.pitch,
		.src_pitch = src.pitch,
		.dst_slice = dst.slice,
		.src_slice = src.slice,
		.width = c->WidthInBytes,
		.height = c->Height,
		.depth = c->Depth,
		.is_dst_array = c->dstMemoryType == CU_MEMORYTYPE_ARRAY,
		.is_src_array = c->srcMemoryType == CU_MEMORYTYPE_ARRAY,
		.desc = *c};
	return CUDA_SUCCESS;
}

CUresult copy_work_3d(const CUDA_MEMCPY3D *params, struct work *ret_work)
{
	struct work work = {.kind = WORK_COPY};
	CUresult result = box(params, &work.copy);

	if (result != CUDA_SUCCESS)
		return result;
	if (work.copy.width == 0 || work.copy.height == 0 || work.copy.depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = copy_classify(&work.copy, params->dstMemoryType != CU_MEMORYTYPE_DEVICE,
		params->srcMemoryType != CU_MEMORYTYPE_DEVICE);
	if (result == CUDA_SUCCESS)
		*ret_work = work;
	return result;
}

static enum copy_end end_of(CUmemorytype type)
{
	if (type == CU_MEMORYTYPE_HOST)
		return END_HOST;
	return type == CU_MEMORYTYPE_DEVICE ? END_DEVICE : END_ANY;
}

CUresult copy_submit_3d(const CUDA_MEMCPY3D *c, CUstream handle, bool is_async)
{
	struct copy_work copy;
	CUresult result = c ? box(c, &copy) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	return copy_submit(
		&copy, handle, is_async, end_of(c->dstMemoryType), end_of(c->srcMemoryType));
}

static CUresult box_2d(const CUDA_MEMCPY2D *c, CUstream handle, bool is_async)
{
	CUDA_MEMCPY3D whole = {.Depth = 1};

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	whole.srcXInBytes = c->srcXInBytes;
	whole.srcY = c->srcY;
	whole.srcMemoryType = c->srcMemoryType;
	whole.srcHost = c->srcHost;
	whole.srcDevice = c->srcDevice;
	whole.srcArray = c->srcArray;
	whole.srcPitch = c->srcPitch;
	whole.dstXInBytes = c->dstXInBytes;
	whole.dstY = c->dstY;
	whole.dstMemoryType = c->dstMemoryType;
	whole.dstHost = c->dstHost;
	whole.dstDevice = c->dstDevice;
	whole.dstArray = c->dstArray;
	whole.dstPitch = c->dstPitch;
	whole.WidthInBytes = c->WidthInBytes;
	whole.Height = c->Height;
	return copy_submit_3d(&whole, handle, is_async);
}

static CUresult box_peer(const CUDA_MEMCPY3D_PEER *c, CUstream handle, bool is_async)
{
	CUDA_MEMCPY3D whole = {0};
	CUresult result = c ? copy_peer_check(handle) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	whole.srcXInBytes = c->srcXInBytes;
	whole.srcY = c->srcY;
	whole.srcZ = c->srcZ;
	whole.srcMemoryType = c->srcMemoryType;
	whole.srcHost = c->srcHost;
	whole.srcDevice = c->srcDevice;
	whole.srcArray = c->srcArray;
	whole.srcPitch = c->srcPitch;
	whole.srcHeight = c->srcHeight;
	whole.dstXInBytes = c->dstXInBytes;
	whole.dstY = c->dstY;
	whole.dstZ = c->dstZ;
	whole.dstMemoryType = c->dstMemoryType;
	whole.dstHost = c->dstHost;
	whole.dstDevice = c->dstDevice;
	whole.dstArray = c->dstArray;
	whole.dstPitch = c->dstPitch;
	whole.dstHeight = c->dstHeight;
	whole.WidthInBytes = c->WidthInBytes;
	whole.Height = c->Height;
	whole.Depth = c->Depth;
	return copy_submit_3d(&whole, handle, is_async);
}

ENTER_DEFAULT_STREAM(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), box_2d(copy, stream, false))
ENTER_DEFAULT_STREAM(
	cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), box_2d(copy, stream, false))
ENTER_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream),
	box_2d(copy, stream, true))
ENTER_DEFAULT_STREAM(
	cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), copy_submit_3d(copy, stream, false))
ENTER_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream),
	copy_submit_3d(copy, stream, true))
ENTER_DEFAULT_STREAM(
	cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy), box_peer(copy, stream, false))
ENTER_STREAM(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
	box_peer(copy, stream, true))
