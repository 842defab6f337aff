/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tensor maps, which the driver fills in for the client. A worker.
 *
 * Invariant: the address in a map belonged to the session when the driver filled it in.
 * Sizes are not compared with the allocation: natively they are not either, and programs use
 * larger ones on purpose.
 */

#include <string.h>

#include "server/session/session.h"
#include "server/driver/driver.h"

#define MAP_WORDS 16

enum {
	MAP_TILED,
	MAP_IM2COL,
	MAP_IM2COL_WIDE,
};

CUresult do_tensor_map(struct session *session, uint32_t kind, uint32_t type, uint32_t rank,
	uint64_t address, const uint64_t dims[5], const uint64_t strides[4], const uint32_t box[5],
	const uint32_t element_strides[5], const int32_t lower[3], const int32_t upper[3],
	uint32_t channels, uint32_t pixels, uint32_t interleave, uint32_t mode, uint32_t swizzle,
	uint32_t promotion, uint32_t fill, uint64_t map[16])
{
	void *memory = (void *)(uintptr_t)address;
	CUtensorMap made = {0};
	CUresult result;

	if (!memory_check(session, address, 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (kind == MAP_TILED)
		result = cuda.cuTensorMapEncodeTiled(&made, (CUtensorMapDataType)type, rank, memory,
			dims, strides, box, element_strides, (CUtensorMapInterleave)interleave,
			(CUtensorMapSwizzle)swizzle, (CUtensorMapL2promotion)promotion,
			(CUtensorMapFloatOOBfill)fill);
	else if (kind == MAP_IM2COL)
		result = cuda.cuTensorMapEncodeIm2col(&made, (CUtensorMapDataType)type, rank,
			memory, dims, strides, lower, upper, channels, pixels, element_strides,
			(CUtensorMapInterleave)interleave, (CUtensorMapSwizzle)swizzle,
			(CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)fill);
	else
		result = cuda.cuTensorMapEncodeIm2colWide(&made, (CUtensorMapDataType)type, rank,
			memory, dims, strides, lower[0], upper[0], channels, pixels,
			element_strides, (CUtensorMapInterleave)interleave,
			(CUtensorMapIm2ColWideMode)mode, (CUtensorMapSwizzle)swizzle,
			(CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)fill);
	if (result == CUDA_SUCCESS)
		memcpy(map, &made, sizeof(made));
	return result;
}

CUresult do_tensor_map_move(
	struct session *session, const uint64_t map[16], uint64_t address, uint64_t moved[16])
{
	CUtensorMap made;
	CUresult result;

	_Static_assert(sizeof(made) == MAP_WORDS * sizeof(*map), "as the wire has it");
	if (!memory_check(session, address, 1))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&made, map, sizeof(made));
	result = cuda.cuTensorMapReplaceAddress(&made, (void *)(uintptr_t)address);
	if (result == CUDA_SUCCESS)
		memcpy(moved, &made, sizeof(made));
	return result;
}
