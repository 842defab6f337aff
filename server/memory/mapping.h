/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAPPING_H
#define MAPPING_H

/* Regions, allocations and mappings, for virtual.c, virtual_evict.c and virtual_move.c. */

#include "server/share/host_store.h"
#include "server/stream/fence.h"

struct device;
struct device_quota;
struct pack;
struct session;

struct allocation {
	uint32_t id;
	CUmemGenericAllocationHandle handle;
	uint64_t size;               /* 0: imported, only the driver knows */
	struct device_quota *memory; /* a reference; NULL: imported, its owner pays */
	const struct device *device;
	uint32_t n_mappings;
	bool is_released;     /* by the client: ends with its last mapping */
	bool is_exportable;   /* the client may have a descriptor of it */
	bool is_exported;     /* a descriptor of it may exist longer than the allocation */
	struct stored stored; /* its bytes, if it is away: then it has no handle */
	bool is_away;
	CUmemAllocationProp prop; /* of one that the client has not imported */
	uint32_t number;          /* in a pack */
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

/* At or after window `from'. Whole windows, of `size' bytes at least. */
CUresult region_new(
	struct session *session, uint64_t size, uint32_t from, struct region **ret_region);

/* What the server asks the driver for. `properties': WIRE_ALLOCATION_... */
CUmemAllocationProp allocation_prop(
	const struct device *device, uint32_t properties, bool is_exportable);

/* The same, of what it was asked for or has granted. */
uint32_t allocation_properties(const CUmemAllocationProp *prop);

/* Nothing maps it, and it is in no table. */
void allocation_free(struct allocation *allocation, bool device_lost);

/* Maps its allocation, with the access that it says. On failure nothing is mapped. */
CUresult mapping_fill(const struct mapping *mapping);

/* Functions of virtual_part. (virtual_move.c) */
const char *virtual_stays(const struct session *session);
int virtual_pack(struct session *session, struct pack *pack);
int virtual_check(struct session *session, struct pack *pack);
int virtual_unpack(struct session *session, struct pack *pack);

#endif
