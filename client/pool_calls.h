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

#endif
