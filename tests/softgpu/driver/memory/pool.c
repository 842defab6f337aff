/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. An allocation exists at once and is freed when the
 * stream reaches its free. Pools keep no memory back and are only names.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "tests/softgpu/driver/stream/context.h"
#include "memory.h"
#include "tests/softgpu/driver/graph/graph_memory.h"
#include "tests/softgpu/driver/stream/stream.h"

#include <string.h>

struct pool {
	struct object object;
	struct device *device;
	bool is_default;
	uint64_t threshold;
	int reuse[3]; /* follow event, opportunistic, internal dependencies */
	uint64_t used_high;
};

static struct pool *default_pools[DEVICES_MAX];
static struct pool *current_pools[DEVICES_MAX];

static struct pool *pool_new(struct device *device, bool is_default)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->is_default = is_default;
	for (size_t i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1;
	object_add(&pool->object, OBJECT_POOL);
	return pool;
}

static struct pool *pool_default(const struct device *device)
{
	size_t i = (size_t)(device - driver.devices);

	if (!default_pools[i])
		default_pools[i] = pool_new(&driver.devices[i], true);
	return default_pools[i];
}

static struct pool *pool_current(const struct device *device)
{
	size_t i = (size_t)(device - driver.devices);

	return current_pools[i] ? current_pools[i] : pool_default(device);
}

static bool has_pending_frees(void)
{
	for (const struct range *range = range_next(0); range; range = range_next(range->end))
		if (range->is_freeing)
			return true;
	return false;
}

/* The node's allocation does not come from `pool', which only says on which device it is. */
static CUresult alloc_captured(
	CUdeviceptr *dptr, size_t size, const struct pool *pool, struct stream *stream)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = size};
	struct work work;
	CUresult result;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = (int)(pool->device - driver.devices);
	result = graph_memory_alloc_work(&params, &work);
	if (result == CUDA_SUCCESS)
		result = stream_push(stream, &work);
	if (result == CUDA_SUCCESS)
		*dptr = params.dptr;
	return result;
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t size, struct pool *pool, CUstream handle)
{
	struct context *context;
	struct stream *stream;
	struct range *range;
	CUresult result = stream_get(handle, &stream);

	if (!dptr || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	context = stream->context;
	if (!pool)
		pool = pool_current(context->device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->capture)
		return alloc_captured(dptr, size, pool, stream);
	result = memory_alloc(context, RANGE_DEVICE, size, 0, &range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && has_pending_frees()) {
		result = device_wait(context->device);
		if (result == CUDA_SUCCESS)
			result = memory_alloc(context, RANGE_DEVICE, size, 0, &range);
	}
	if (result != CUDA_SUCCESS)
		return result;
	range->pool = (CUmemoryPool)pool;
	*dptr = range->start;
	return CUDA_SUCCESS;
}

ENTER_STREAM(cuMemAllocAsync, (CUdeviceptr * dptr, size_t size, CUstream stream),
	alloc_async(dptr, size, NULL, stream))
ENTER_STREAM(cuMemAllocFromPoolAsync,
	(CUdeviceptr * dptr, size_t size, CUmemoryPool pool, CUstream stream),
	object_find(OBJECT_POOL, pool)
		? alloc_async(dptr, size, object_find(OBJECT_POOL, pool), stream)
		: CUDA_ERROR_INVALID_VALUE)

static CUresult free_async(CUdeviceptr dptr, CUstream handle)
{
	struct work work = {.kind = WORK_FREE, .address = dptr};
	struct range *range = range_find(dptr);
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result != CUDA_SUCCESS || dptr == 0)
		return result;
	if (!range || range->start != dptr || range->kind != RANGE_DEVICE || range->is_freeing)
		return CUDA_ERROR_INVALID_VALUE;
	if (range->graph_memory && !stream->capture)
		return graph_memory_free_async(range->graph_memory, stream);
	if (range->graph_memory)
		graph_memory_free_work(dptr, &work);
	result = stream_push(stream, &work);
	if (result == CUDA_SUCCESS && !range->graph_memory)
		range->is_freeing = true;
	return result;
}

ENTER_STREAM(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream), free_async(dptr, stream))

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool_out = (CUmemoryPool)pool_default(device_get(dev));
	return *pool_out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)pool_current(device_get(dev));
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct pool *found;

	ENTER(CALL_INIT);
	found = object_find(OBJECT_POOL, pool);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!found || found->device != device_get(dev))
		return CUDA_ERROR_INVALID_VALUE;
	current_pools[dev] = found;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct pool *made;

	ENTER(CALL_ALIVE);
	if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device_get(poolProps->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	made = pool_new(device_get(poolProps->location.id), false);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stat_add(STAT_POOLS, 1);
	*pool = (CUmemoryPool)made;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *found;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, pool);
	if (!found || found->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < ARRAY_SIZE(current_pools); i++)
		if (current_pools[i] == found)
			current_pools[i] = NULL;
	for (struct range *range = range_next(0); range; range = range_next(range->end))
		if (range->pool == pool)
			range->pool = NULL;
	object_remove(&found->object);
	free(found);
	stat_add(STAT_POOLS, -1);
	return CUDA_SUCCESS;
}

static uint64_t pool_used(const struct pool *pool)
{
	uint64_t used = 0;

	for (const struct range *range = range_next(0); range; range = range_next(range->end))
		if (range->pool == (CUmemoryPool)pool)
			used += range->charged;
	return used;
}

static int *pool_reuse(struct pool *pool, CUmemPool_attribute attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->reuse[0];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->reuse[1];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse[2];
	default:
		return NULL;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct pool *found;
	uint64_t number;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, pool);
	if (!found || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool_reuse(found, attr)) {
		memcpy(value, pool_reuse(found, attr), sizeof(int));
		return CUDA_SUCCESS;
	}
	found->used_high = MAX(found->used_high, pool_used(found));
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		number = found->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		number = pool_used(found);
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		number = found->used_high;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(value, &number, sizeof(number));
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct pool *found;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, pool);
	if (!found || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool_reuse(found, attr)) {
		memcpy(pool_reuse(found, attr), value, sizeof(int));
		return CUDA_SUCCESS;
	}
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		memcpy(&found->threshold, value, sizeof(found->threshold));
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		found->used_high = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	ENTER(CALL_ALIVE);
	(void)minBytesToKeep;
	return object_find(OBJECT_POOL, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	ENTER(CALL_ALIVE);
	if (!object_find(OBJECT_POOL, pool) || (count > 0 && !map))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	ENTER(CALL_ALIVE);
	if (!flags || !location || !object_find(OBJECT_POOL, memPool))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}
