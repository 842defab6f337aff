/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. An allocation exists at once and is freed when the
 * stream reaches its free. Pools keep no memory back and are only names.
 *
 * The client library's code (advice.c) says which NUMA nodes exist.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <string.h>

#include "memory.h"
#include "client/memory/advice.h"
#include "tests/softgpu/driver/graph/graph_memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

/* Of which kind a pool's memory is, and where. */
struct place {
	CUmemAllocationType type;
	CUmemLocation location; /* the ID of the whole host is CU_DEVICE_CPU */
};

struct pool {
	struct object object;
	struct pool *next;
	struct place place;
	bool is_default, is_current;
	uint64_t threshold;
	int reuse[3]; /* follow event, opportunistic, internal dependencies */
	uint64_t used_high;
	unsigned access; /* that the program has given: ACCESS_BITS for each device */
	bool is_host_granted;
};

static struct pool *pools;

static bool place_is_host(const struct place *place)
{
	return place->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       place->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult place_find(
	const CUmemLocation *location, CUmemAllocationType type, struct place *ret_place)
{
	const bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;

	if (!location || (!is_managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_place = (struct place){type, *location};
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_get(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return advice_check_host(&ret_place->location);
	case CU_MEM_LOCATION_TYPE_NONE:
		ret_place->location.id = 0;
		return is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static struct place place_of_device(int ordinal)
{
	return (struct place){
		CU_MEM_ALLOCATION_TYPE_PINNED, {CU_MEM_LOCATION_TYPE_DEVICE, ordinal}};
}

static bool pool_is_at(const struct pool *pool, const struct place *place)
{
	return pool->place.type == place->type &&
	       pool->place.location.type == place->location.type &&
	       pool->place.location.id == place->location.id;
}

static struct pool *pool_new(const struct place *place, bool is_default)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->place = *place;
	pool->is_default = is_default;
	for (size_t i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1;
	pool->next = pools;
	pools = pool;
	object_add(&pool->object, OBJECT_POOL);
	return pool;
}

static struct pool *pool_default(const struct place *place)
{
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->is_default && pool_is_at(pool, place))
			return pool;
	return pool_new(place, true);
}

static struct pool *pool_current(const struct place *place)
{
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->is_current && pool_is_at(pool, place))
			return pool;
	return pool_default(place);
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
	params.poolProps.location.id = pool->place.location.id;
	result = graph_memory_alloc_work(&params, &work);
	if (result == CUDA_SUCCESS)
		result = stream_push(stream, &work);
	if (result == CUDA_SUCCESS)
		*dptr = params.dptr;
	return result;
}

static enum range_kind kind_of(const struct place *place)
{
	if (place->type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return RANGE_MANAGED;
	return place_is_host(place) ? RANGE_HOST : RANGE_DEVICE;
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t size, struct pool *pool, CUstream handle)
{
	struct place place;
	enum range_kind kind;
	struct context *context;
	struct stream *stream;
	struct range *range;
	CUresult result = stream_get(handle, &stream);

	if (!dptr || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	context = stream->context;
	place = place_of_device((int)(context->device - driver.devices));
	if (!pool)
		pool = pool_current(&place);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	kind = kind_of(&pool->place);
	if (stream->capture)
		return kind == RANGE_DEVICE ? alloc_captured(dptr, size, pool, stream)
					    : CUDA_ERROR_NOT_SUPPORTED;
	result = memory_alloc(context, kind, size, 0, &range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && has_pending_frees()) {
		result = device_wait(context->device);
		if (result == CUDA_SUCCESS)
			result = memory_alloc(context, kind, size, 0, &range);
	}
	if (result != CUDA_SUCCESS)
		return result;
	range->pool = (CUmemoryPool)pool;
	range->is_pooled = true;
	if (kind == RANGE_HOST)
		range_set_access(range, pool->access);
	if (kind == RANGE_MANAGED)
		managed_prefer(range, pool->place.location);
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
	if (!range || range->start != dptr || range->is_freeing ||
		(range->kind != RANGE_DEVICE && !range->is_pooled))
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

static CUresult give_pool(struct pool *pool, CUmemoryPool *ret_handle)
{
	*ret_handle = (CUmemoryPool)pool;
	return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The place of a call that asks for a pool or sets one. */
static CUresult place_named(
	const CUmemLocation *location, CUmemAllocationType type, struct place *ret_place)
{
	if (location && location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_NOT_SUPPORTED;
	return place_find(location, type, ret_place);
}

static CUresult set_current(const struct place *place, CUmemoryPool handle)
{
	struct pool *pool = object_find(OBJECT_POOL, handle);

	if (!pool || !pool_is_at(pool, place))
		return CUDA_ERROR_INVALID_VALUE;
	pool_current(place)->is_current = false;
	pool->is_current = true;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	const struct place place = place_of_device(dev);

	ENTER(CALL_INIT);
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return give_pool(pool_default(&place), pool_out);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	const struct place place = place_of_device(dev);

	ENTER(CALL_INIT);
	if (!pool || !device_get(dev))
		return CUDA_ERROR_INVALID_VALUE;
	return give_pool(pool_current(&place), pool);
}

/* A pool of managed memory becomes the device's current one for managed memory. */
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	const struct pool *pool = object_find(OBJECT_POOL, handle);
	struct place place = place_of_device(dev);

	ENTER(CALL_INIT);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (pool)
		place.type = pool->place.type;
	return set_current(&place, handle);
}

CUresult cuMemGetDefaultMemPool(
	CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	struct place place;
	CUresult result;

	ENTER(CALL_INIT);
	result = pool_out ? place_named(location, type, &place) : CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? give_pool(pool_default(&place), pool_out) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	struct place place;
	CUresult result;

	ENTER(CALL_INIT);
	result = pool ? place_named(location, type, &place) : CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? give_pool(pool_current(&place), pool) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct place place;
	CUresult result;

	ENTER(CALL_INIT);
	result = place_named(location, type, &place);
	return result == CUDA_SUCCESS ? set_current(&place, pool) : result;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct place place;
	struct pool *made;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	result = place_find(&poolProps->location, poolProps->allocType, &place);
	if (result != CUDA_SUCCESS)
		return result;
	if (place.type == CU_MEM_ALLOCATION_TYPE_MANAGED &&
		(poolProps->handleTypes || poolProps->maxSize))
		return CUDA_ERROR_INVALID_VALUE;
	if (place.location.type == CU_MEM_LOCATION_TYPE_HOST && poolProps->handleTypes)
		return CUDA_ERROR_INVALID_VALUE;
	made = pool_new(&place, false);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stat_add(STAT_POOLS, 1);
	*pool = (CUmemoryPool)made;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *found, **link = &pools;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, pool);
	if (!found || found->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	while (*link != found)
		link = &(*link)->next;
	*link = found->next;
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
			used += range->end - range->start;
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

static bool is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Whether the location always has access. */
static bool is_at_home(const struct pool *pool, const CUmemLocation *location)
{
	if (place_is_host(&pool->place))
		return is_host(location);
	return kind_of(&pool->place) == RANGE_DEVICE && !is_host(location) &&
	       location->id == pool->place.location.id;
}

static CUresult location_check(const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return device_get(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	return is_host(location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult access_check(const struct pool *pool, const CUmemAccessDesc *desc)
{
	const bool is_home = is_at_home(pool, &desc->location);
	CUresult result = location_check(&desc->location);

	if (result != CUDA_SUCCESS)
		return result;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
		(is_host(&desc->location) && kind_of(&pool->place) == RANGE_DEVICE))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !is_home)
		return CUDA_SUCCESS;
	return is_host(&desc->location) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

/* The GPU does not reach memory of a host pool unless the program says so. */
static void access_set(struct pool *pool, const CUmemAccessDesc *desc)
{
	unsigned shift = (unsigned)desc->location.id * ACCESS_BITS;

	if (is_host(&desc->location)) {
		pool->is_host_granted = desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
		return;
	}
	pool->access = (pool->access & ~(ACCESS_MASK << shift)) | (unsigned)desc->flags << shift;
	for (struct range *range = range_next(0); range; range = range_next(range->end))
		if (range->pool == (CUmemoryPool)pool && range->kind == RANGE_HOST)
			range_set_access(range, pool->access);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct pool *found;
	CUresult result = CUDA_SUCCESS;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, pool);
	if (!found || !map)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = access_check(found, &map[i]);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		access_set(found, &map[i]);
	return result;
}

static bool has_access(const struct pool *pool, const CUmemLocation *location)
{
	if (is_at_home(pool, location))
		return true;
	return is_host(location) ? pool->is_host_granted
				 : pool->access >> ((unsigned)location->id * ACCESS_BITS) & 1;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	const struct pool *found;
	CUresult result;

	ENTER(CALL_ALIVE);
	found = object_find(OBJECT_POOL, memPool);
	if (!flags || !location || !found)
		return CUDA_ERROR_INVALID_VALUE;
	result = location_check(location);
	if (result == CUDA_SUCCESS)
		*flags = has_access(found, location) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return result;
}
