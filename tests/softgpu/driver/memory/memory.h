/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_H
#define MEMORY_H

/*
 * The memory that the software GPU can reach: ranges of this process's address
 * space, sorted and disjoint.
 *
 * A range changes under both the driver's lock and range.c's lock, so either of
 * them is enough to read. A pointer to a range is valid while the driver's lock
 * is held.
 */

#include "tests/softgpu/driver/driver.h"

struct context;
struct allocation;
struct advised;
struct graph_memory;
struct shared_memory;

/* ACCESS_BITS for each device, by its number in the driver. */
#define ACCESS_BITS 2
#define ACCESS_MASK 3U

enum range_kind {
	RANGE_DEVICE,     /* cuMemAlloc */
	RANGE_IPC,        /* cuIpcOpenMemHandle */
	RANGE_MODULE,     /* variables of a module */
	RANGE_MAPPED,     /* cuMemMap */
	RANGE_HOST,       /* cuMemHostAlloc */
	RANGE_REGISTERED, /* cuMemHostRegister */
	RANGE_MANAGED,
};

struct range {
	uint64_t start, end;
	enum range_kind kind;
	bool is_accessible; /* of a mapped range or a host pool: the program has granted access */
	unsigned flags; /* of host memory, as the caller set them; of a mapped range, its access */
	struct device *device;         /* NULL: memory of the host */
	struct context *context;       /* the context that allocated it; NULL: none. Not owned */
	struct allocation *allocation; /* mapped: owns a reference */
	CUmemoryPool pool;             /* stream-ordered: not owned; NULL after its end */
	bool is_pooled;
	bool is_of_host; /* mapped host memory that the program has let the host access */
	struct shared_memory *shared;      /* owned; NULL: no other process has a handle of it */
	struct graph_memory *graph_memory; /* NULL: not allocated by a graph. Not owned */
	struct advised *advised;           /* managed: owned; NULL: no advice */
	uint64_t id;                       /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	size_t charged;                    /* bytes of the device's memory */
	bool is_freeing;                   /* cuMemFreeAsync() is queued */
	bool is_sync;                      /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set */
};

/* range.c */

/* -EEXIST if it touches another range, -ENOMEM. */
int range_add(const struct range *range, struct range **ret_range);
void range_remove(uint64_t start);
void range_set_access(struct range *range, unsigned flags); /* mapped, or of a host pool */
struct range *range_find(uint64_t address);
struct range *range_next(uint64_t address); /* the first range that ends after `address' */
bool range_overlaps(uint64_t start, uint64_t end);

/*
 * Whether the host does not see when it changes: the host cannot read it, and has
 * not requested synchronous calls.
 */
bool range_is_hidden(uint64_t address);

/* Whether it is host memory, pageable or pinned. Managed memory is neither. */
bool host_owns(uint64_t address);

/* Whether other processes can open it. */
bool range_is_shareable(const struct range *range);

bool range_is_managed(uint64_t address);

/* Whether it has a device pointer: memory of a host pool, once a device may access it. */
bool range_is_reached(const struct range *range);

/* Whether it is registered memory of the program. Any thread, without the lock. */
bool range_is_registered(uint64_t address);

/*
 * Whether the device, or for NULL any device, can reach all of [address, address +
 * size): one range, or mapped ranges without a gap. Needs no lock; takes range.c's.
 */
bool range_reaches(uint64_t address, uint64_t size, const struct device *device);

/* ptx_lookup_fn; `user' is the kernel's device. */
bool range_lookup(void *user, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);

/* memory.c */

/* New memory of this process in a separate range; without a context, the first device's. */
CUresult memory_alloc(struct context *context, enum range_kind kind, size_t size, unsigned flags,
	struct range **ret_range);
void memory_free(struct range *range);
/* For streams' threads: takes the driver's lock. */
void memory_free_async(uint64_t address);
/* Frees everything that was allocated in this context, without waiting. */
void memory_free_context(struct context *context);

/* managed.c */
/* For new memory of a pool: its place is the preferred location. */
void managed_prefer(struct range *range, CUmemLocation place);

/* ipc_memory.c */
void shared_memory_free(struct shared_memory *shared);

/* mapping.c */
void allocation_unref(struct allocation *allocation);
bool allocation_is_rdma_capable(const struct allocation *allocation);
unsigned allocation_handle_types(const struct allocation *allocation);
void mapping_unmap(struct range *range);

/* New stack memory has replaced the old, whose addresses are free. */
void mapping_leave_hole(void);

#endif
