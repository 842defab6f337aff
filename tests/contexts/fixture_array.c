/* SPDX-License-Identifier: Apache-2.0 */

/* Copies, fills, arrays, textures and tensors. The main thread of a worker process. */

#include "fixture.h"

/* ---- copies and fills: two rows of 64 bytes */

CUDA_MEMCPY2D *make_rectangle(void)
{
	CUDA_MEMCPY2D *copy = make_zeros();

	copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy->srcDevice = make_memory();
	copy->dstDevice = make_memory();
	copy->srcPitch = copy->dstPitch = copy->WidthInBytes = 64;
	copy->Height = 2;
	return copy;
}

CUDA_MEMCPY3D *make_box(void)
{
	CUDA_MEMCPY3D *copy = make_zeros();

	copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy->srcDevice = make_memory();
	copy->dstDevice = make_memory();
	copy->srcPitch = copy->dstPitch = copy->WidthInBytes = 64;
	copy->srcHeight = copy->dstHeight = copy->Height = 2;
	copy->Depth = 1;
	return copy;
}

CUDA_MEMCPY3D_PEER *make_peer_box(void)
{
	CUDA_MEMCPY3D_PEER *copy = make_zeros();

	copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy->srcDevice = make_memory();
	copy->dstDevice = make_memory();
	copy->srcContext = copy->dstContext = owner;
	copy->srcPitch = copy->dstPitch = copy->WidthInBytes = 64;
	copy->srcHeight = copy->dstHeight = copy->Height = 2;
	copy->Depth = 1;
	return copy;
}

CUmemcpyAttributes *make_copy_attributes(void)
{
	CUmemcpyAttributes *attributes = make_zeros();

	attributes->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	return attributes;
}

CUDA_MEMCPY3D_BATCH_OP *make_batch_box(void)
{
	CUDA_MEMCPY3D_BATCH_OP *copy = make_zeros();

	copy->src.type = copy->dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	copy->src.op.ptr.ptr = make_memory();
	copy->dst.op.ptr.ptr = make_memory();
	copy->extent = (CUextent3D){64, 1, 1};
	copy->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	return copy;
}

CUstreamBatchMemOpParams *make_memory_op(void)
{
	CUstreamBatchMemOpParams *op = make_zeros();

	op->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op->writeValue.address = make_memory();
	return op;
}

/* ---- arrays */

CUDA_ARRAY_DESCRIPTOR *make_array_desc(void)
{
	CUDA_ARRAY_DESCRIPTOR *desc = make_zeros();

	desc->Width = desc->Height = 16;
	desc->Format = CU_AD_FORMAT_FLOAT;
	desc->NumChannels = 1;
	return desc;
}

CUDA_ARRAY3D_DESCRIPTOR *make_array3d_desc(unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR *desc = make_zeros();

	desc->Width = desc->Height = 16;
	desc->Format = CU_AD_FORMAT_FLOAT;
	desc->NumChannels = 1;
	desc->Flags = flags;
	return desc;
}

CUarray make_array(void)
{
	CUarray array = NULL;

	need(api.cuArrayCreate_v2(&array, make_array_desc()));
	return array;
}

CUarray make_line(void)
{
	CUDA_ARRAY_DESCRIPTOR *desc = make_array_desc();
	CUarray array = NULL;

	desc->Height = 0;
	need(api.cuArrayCreate_v2(&array, desc));
	return array;
}

CUmipmappedArray make_mipmap(void)
{
	CUmipmappedArray mipmap = NULL;

	need(api.cuMipmappedArrayCreate(&mipmap, make_array3d_desc(0), 2));
	return mipmap;
}

/* ---- textures and surfaces */

CUDA_RESOURCE_DESC *make_resource_of_array(void)
{
	CUDA_RESOURCE_DESC *desc = make_zeros();

	desc->resType = CU_RESOURCE_TYPE_ARRAY;
	desc->res.array.hArray = make_array();
	return desc;
}

CUDA_RESOURCE_DESC *make_resource_of_surface(void)
{
	CUDA_RESOURCE_DESC *desc = make_zeros();

	desc->resType = CU_RESOURCE_TYPE_ARRAY;
	need(api.cuArray3DCreate_v2(
		&desc->res.array.hArray, make_array3d_desc(CUDA_ARRAY3D_SURFACE_LDST)));
	return desc;
}

CUtexObject make_texture(void)
{
	CUtexObject texture = 0;

	need(api.cuTexObjectCreate(&texture, make_resource_of_array(), make_zeros(), NULL));
	return texture;
}

CUsurfObject make_surface(void)
{
	CUsurfObject surface = 0;

	need(api.cuSurfObjectCreate(&surface, make_resource_of_surface()));
	return surface;
}

/* ---- tensors */

const cuuint64_t tensor_dims[] = {16, 4, 4};
const cuuint64_t tensor_strides[] = {64, 256};
const cuuint32_t tensor_box[] = {16, 4, 4};
const cuuint32_t tensor_steps[] = {1, 1, 1};
const int tensor_corner[] = {0};

CUtensorMap *make_tensor_map(void)
{
	CUtensorMap *map = make_zeros();

	need(api.cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3,
		(void *)(uintptr_t)make_memory(), tensor_dims, tensor_strides, tensor_box,
		tensor_steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
	return map;
}
