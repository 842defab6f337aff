/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries about an address. Any thread of the application.
 *
 * Invariant: the answers come from the address maps. An address in no map is the
 * program's own host memory, which the driver does not know.
 */

#include "allocation.h"
#include "calls_memory.h"
#include "memory.h"
#include "pool.h"
#include "registered.h"
#include "sync_rules.h"
#include "wire.h"

static bool pointer_find(CUdeviceptr ptr, struct memory_range *ret_range)
{
	return memory_find(ptr, ret_range) || registered_find(ptr, ret_range);
}

/* Managed memory counts as device memory. */
static bool is_host(const struct memory_range *range)
{
	return memory_is_pinned(range) || range->kind == MEMORY_REGISTERED ||
	       range->kind == MEMORY_ALIAS;
}

static bool has_host_pointer(const struct memory_range *range)
{
	return is_host(range) || memory_is_managed(range);
}

/* Memory of a host pool has none until a device may access it. */
static bool has_device_pointer(const struct memory_range *range)
{
	return !memory_is_pinned(range) || memory_is_admitted(range);
}

static bool is_of_pool(const struct memory_range *range)
{
	return range->kind == MEMORY_POOLED || range->kind == MEMORY_GRAPH ||
	       range->kind == MEMORY_IMPORTED;
}

/* For registered memory, the other address of the same byte; 0: none. */
static uint64_t other_of(const struct memory_range *range, CUdeviceptr ptr)
{
	return range->other ? range->other + (ptr - range->address) : 0;
}

static CUdevice ordinal_of(const struct memory_range *range)
{
	if (range->kind == MEMORY_MAPPED)
		return range->allocation->ordinal;
	return range->pool && range->pool->device ? range->pool->ordinal : range->context->ordinal;
}

/* What the current context's device may do there, as values of CUmemAccess_flags. */
static unsigned access_of(const struct memory_range *range)
{
	if (range->kind != MEMORY_MAPPED)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	return memory_get_access(range,
		context_current ? context_current->device->index : range->allocation->device);
}

/* Attributes with values of type int or unsigned. */
static bool value_int(
	const struct memory_range *range, CUpointer_attribute attribute, unsigned *ret_value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret_value = is_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret_value = (unsigned)ordinal_of(range);
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret_value = range->kind != MEMORY_REGISTERED || range->other != 0;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret_value = !is_host(range) && (!is_of_pool(range) || memory_is_managed(range));
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret_value = memory_is_managed(range);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*ret_value = range->kind == MEMORY_ALLOCATED;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*ret_value = range->kind == MEMORY_MAPPED &&
			     (range->allocation->properties & WIRE_ALLOCATION_RDMA);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*ret_value = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret_value = access_of(range);
		return true;
	default:
		return false;
	}
}

/* In which ways the memory can be exported to another process. */
static unsigned handle_types(const struct memory_range *range)
{
	if (range->kind == MEMORY_MAPPED)
		return range->allocation->types;
	return range->kind == MEMORY_POOLED && range->pool->is_shareable
		       ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
		       : CU_MEM_HANDLE_TYPE_NONE;
}

/* Attributes with values as wide as a pointer. */
static bool value_wide(const struct memory_range *range, CUdeviceptr ptr,
	CUpointer_attribute attribute, uint64_t *ret_value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* Mappings and memory of pools belong to no context. */
		*ret_value = is_of_pool(range) ? 0 : (uintptr_t)range->context;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret_value = range->kind == MEMORY_REGISTERED ? other_of(range, ptr) : ptr;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*ret_value = range->id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*ret_value = has_device_pointer(range) ? range->address : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*ret_value = range->address;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*ret_value = range->size;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*ret_value = range->kind == MEMORY_POOLED || range->kind == MEMORY_IMPORTED
				     ? (uintptr_t)range->pool
				     : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*ret_value = handle_types(range);
		return true;
	default:
		return false;
	}
}

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute,
	const struct memory_range *range, CUdeviceptr ptr)
{
	unsigned value;
	uint64_t wide;

	if (value_int(range, attribute, &value)) {
		*(unsigned *)data = value;
		return CUDA_SUCCESS;
	}
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && !has_device_pointer(range))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && has_host_pointer(range))
		wide = range->kind == MEMORY_ALIAS ? other_of(range, ptr) : ptr;
	else if (!value_wide(range, ptr, attribute, &wide))
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)data = wide;
	return CUDA_SUCCESS;
}

CUresult local_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct memory_range range;

	if (!data || !pointer_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	return pointer_attribute(data, attribute, &range, ptr);
}

/*
 * The results of cuPointerGetAttributes() for host memory; the driver leaves the
 * range attributes unchanged.
 */
static void attribute_of_host(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	static const struct memory_range nothing;
	uint64_t wide;

	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)data = CU_DEVICE_INVALID;
	else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		*(uint64_t *)data = ptr;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
		 attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		return;
	else if (value_wide(&nothing, 0, attribute, &wide))
		*(uint64_t *)data = 0;
	else
		*(unsigned *)data = 0;
}

static bool pointer_attribute_is_known(CUpointer_attribute attribute)
{
	return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
	       attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
	       attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

/* Succeeds for host memory too: attributes that do not apply are zero. */
CUresult local_cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	struct memory_range range;
	bool is_ours;

	is_ours = pointer_find(ptr, &range);
	for (unsigned i = 0; i < numAttributes; i++) {
		if (!data[i] || !pointer_attribute_is_known(attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
		if (!is_ours)
			attribute_of_host(data[i], attributes[i], ptr);
		/* Only the attributes that are pointers may not apply. */
		else if (pointer_attribute(data[i], attributes[i], &range, ptr) != CUDA_SUCCESS)
			*(uint64_t *)data[i] = 0;
	}
	return CUDA_SUCCESS;
}

/*
 * Afterwards synchronous copies and sets of this memory always wait, whatever its
 * kind. Waits now for the earlier ones that did not wait.
 */
static CUresult set_sync(const struct memory_range *range, CUdeviceptr ptr, bool is_sync)
{
	memory_set_sync(ptr, is_sync);
	return is_sync && !is_host(range) ? sync_catch_up(range->context->device->index)
					  : CUDA_SUCCESS;
}

CUresult local_cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct memory_range range;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !pointer_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == MEMORY_MAPPED || range.kind == MEMORY_GRAPH ||
		range.kind == MEMORY_IMPORTED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return set_sync(&range, ptr, *(const unsigned *)value);
}
