/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tensor maps, which the driver fills in for the client. A worker.
 *
 * Invariant: the address in a map belonged to the session when the driver filled it in.
 * Sizes are not compared with the allocation: natively they are not either, and programs use
 * larger ones on purpose.
 */

#include <string.h>

#include "messages.h"
#include "server/session/session.h"
#include "server/driver/driver.h"
#include "do_array.h"

#define MAP_WORDS 16

enum {
	MAP_TILED,
	MAP_IM2COL,
	MAP_IM2COL_WIDE,
};

CUresult do_tensor_map(struct session *session, const struct msg_tensor_map *msg, uint64_t map[16])
{
	void *memory = (void *)(uintptr_t)msg->address;
	CUtensorMap made = {0};
	CUresult result;

	if (!memory_check(session, msg->address, 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (msg->kind == MAP_TILED)
		result = cuda.cuTensorMapEncodeTiled(&made, (CUtensorMapDataType)msg->type,
			msg->rank, memory, msg->dims, msg->strides, msg->box, msg->element_strides,
			(CUtensorMapInterleave)msg->interleave, (CUtensorMapSwizzle)msg->swizzle,
			(CUtensorMapL2promotion)msg->promotion, (CUtensorMapFloatOOBfill)msg->fill);
	else if (msg->kind == MAP_IM2COL)
		result = cuda.cuTensorMapEncodeIm2col(&made, (CUtensorMapDataType)msg->type,
			msg->rank, memory, msg->dims, msg->strides, msg->lower, msg->upper,
			msg->channels, msg->pixels, msg->element_strides,
			(CUtensorMapInterleave)msg->interleave, (CUtensorMapSwizzle)msg->swizzle,
			(CUtensorMapL2promotion)msg->promotion, (CUtensorMapFloatOOBfill)msg->fill);
	else
		result = cuda.cuTensorMapEncodeIm2colWide(&made, (CUtensorMapDataType)msg->type,
			msg->rank, memory, msg->dims, msg->strides, msg->lower[0], msg->upper[0],
			msg->channels, msg->pixels, msg->element_strides,
			(CUtensorMapInterleave)msg->interleave,
			(CUtensorMapIm2ColWideMode)msg->mode, (CUtensorMapSwizzle)msg->swizzle,
			(CUtensorMapL2promotion)msg->promotion, (CUtensorMapFloatOOBfill)msg->fill);
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
