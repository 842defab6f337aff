/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of parts of an array's row, each as a box. Any thread, under the
 * driver's lock.
 */

#include "copy.h"

/* Nothing is checked for a copy of nothing. */
static CUresult row_submit(const CUDA_MEMCPY3D *copy, CUstream stream, bool is_async)
{
	return copy->WidthInBytes > 0 ? copy_submit_3d(copy, stream, is_async) : CUDA_SUCCESS;
}

static CUresult to_array(CUarray array, size_t offset, CUmemorytype type, const void *host,
	CUdeviceptr device, size_t size, CUstream stream, bool is_async)
{
	const CUDA_MEMCPY3D copy = {.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.dstXInBytes = offset,
		.srcMemoryType = type,
		.srcHost = host,
		.srcDevice = device,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};

	return row_submit(&copy, stream, is_async);
}

static CUresult from_array(CUarray array, size_t offset, CUmemorytype type, void *host,
	CUdeviceptr device, size_t size, CUstream stream, bool is_async)
{
	const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.srcXInBytes = offset,
		.dstMemoryType = type,
		.dstHost = host,
		.dstDevice = device,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};

	return row_submit(&copy, stream, is_async);
}

static CUresult within_arrays(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
	size_t size, CUstream stream)
{
	const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = src,
		.srcXInBytes = src_offset,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = dst,
		.dstXInBytes = dst_offset,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};

	return row_submit(&copy, stream, false);
}

ENTER_DEFAULT_STREAM(cuMemcpyDtoA_v2, (CUarray dst, size_t offset, CUdeviceptr src, size_t size),
	to_array(dst, offset, CU_MEMORYTYPE_DEVICE, NULL, src, size, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t offset, size_t size),
	from_array(src, offset, CU_MEMORYTYPE_DEVICE, NULL, dst, size, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpyAtoA_v2,
	(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t size),
	within_arrays(dst, dst_offset, src, src_offset, size, stream))
ENTER_DEFAULT_STREAM(cuMemcpyHtoA_v2, (CUarray dst, size_t offset, const void *src, size_t size),
	to_array(dst, offset, CU_MEMORYTYPE_HOST, src, 0, size, stream, false))
ENTER_DEFAULT_STREAM(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t offset, size_t size),
	from_array(src, offset, CU_MEMORYTYPE_HOST, dst, 0, size, stream, false))
ENTER_STREAM(cuMemcpyHtoAAsync_v2,
	(CUarray dst, size_t offset, const void *src, size_t size, CUstream stream),
	to_array(dst, offset, CU_MEMORYTYPE_HOST, src, 0, size, stream, true))
ENTER_STREAM(cuMemcpyAtoHAsync_v2,
	(void *dst, CUarray src, size_t offset, size_t size, CUstream stream),
	from_array(src, offset, CU_MEMORYTYPE_HOST, dst, 0, size, stream, true))
