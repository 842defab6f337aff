/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOCATION_H
#define ALLOCATION_H

/*
 * Allocations of cuMemCreate(): device memory without an address. A
 * CUmemGenericAllocationHandle is the address of a struct allocation. Any thread.
 */

#include "client/util/slab.h"
#include "client/context/context.h"

struct allocation {
	struct slab_head slab;
	uint32_t device;  /* the server's number for it */
	CUdevice ordinal; /* the program's ordinal of it */
	uint64_t size;    /* 0: imported; only the driver knows the size */
	CUmemAllocationHandleType types;
	uint32_t properties; /* WIRE_ALLOCATION_*, as granted by the driver */
	/* Under the lock of allocations: the allocation ends when both are 0. */
	uint32_t n_handles, n_mappings;
};

uint32_t allocation_id(const struct allocation *allocation);

/* NULL: no such handle, or the program has released it. */
struct allocation *allocation_find(CUmemGenericAllocationHandle handle);

/* Counts a mapping. False: the last handle has just been released. */
bool allocation_ref(struct allocation *allocation);
void allocation_unref(struct allocation *allocation);

/* Counts one more handle. */
CUmemGenericAllocationHandle allocation_retain(struct allocation *allocation);

#endif
