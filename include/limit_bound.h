/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_BOUND_H
#define LIMIT_BOUND_H

/*
 * The values to which a client may raise the limits that all clients of a GPU share.
 */

#include "bounds.h"
#include "cuda_api.h"

/* In bytes; UINT64_MAX: the driver bounds it, as for the stack of a thread. */
static inline uint64_t limit_bound(CUlimit limit)
{
	return limit == CU_LIMIT_MALLOC_HEAP_SIZE   ? DEVICE_HEAP_MAX
	       : limit == CU_LIMIT_PRINTF_FIFO_SIZE ? PRINTF_BUFFER_MAX
						    : UINT64_MAX;
}

#endif
