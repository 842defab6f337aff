/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How much memory graphs keep, and trimming it. Any thread of the application.
 *
 * Invariant: memory of executable graphs that have ended is released before
 * anything is counted.
 */

#include <string.h>

#include "calls_graph.h"
#include "exec.h"
#include "client/memory/pool.h"

CUresult local_cuDeviceGraphMemTrim(CUdevice device)
{
	struct device *found;
	struct pool *pool;
	CUresult result = device_enter(device, &found);

	if (result != CUDA_SUCCESS)
		return result;
	pool = pool_graph(found, device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	execs_free_closed();
	pool_trim(pool, 0);
	return CUDA_SUCCESS;
}

static CUresult enter_graph_attribute(CUdevice device, const void *value, struct pool **ret_pool)
{
	struct device *found;
	CUresult result = device_enter(device, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_pool = pool_graph(found, device);
	return *ret_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult local_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	struct pool_size size;
	struct pool *pool;
	CUresult result = enter_graph_attribute(device, value, &pool);

	if (result != CUDA_SUCCESS)
		return result;
	execs_free_closed();
	pool_get_size(pool, &size);
	/* In the order of the attributes. */
	const uint64_t values[] = {size.used, size.used_high, size.size, size.size_high};
	if ((unsigned)attr >= ARRAY_SIZE(values))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(value, &values[attr], sizeof(values[attr]));
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	struct pool *pool;
	uint64_t size;
	CUresult result = enter_graph_attribute(device, value, &pool);

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&size, value, sizeof(size));
	if (size != 0 || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
				 attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	pool_reset_high(pool, attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
	return CUDA_SUCCESS;
}
