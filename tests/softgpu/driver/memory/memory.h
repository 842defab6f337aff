/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_H
#define MEMORY_H

/*
 * The memory that the software GPU can reach: ranges of this process's address
 * space, sorted and disjoint.
 *
 * Ranges change under the driver's lock and range.c's own, so each of the two
 * is enough to read them. A pointer to a range is good while the driver's lock
 * is held.
 */

#include "tests/softgpu/driver/driver.h"

struct context;
struct allocation;
struct advised;

/* ACCESS_BITS for each device, by its number in the driver. */
#define ACCESS_BITS 2
#define ACCESS_MASK 3U

enum range_kind {
	RANGE_DEVICE,     /* cuMemAlloc */
	RANGE_MODULE,     /* variables of a module */
	RANGE_MAPPED,     /* cuMemMap */
	RANGE_HOST,       /* cuMemHostAlloc */
	RANGE_REGISTERED, /* cuMemHostRegister */
	RANGE_MANAGED,
};

struct range {
	uint64_t start, end;
	enum range_kind kind;
	bool is_accessible;            /* of a mapped one: cuMemSetAccess() gave something */
	unsigned flags;                /* of host memory, as given; of a mapped one, its access */
	struct device *device;         /* NULL: the host's */
	struct context *context;       /* that made it; NULL: none. Not owned */
	struct allocation *allocation; /* mapped: owns a reference */
	CUmemoryPool pool;             /* stream-ordered: not owned */
	struct advised *advised;       /* managed: owned; NULL: nothing was said */
	uint64_t id;                   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	size_t charged;                /* bytes of the device's memory */
	bool is_freeing;               /* cuMemFreeAsync() is on its way */
	bool is_sync;                  /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set */
};

/* range.c */

/* -EEXIST where it touches another, -ENOMEM. */
int range_add(const struct range *range, struct range **ret_range);
void range_remove(uint64_t start);
void range_set_access(struct range *range, unsigned flags); /* of a mapped one */
struct range *range_find(uint64_t address);
struct range *range_next(uint64_t address); /* the first that ends after `address' */
bool range_overlaps(uint64_t start, uint64_t end);

/*
 * Whether it does not matter to the host when it changes: it cannot look there, and
 * has not asked to be waited for all the same.
 */
bool range_is_hidden(uint64_t address);

/* Whether it is host memory, pageable or pinned. Managed memory is not. */
bool host_owns(uint64_t address);

bool range_is_managed(uint64_t address);

/* Whether it is the program's own memory, registered. Any thread, without the lock. */
bool range_is_registered(uint64_t address);

/*
 * Whether the device, or any for NULL, can reach all of [address, address + size):
 * one range, or mapped ones without a gap. Needs no lock, takes range.c's.
 */
bool range_reaches(uint64_t address, uint64_t size, const struct device *device);

/* ptx_lookup_fn; `user' is the kernel's device. */
bool range_lookup(void *user, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);

/* memory.c */

/* Fresh memory of this process in a range of its own; without a context, the first device's. */
CUresult memory_alloc(struct context *context, enum range_kind kind, size_t size, unsigned flags,
	struct range **ret_range);
void memory_free(struct range *range);
/* For streams' threads: takes the driver's lock. */
void memory_free_async(uint64_t address);
/* Everything that was allocated in this context, without waiting. */
void memory_free_context(struct context *context);

/* mapping.c */
void allocation_unref(struct allocation *allocation);
unsigned allocation_handle_types(const struct allocation *allocation);
void mapping_unmap(struct range *range);

/* The memory of kernels' stacks has been replaced: where it was, addresses are free. */
void mapping_leave_hole(void);

#endif
