/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POOL_CALLS_H
#define POOL_CALLS_H

/* The program's view of pools. Any thread. */

#include "pool.h"

/*
 * The pool for cuMemAllocAsync(): the device's default pool, or the one that the
 * program has set. NULL: out of memory.
 */
struct pool *pool_current(struct device *device, CUdevice ordinal);

/* stream_memory.c: allocates in the order of a stream. `pool' NULL: from the current pool. */
CUresult stream_memory_alloc(CUdeviceptr *ptr, size_t size, struct pool *pool, CUstream handle);

/* The pool for the allocation that a graph node describes. */
CUresult pool_of_graph(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct pool **ret_pool);

#endif
