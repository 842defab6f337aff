/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tensor maps: 128 bytes that the real driver fills in; the program passes them to
 * its kernels. Any thread of the application.
 *
 * Invariant: the driver defines the bytes; this file does not interpret them.
 */

#include <string.h>

#include "calls_array.h"
#include "client/transport/server_link.h"
#include "send_array.h"

#define RANK_MAX 5u
#define MAP_WORDS 16u

_Static_assert(sizeof(CUtensorMap) == MAP_WORDS * sizeof(uint64_t), "as the wire has it");

/* The parameters that all kinds share. `kind' is 0 for tiles, 1 for im2col, 2 for wide im2col. */
struct tensor {
	uint32_t kind, type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
	uint64_t address, dims[RANK_MAX], strides[RANK_MAX - 1];
	uint32_t box[RANK_MAX], element_strides[RANK_MAX];
	int32_t lower[RANK_MAX - 2], upper[RANK_MAX - 2];
};

/* Initialises a map whose kind is still unset, with the parameters of each dimension. */
static CUresult tensor_of(struct tensor *tensor, cuuint32_t rank, void *address,
	const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *element_strides)
{
	*tensor = (struct tensor){.rank = rank, .address = (uintptr_t)address};
	if (rank < 1 || rank > RANK_MAX || !address || !dims || !element_strides ||
		(rank > 1 && !strides))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(tensor->dims, dims, rank * sizeof(*dims));
	memcpy(tensor->element_strides, element_strides, rank * sizeof(*element_strides));
	if (rank > 1)
		memcpy(tensor->strides, strides, (rank - 1) * sizeof(*strides));
	return CUDA_SUCCESS;
}

static CUresult tensor_send(const struct tensor *t, CUtensorMap *ret_map)
{
	uint64_t map[MAP_WORDS];
	CUresult result = server_link_check(&server);

	if (result == CUDA_SUCCESS && !ret_map)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = send_tensor_map(t->kind, t->type, t->rank, t->address, t->dims, t->strides,
			t->box, t->element_strides, t->lower, t->upper, t->channels, t->pixels,
			t->interleave, t->mode, t->swizzle, t->promotion, t->fill, map);
	if (result == CUDA_SUCCESS)
		memcpy(ret_map, map, sizeof(map));
	return result;
}

CUresult local_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
	cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
	const cuuint64_t *globalStrides, const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct tensor tensor;
	CUresult result = tensor_of(
		&tensor, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);

	if (result != CUDA_SUCCESS || !boxDim)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(tensor.box, boxDim, tensorRank * sizeof(*boxDim));
	tensor.type = tensorDataType;
	tensor.interleave = interleave;
	tensor.swizzle = swizzle;
	tensor.promotion = l2Promotion;
	tensor.fill = oobFill;
	return tensor_send(&tensor, tensorMap);
}

CUresult local_cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
	cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
	const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner,
	const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
	const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	struct tensor tensor;
	CUresult result = tensor_of(
		&tensor, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);

	if (result != CUDA_SUCCESS || tensorRank < 3 || !pixelBoxLowerCorner ||
		!pixelBoxUpperCorner)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(tensor.lower, pixelBoxLowerCorner, (tensorRank - 2) * sizeof(int));
	memcpy(tensor.upper, pixelBoxUpperCorner, (tensorRank - 2) * sizeof(int));
	tensor.kind = 1;
	tensor.type = tensorDataType;
	tensor.channels = channelsPerPixel;
	tensor.pixels = pixelsPerColumn;
	tensor.interleave = interleave;
	tensor.swizzle = swizzle;
	tensor.promotion = l2Promotion;
	tensor.fill = oobFill;
	return tensor_send(&tensor, tensorMap);
}

CUresult local_cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap,
	CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,
	const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
	int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
	const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
	CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct tensor tensor;
	CUresult result = tensor_of(
		&tensor, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);

	if (result != CUDA_SUCCESS)
		return result;
	tensor.lower[0] = pixelBoxLowerCornerWidth;
	tensor.upper[0] = pixelBoxUpperCornerWidth;
	tensor.kind = 2;
	tensor.type = tensorDataType;
	tensor.channels = channelsPerPixel;
	tensor.pixels = pixelsPerColumn;
	tensor.interleave = interleave;
	tensor.mode = mode;
	tensor.swizzle = swizzle;
	tensor.promotion = l2Promotion;
	tensor.fill = oobFill;
	return tensor_send(&tensor, tensorMap);
}

CUresult local_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	uint64_t map[MAP_WORDS], moved[MAP_WORDS];
	CUresult result;

	memcpy(map, tensorMap, sizeof(map));
	result = send_tensor_map_move(map, (uintptr_t)globalAddress, moved);
	if (result == CUDA_SUCCESS)
		memcpy(tensorMap, moved, sizeof(moved));
	return result;
}
