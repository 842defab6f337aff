/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOCATION_H
#define ALLOCATION_H

/*
 * Allocations of cuMemCreate(): bytes on a device without an address. A
 * CUmemGenericAllocationHandle is the address of a struct allocation. Any thread.
 */

#include "client/device/context.h"
#include "client/util/slab.h"

struct allocation {
	struct slab_head slab;
	uint32_t device;  /* the server's number of it */
	CUdevice ordinal; /* what the program calls it */
	uint64_t size;    /* 0: imported, only the driver knows */
	CUmemAllocationHandleType types;
	uint32_t compression; /* as the driver has granted it */
	/* Under the allocations' lock: it goes when both are 0. */
	uint32_t n_handles, n_mappings;
};

uint32_t allocation_id(const struct allocation *allocation);

/* NULL: no such handle, or one that the program has given back. */
struct allocation *allocation_find(CUmemGenericAllocationHandle handle);

/* A mapping begins or ends. False: the last handle has just gone. */
bool allocation_ref(struct allocation *allocation);
void allocation_unref(struct allocation *allocation);

/* One handle more. */
CUmemGenericAllocationHandle allocation_retain(struct allocation *allocation);

#endif
