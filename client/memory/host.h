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

/* memory_calls.c: the same for the program. */
CUresult host_alloc(void **pp, size_t size, unsigned flags);

/* Frees memory of this file that is in no map. No work may use it any more. */
CUresult host_free(uint64_t address);

/*
 * Allocates `size' bytes that are in no map. The device pins them, and pays for managed
 * memory.
 */
CUresult host_block_new(uint32_t device, bool is_managed, uint64_t size, uint64_t *ret_address);

#endif
