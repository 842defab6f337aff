/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating pools, selecting one, and their queries and settings. Any thread of the
 * application.
 *
 * Invariant: a pool's memory is on one device.
 */

#include <stdatomic.h>
#include <string.h>

#include "client.h"
#include "pool_calls.h"
#include "client/transport/route.h"

/* The driver rounds up a pool's maximum size to this (measured). */
#define SIZE_MAX_ALIGN (32ull << 20)

/* The pool that the program has set; NULL: the default pool. Atomic. */
static struct pool *_Atomic current[DEVICES_MAX];

struct pool *pool_current(struct device *device, CUdevice ordinal)
{
	struct pool *pool = atomic_load_explicit(&current[device->index], memory_order_acquire);

	return pool ? pool : pool_default(device, ordinal);
}

static CUresult give_pool(struct pool *pool, CUmemoryPool *ret_handle)
{
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_handle = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

/* The pool of a call; needs no context. */
static CUresult pool_enter(CUmemoryPool handle, struct pool **ret_pool)
{
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_pool = pool_find(handle);
	return *ret_pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only for pools that this process owns. */
static CUresult enter_own(CUmemoryPool handle, struct pool **ret_pool)
{
	CUresult result = pool_enter(handle, ret_pool);

	return result == CUDA_SUCCESS && (*ret_pool)->kind == POOL_IMPORTED
		       ? CUDA_ERROR_INVALID_VALUE
		       : result;
}

CUresult local_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	struct device *device;
	CUresult result = device_enter(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	return pool_out ? give_pool(pool_default(device, dev), pool_out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct device *device;
	CUresult result = device_enter(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	return pool ? give_pool(pool_current(device, dev), pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct pool *found = pool_find(pool);
	struct device *device;
	CUresult result = device_enter(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!found || found->device != device || found->kind == POOL_IMPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store_explicit(&current[device->index], found, memory_order_release);
	return CUDA_SUCCESS;
}

/* The device of a location; pools of host and managed memory are not supported. */
static CUresult find_location(const CUmemLocation *location, CUmemAllocationType type,
	const char *symbol, CUdevice *ret_ordinal)
{
	if (!location ||
		(type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return refuse(symbol, "pools of managed memory are not supported");
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*ret_ordinal = location->id;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return refuse(symbol, "pools of host memory are not supported");
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult local_cuMemGetDefaultMemPool(
	CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	CUdevice ordinal = CU_DEVICE_INVALID;
	CUresult result = find_location(location, type, "cuMemGetDefaultMemPool", &ordinal);

	return result == CUDA_SUCCESS ? local_cuDeviceGetDefaultMemPool(pool_out, ordinal) : result;
}

CUresult local_cuMemGetMemPool(
	CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUdevice ordinal = CU_DEVICE_INVALID;
	CUresult result = find_location(location, type, "cuMemGetMemPool", &ordinal);

	return result == CUDA_SUCCESS ? local_cuDeviceGetMemPool(pool, ordinal) : result;
}

CUresult local_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUdevice ordinal = CU_DEVICE_INVALID;
	CUresult result = find_location(location, type, "cuMemSetMemPool", &ordinal);

	return result == CUDA_SUCCESS ? local_cuDeviceSetMemPool(ordinal, pool) : result;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
	while (n > 0 && bytes[n - 1] == 0)
		n--;
	return n == 0;
}

CUresult local_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct device *device;
	struct pool *made;
	CUdevice ordinal = CU_DEVICE_INVALID;
	CUresult result;

	if (!pool || !poolProps || (poolProps->usage & ~CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) ||
		!is_zero(poolProps->reserved, sizeof(poolProps->reserved)))
		return CUDA_ERROR_INVALID_VALUE;
	result = find_location(
		&poolProps->location, poolProps->allocType, "cuMemPoolCreate", &ordinal);
	if (result == CUDA_SUCCESS)
		result = device_enter(ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	if (poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return refuse(
			"cuMemPoolCreate", "pools can be shared only by POSIX file descriptors");
	made = pool_new(device, ordinal, POOL_CREATED);
	if (made) {
		/* A size without a next multiple means no limit. */
		made->size_max = ALIGN_UP(poolProps->maxSize, SIZE_MAX_ALIGN);
		made->is_shareable = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	}
	return give_pool(made, pool);
}

CUresult local_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *found, *expected;
	CUresult result = pool_enter(pool, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (found->kind == POOL_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (found->kind == POOL_IMPORTED)
		return pool_unimport(found);
	expected = found;
	atomic_compare_exchange_strong_explicit(&current[found->device->index], &expected, NULL,
		memory_order_acq_rel, memory_order_relaxed);
	pool_destroy(found);
	return CUDA_SUCCESS;
}

CUresult local_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct pool *found;
	CUresult result = enter_own(pool, &found);

	if (result == CUDA_SUCCESS)
		pool_trim(found, minBytesToKeep);
	return result;
}

static bool is_reuse(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static int *reuse_of(struct pool *pool, CUmemPool_attribute attribute)
{
	return &pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

static CUresult size_attribute(
	struct pool *pool, CUmemPool_attribute attribute, uint64_t *ret_value)
{
	struct pool_size size;

	pool_get_size(pool, &size);
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*ret_value = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*ret_value = size.size;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*ret_value = size.size_high;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*ret_value = size.used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*ret_value = size.used_high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult local_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct pool *found;
	uint64_t size;
	CUresult result = enter_own(pool, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attr)) {
		memcpy(value, reuse_of(found, attr), sizeof(int));
		return CUDA_SUCCESS;
	}
	result = size_attribute(found, attr, &size);
	if (result == CUDA_SUCCESS)
		memcpy(value, &size, sizeof(size));
	return result;
}

CUresult local_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct pool *found;
	uint64_t size;
	CUresult result = enter_own(pool, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attr)) {
		memcpy(reuse_of(found, attr), value, sizeof(int));
		return CUDA_SUCCESS;
	}
	memcpy(&size, value, sizeof(size));
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool_set_threshold(found, size);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (size != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool_reset_high(found, attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/*
 * The pool's own device always has full access; the program decides about other
 * devices that can have it.
 */
static CUresult pool_check_access(const struct pool *pool, const CUmemAccessDesc *access)
{
	struct device *device;

	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_get(access->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (access->location.id == pool->ordinal)
		return access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return CUDA_SUCCESS;
	/* Opening the device makes the server map the program's memory for it too. */
	return device_reaches(device, pool->device) ? device_open(device)
						    : CUDA_ERROR_INVALID_DEVICE;
}

static void set_access(struct pool *pool, const CUmemAccessDesc *access)
{
	uint64_t bit = 1ull << device_get(access->location.id)->index;

	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		atomic_fetch_and_explicit(&pool->granted, ~bit, memory_order_relaxed);
	else
		atomic_fetch_or_explicit(&pool->granted, bit, memory_order_relaxed);
}

CUresult local_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct pool *found;
	CUresult result = pool_enter(pool, &found);

	if (result == CUDA_SUCCESS && count > 0 && !map)
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = pool_check_access(found, &map[i]);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		set_access(found, &map[i]);
	return result;
}

CUresult local_cuMemPoolGetAccess(
	CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	const struct device *device;
	struct pool *found;
	CUresult result = pool_enter(memPool, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_get(location->id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = device == found->device ||
				 (atomic_load_explicit(&found->granted, memory_order_relaxed) &
					 1ull << device->index)
			 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult pool_of_graph(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct pool **ret_pool)
{
	const CUmemPoolProps *props = &params->poolProps;
	struct device *device;
	CUdevice ordinal = CU_DEVICE_INVALID;
	CUresult result = find_location(
		&props->location, props->allocType, "cuGraphAddMemAllocNode", &ordinal);

	if (result == CUDA_SUCCESS)
		result = device_enter(ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
		(params->accessDescCount > 0 && !params->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_pool = pool_graph(device, ordinal);
	if (!*ret_pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < params->accessDescCount && result == CUDA_SUCCESS; i++)
		result = pool_check_access(*ret_pool, &params->accessDescs[i]);
	return result;
}
