/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POOL_CALLS_H
#define POOL_CALLS_H

/*
 * Pools as the program handles them. Any thread.
 */

#include "pool.h"

/* Of which cuMemAllocAsync() takes: the device's own, or what the program has set. NULL: no memory.
 */
struct pool *pool_current(struct device *device, CUdevice ordinal);

/* Of what a graph's node allocates, as it is described. */
CUresult pool_of_graph(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct pool **ret_pool);

#endif
