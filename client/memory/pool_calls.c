/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating pools, selecting one, and their queries and settings. Any thread of the
 * application.
 *
 * Invariant: a home that the program names in two ways has one number.
 */

#include "pool_calls.h"

#include <stdatomic.h>
#include <string.h>

#include "advice.h"
#include "calls_memory.h"
#include "client/transport/route.h"

/* The driver rounds up a pool's maximum size to this (measured). */
#define SIZE_MAX_ALIGN (32ull << 20)

/* The pool that the program has set; NULL: the default pool. Atomic. */
static struct pool *_Atomic current[POOL_HOMES];

static struct pool *current_of(const struct pool_home *home)
{
	struct pool *pool = atomic_load_explicit(&current[home->number], memory_order_acquire);

	return pool ? pool : pool_default(home);
}

struct pool *pool_current(struct device *device, CUdevice ordinal)
{
	const struct pool_home home = pool_home_of(device, ordinal);

	return current_of(&home);
}

static CUresult give_pool(struct pool *pool, CUmemoryPool *ret_handle)
{
	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_handle = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

/* The homes of one kind of memory: its devices, the host, any place, and the NUMA nodes. */
enum {
	HOME_HOST = DEVICES_MAX,
	HOME_ANY,
	HOME_NODES,
	HOMES_OF_KIND = HOME_NODES + POOL_NODES,
};

_Static_assert(2 * HOMES_OF_KIND == POOL_HOMES, "pinned and managed memory");

static CUresult home_of_device(CUdevice ordinal, struct pool_home *ret_home)
{
	struct device *device;
	CUresult result = device_enter(ordinal, &device);

	if (result == CUDA_SUCCESS)
		*ret_home = pool_home_of(device, ordinal);
	return result;
}

static CUresult home_of_node(CUmemLocation location, struct pool_home *ret_home)
{
	if (location.id < 0 || location.id >= POOL_NODES)
		return CUDA_ERROR_INVALID_VALUE;
	ret_home->number = HOME_NODES + (unsigned)location.id;
	return advice_check_host(&location);
}

/* As for advice: the host is one place, and a NUMA node is none. */
static CUmemLocation preferred_by(const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return *location;
	if (location->type == CU_MEM_LOCATION_TYPE_HOST)
		return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU};
	return (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
}

static CUresult home_find(
	const CUmemLocation *location, CUmemAllocationType type, struct pool_home *ret_home)
{
	bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
	struct pool_home home = {.memory = POOL_PINNED, .ordinal = CU_DEVICE_INVALID};
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!location || (!is_managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
		return CUDA_ERROR_INVALID_VALUE;
	/* Unlike a device's own calls, these do not know CUDA_ERROR_INVALID_DEVICE. */
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		result = home_of_device(location->id, &home) == CUDA_SUCCESS
				 ? CUDA_SUCCESS
				 : CUDA_ERROR_INVALID_VALUE;
	else if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		result = home_of_node(*location, &home);
	else if (location->type == CU_MEM_LOCATION_TYPE_HOST)
		home.number = HOME_HOST;
	else if (location->type == CU_MEM_LOCATION_TYPE_NONE && is_managed)
		home.number = HOME_ANY;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && is_managed) {
		home.number += HOMES_OF_KIND;
		home.memory = POOL_MANAGED;
		home.preferred = preferred_by(location);
	}
	*ret_home = home;
	return result;
}

/* The home of a call that asks for a pool or sets one. */
static CUresult home_named(
	const CUmemLocation *location, CUmemAllocationType type, struct pool_home *ret_home)
{
	if (location && location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_NOT_SUPPORTED;
	return home_find(location, type, ret_home);
}

static CUresult set_current(const struct pool_home *home, CUmemoryPool handle)
{
	struct pool *pool = pool_find(handle);

	if (!pool || pool->home != home->number || pool->kind == POOL_IMPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store_explicit(&current[home->number], pool, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	struct pool_home home;
	CUresult result = home_of_device(dev, &home);

	return result == CUDA_SUCCESS ? give_pool(pool_default(&home), pool_out) : result;
}

CUresult local_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct pool_home home;
	CUresult result =
		pool && device_get(dev) ? home_of_device(dev, &home) : CUDA_ERROR_INVALID_VALUE;

	return result == CUDA_SUCCESS ? give_pool(current_of(&home), pool) : result;
}

/* A pool of managed memory becomes the device's current one for managed memory. */
CUresult local_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	const struct pool *pool = pool_find(handle);
	struct pool_home home;
	CUresult result = home_of_device(dev, &home);

	if (result != CUDA_SUCCESS)
		return result;
	if (pool && pool->memory == POOL_MANAGED)
		home.number += HOMES_OF_KIND;
	return set_current(&home, handle);
}

CUresult local_cuMemGetDefaultMemPool(
	CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	struct pool_home home;
	CUresult result = home_named(location, type, &home);

	return result == CUDA_SUCCESS ? give_pool(pool_default(&home), pool_out) : result;
}

CUresult local_cuMemGetMemPool(
	CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	struct pool_home home;
	CUresult result = home_named(location, type, &home);

	return result == CUDA_SUCCESS ? give_pool(current_of(&home), pool) : result;
}

CUresult local_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct pool_home home;
	CUresult result = home_named(location, type, &home);

	return result == CUDA_SUCCESS ? set_current(&home, pool) : result;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
	while (n > 0 && bytes[n - 1] == 0)
		n--;
	return n == 0;
}

/* What the driver does not make either, and what it makes and we do not. */
static CUresult check_props(const CUmemPoolProps *props, const struct pool_home *home)
{
	bool is_shareable = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;

	if (home->memory == POOL_MANAGED && (is_shareable || props->maxSize != 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type == CU_MEM_LOCATION_TYPE_HOST && is_shareable)
		return CUDA_ERROR_INVALID_VALUE;
	if (home->memory == POOL_PINNED && is_shareable)
		return refuse("cuMemPoolCreate", "pools of host memory cannot be shared");
	if (props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return refuse(
			"cuMemPoolCreate", "pools can be shared only by POSIX file descriptors");
	return CUDA_SUCCESS;
}

CUresult local_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct pool_home home;
	struct pool *made;
	CUresult result;

	if (!pool || !poolProps || (poolProps->usage & ~CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) ||
		!is_zero(poolProps->reserved, sizeof(poolProps->reserved)))
		return CUDA_ERROR_INVALID_VALUE;
	result = home_find(&poolProps->location, poolProps->allocType, &home);
	if (result == CUDA_SUCCESS)
		result = check_props(poolProps, &home);
	if (result != CUDA_SUCCESS)
		return result;
	made = pool_new(&home, POOL_CREATED);
	if (made) {
		/* A size without a next multiple means no limit. */
		made->size_max = ALIGN_UP(poolProps->maxSize, SIZE_MAX_ALIGN);
		made->is_shareable = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	}
	return give_pool(made, pool);
}

CUresult local_cuMemPoolDestroy(struct pool *found)
{
	struct pool *expected;

	if (found->kind == POOL_IMPORTED)
		return pool_unimport(found);
	expected = found;
	atomic_compare_exchange_strong_explicit(
		&current[found->home], &expected, NULL, memory_order_acq_rel, memory_order_relaxed);
	pool_destroy(found);
	return CUDA_SUCCESS;
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

CUresult local_cuMemPoolGetAttribute(struct pool *found, CUmemPool_attribute attr, void *value)
{
	unsigned at = attr - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
	struct pool_size size;

	if (is_reuse(attr)) {
		memcpy(value, reuse_of(found, attr), sizeof(int));
		return CUDA_SUCCESS;
	}
	pool_get_size(found, &size);
	/* In the order of the attributes. */
	const uint64_t values[] = {
		found->threshold, size.size, size.size_high, size.used, size.used_high};
	if (at >= ARRAY_SIZE(values))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(value, &values[at], sizeof(values[at]));
	return CUDA_SUCCESS;
}

CUresult local_cuMemPoolSetAttribute(struct pool *found, CUmemPool_attribute attr, void *value)
{
	uint64_t size;

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

static bool is_host_location(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Whether a location always has access. */
static bool is_at_home(const struct pool *pool, const CUmemLocation *location)
{
	if (pool->memory == POOL_PINNED)
		return is_host_location(location);
	return pool->memory == POOL_OF_DEVICE && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       location->id == pool->ordinal;
}

/* The device of a location; NULL: the host. */
static CUresult accessor_of(const CUmemLocation *location, struct device **ret_device)
{
	bool is_host = is_host_location(location);

	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE && !is_host)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = is_host ? NULL : device_get(location->id);
	return is_host || *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* No pool knows access for reading only, nor takes access from its own place. */
static CUresult check_flags(const struct pool *pool, const CUmemAccessDesc *access)
{
	bool is_host = is_host_location(&access->location);

	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
		(is_host && pool->memory == POOL_OF_DEVICE))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
		!is_at_home(pool, &access->location))
		return CUDA_SUCCESS;
	return is_host ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

/* The program decides about locations that are not at home, and can have access. */
static CUresult pool_check_access(const struct pool *pool, const CUmemAccessDesc *access)
{
	struct device *device;
	CUresult result = accessor_of(&access->location, &device);

	if (result == CUDA_SUCCESS)
		result = check_flags(pool, access);
	if (result != CUDA_SUCCESS || pool->memory != POOL_OF_DEVICE ||
		access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || device == pool->device)
		return result;
	/* Opening the device makes the server map the program's memory for it too. */
	return device_reaches(device, pool->device) ? device_open(device)
						    : CUDA_ERROR_INVALID_DEVICE;
}

/* Kernels reach pinned and managed memory also without access. */
static void set_access(struct pool *pool, const CUmemAccessDesc *access)
{
	bool is_set = access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	uint64_t bit;

	if (is_host_location(&access->location)) {
		atomic_store_explicit(&pool->is_host_granted, is_set, memory_order_relaxed);
		return;
	}
	bit = 1ull << device_get(access->location.id)->index;
	if (is_set)
		atomic_fetch_or_explicit(&pool->granted, bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&pool->granted, ~bit, memory_order_relaxed);
}

CUresult local_cuMemPoolSetAccess(struct pool *found, const CUmemAccessDesc *map, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = pool_check_access(found, &map[i]);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		set_access(found, &map[i]);
	return result;
}

static bool has_access(
	const struct pool *pool, const CUmemLocation *location, const struct device *device)
{
	if (is_at_home(pool, location))
		return true;
	if (!device)
		return atomic_load_explicit(&pool->is_host_granted, memory_order_relaxed);
	return atomic_load_explicit(&pool->granted, memory_order_relaxed) >> device->index & 1;
}

CUresult local_cuMemPoolGetAccess(
	CUmemAccess_flags *flags, struct pool *found, CUmemLocation *location)
{
	struct device *device;
	CUresult result = accessor_of(location, &device);

	if (result == CUDA_SUCCESS)
		*flags = has_access(found, location, device) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return result;
}

/* A node's device is checked like that of a device's own calls. */
static CUresult home_of_node_params(const CUmemPoolProps *props, struct pool_home *ret_home)
{
	if (props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
		props->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return home_of_device(props->location.id, ret_home);
	return home_find(&props->location, props->allocType, ret_home);
}

CUresult pool_of_graph(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct pool **ret_pool)
{
	const CUmemPoolProps *props = &params->poolProps;
	struct pool_home home;
	CUresult result = home_of_node_params(props, &home);

	if (result != CUDA_SUCCESS)
		return result;
	if (home.memory != POOL_OF_DEVICE)
		return refuse("cuGraphAddMemAllocNode", "graphs allocate only memory of a GPU");
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
		(params->accessDescCount > 0 && !params->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_pool = pool_graph(home.device, home.ordinal);
	if (!*ret_pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < params->accessDescCount && result == CUDA_SUCCESS; i++)
		result = pool_check_access(*ret_pool, &params->accessDescs[i]);
	return result;
}
