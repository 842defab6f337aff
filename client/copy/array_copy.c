/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of parts of an array's row. Any thread of the application.
 *
 * Invariant: each copy is a box of one row.
 */

#include "box.h"
#include "client.h"

/* A box of one row; both ends are still unset. */
static CUDA_MEMCPY3D row_box(size_t size)
{
	return (CUDA_MEMCPY3D){.WidthInBytes = size, .Height = 1, .Depth = 1};
}

/* Nothing is checked for a copy of nothing. */
static CUresult row_copy(const CUDA_MEMCPY3D *copy, CUstream stream, bool is_sync)
{
	return copy->WidthInBytes > 0 ? box_copy(copy, stream, is_sync) : CUDA_SUCCESS;
}

static void dst_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
	copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy->dstArray = array;
	copy->dstXInBytes = offset;
}

static void src_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
	copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy->srcArray = array;
	copy->srcXInBytes = offset;
}

CUresult host_to_array(
	CUarray array, size_t offset, const void *host, size_t size, CUstream stream, bool is_sync)
{
	CUDA_MEMCPY3D copy = row_box(size);

	dst_array(&copy, array, offset);
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	return row_copy(&copy, stream, is_sync);
}

CUresult array_to_host(
	void *host, CUarray array, size_t offset, size_t size, CUstream stream, bool is_sync)
{
	CUDA_MEMCPY3D copy = row_box(size);

	src_array(&copy, array, offset);
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = host;
	return row_copy(&copy, stream, is_sync);
}

CUresult local_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
	size_t ByteCount, CUstream implicit)
{
	CUDA_MEMCPY3D copy = row_box(ByteCount);

	dst_array(&copy, dstArray, dstOffset);
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = srcDevice;
	return row_copy(&copy, implicit, true);
}

CUresult local_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
	size_t ByteCount, CUstream implicit)
{
	CUDA_MEMCPY3D copy = row_box(ByteCount);

	src_array(&copy, srcArray, srcOffset);
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = dstDevice;
	return row_copy(&copy, implicit, true);
}

CUresult local_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
	size_t srcOffset, size_t ByteCount, CUstream implicit)
{
	CUDA_MEMCPY3D copy = row_box(ByteCount);

	dst_array(&copy, dstArray, dstOffset);
	src_array(&copy, srcArray, srcOffset);
	return row_copy(&copy, implicit, true);
}
