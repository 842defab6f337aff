/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAPPING_H
#define MAPPING_H

/* Regions, allocations and mappings, for virtual.c and virtual_evict.c. */

#include "server/share/host_store.h"
#include "server/stream/fence.h"

struct device;
struct device_quota;

struct allocation {
	uint32_t id;
	CUmemGenericAllocationHandle handle;
	uint64_t size;               /* 0: imported, only the driver knows */
	struct device_quota *memory; /* a reference; NULL: imported, its owner pays */
	const struct device *device;
	uint32_t n_mappings;
	bool is_released;     /* by the client: ends with its last mapping */
	bool is_exported;     /* a descriptor of it may exist longer than the allocation */
	struct stored stored; /* its bytes, if it is away: then it has no handle */
	bool is_away;
	CUmemAllocationProp prop; /* of one that the client has not imported */
};

struct mapping {
	uint64_t address, size;
	struct allocation *allocation;
	uint64_t readers; /* GPUs with access, one bit per ordinal */
	uint64_t writers; /* of these, not for reading only */
	bool is_closing;
	struct fence fence; /* for one that is closing */
};

struct region {
	struct region *next;
	uint64_t base, size;
	uint32_t va_window, n_va_windows; /* the first one; how many */
	struct mapping *mappings;
	uint32_t n, n_max;
};

/* The first mapping that ends after `address'. */
uint32_t mapping_at(const struct region *region, uint64_t address);

#endif
