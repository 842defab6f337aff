/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_H
#define HOST_H

/*
 * Pinned memory: host memory at the same address as on the GPU. The server chooses
 * addresses and pins pages; this process makes the pages resident, so that they are
 * charged to it. Any thread.
 */

#include "memory.h"

/*
 * Allocates `range->size' bytes for its context, kind and flags; sets its address
 * and adds it to the map.
 */
CUresult host_new(struct memory_range *range);

/* Frees memory of host_new() that is no longer in the map. No work may use it any more. */
CUresult host_free(uint64_t address);

#endif
