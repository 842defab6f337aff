/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about pointers: cuPointerGetAttribute and similar calls.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <string.h>

#include "memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

/* The value of an attribute; `size' bytes are valid. A boolean is as wide as an int. */
struct answer {
	uint64_t value;
	size_t size;
};

static CUmemorytype range_type(const struct range *range)
{
	return range->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static bool range_is_host(const struct range *range)
{
	return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED ||
	       range->kind == RANGE_MANAGED || range->is_of_host;
}

static int range_ordinal(const struct range *range)
{
	const struct device *device = range->device;

	if (!device && range->context)
		device = range->context->device;
	return device ? (int)(device - driver.devices) : 0;
}

static CUresult answer_kind(
	const struct range *range, CUpointer_attribute attribute, struct answer *ret)
{
	const bool is_plain = range->kind == RANGE_DEVICE || range->kind == RANGE_MODULE;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret = (struct answer){true, sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret = (struct answer){range->kind == RANGE_MANAGED, sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret = (struct answer){
			range->device && (!range->is_pooled || range->kind == RANGE_MANAGED),
			sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*ret = (struct answer){range->allocation
					       ? allocation_is_rdma_capable(range->allocation)
					       : is_plain && !range->is_pooled,
			sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*ret = (struct answer){range_is_shareable(range), sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*ret = (struct answer){false, sizeof(int)}; /* not modelled */
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*ret = (struct answer){
			range->allocation ? allocation_handle_types(range->allocation) : 0,
			sizeof(uint64_t)};
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult answer_extent(
	const struct range *range, CUpointer_attribute attribute, struct answer *ret)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*ret = (struct answer){range_is_reached(range) ? range->start : 0, sizeof(void *)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*ret = (struct answer){range->start, sizeof(void *)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*ret = (struct answer){range->end - range->start, sizeof(size_t)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*ret = (struct answer){
			ALIGN_UP(range->end - range->start, GRANULARITY), sizeof(size_t)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*ret = (struct answer){range->id, sizeof(uint64_t)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*ret = (struct answer){(uintptr_t)range->pool, sizeof(void *)};
		return CUDA_SUCCESS;
	default:
		return answer_kind(range, attribute, ret);
	}
}

static CUresult answer_range(const struct range *range, CUdeviceptr ptr,
	CUpointer_attribute attribute, struct answer *ret)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret = (struct answer){
			range->is_pooled ? 0 : (uintptr_t)range->context, sizeof(CUcontext)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret = (struct answer){range_type(range), sizeof(CUmemorytype)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret = (struct answer){ptr, sizeof(CUdeviceptr)};
		return range_is_reached(range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*ret = (struct answer){ptr, sizeof(void *)};
		return range_is_host(range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret = (struct answer){(uint32_t)range_ordinal(range), sizeof(int)};
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret = (struct answer){range->is_accessible || range->kind == RANGE_HOST
					       ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
					       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE,
			sizeof(int)};
		return CUDA_SUCCESS;
	default:
		return answer_extent(range, attribute, ret);
	}
}

static CUresult answer(CUdeviceptr ptr, CUpointer_attribute attribute, struct answer *ret)
{
	const struct range *range = range_find(ptr);

	return range ? answer_range(range, ptr, attribute, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct answer value;
	CUresult result;

	ENTER(CALL_INIT);
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	result = answer(ptr, attribute, &value);
	if (result == CUDA_SUCCESS)
		memcpy(data, &value.value, value.size);
	return result;
}

/* The size of the answer if there is no value; 0: the caller's bytes stay. */
static size_t default_size(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return 0;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return sizeof(int);
	default:
		return sizeof(uint64_t);
	}
}

/* An unknown pointer is host memory, at the same address, on no device. */
static struct answer answer_default(CUdeviceptr ptr, CUpointer_attribute attribute)
{
	struct answer answer = {0, default_size(attribute)};

	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		answer.value = (uint32_t)CU_DEVICE_INVALID;
	else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !range_find(ptr))
		answer.value = ptr;
	return answer;
}

CUresult cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	struct answer value;

	ENTER(CALL_INIT);
	if (numAttributes == 0 || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++) {
		if (answer(ptr, attributes[i], &value) != CUDA_SUCCESS)
			value = answer_default(ptr, attributes[i]);
		memcpy(data[i], &value.value, value.size);
	}
	return CUDA_SUCCESS;
}

/* Waits for the work that synchronous calls have not waited for so far. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct range *range;

	ENTER(CALL_INIT);
	range = range_find(ptr);
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !range)
		return CUDA_ERROR_INVALID_VALUE;
	range->is_sync = *(const unsigned *)value;
	return range->is_sync && range->context ? streams_catch_up(range->context) : CUDA_SUCCESS;
}
