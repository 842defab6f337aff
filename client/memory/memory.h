/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_H
#define MEMORY_H

/*
 * A map of this process's memory that the GPU can access, to find ranges, answer
 * attributes and detect bad frees without messages. Any thread.
 */

#include "client/context/context.h"

struct stream;

enum memory_kind {
	MEMORY_ALLOCATED,  /* cuMemAlloc(): the program frees it */
	MEMORY_POOLED,     /* cuMemAllocAsync(): freed likewise, or in the order of a stream */
	MEMORY_GRAPH,      /* allocated by a graph's node: exists as long as the node */
	MEMORY_VARIABLE,   /* of a library: ends with the library */
	MEMORY_PINNED,     /* cuMemHostAlloc(): host memory with the same address on the GPU */
	MEMORY_MANAGED,    /* cuMemAllocManaged(): pinned memory too */
	MEMORY_MAPPED,     /* cuMemMap(): belongs to no context */
	MEMORY_IPC,        /* cuIpcOpenMemHandle(): another process's memory */
	MEMORY_IMPORTED,   /* cuMemPoolImportPointer(): the same, from a pool */
	MEMORY_REGISTERED, /* cuMemHostRegister(): the program's own memory; only in registered.c */
	MEMORY_ALIAS,      /* the same at the address where the GPU can access it */
};

struct advised;
struct allocation;
struct exchange;
struct piece;
struct pool;

struct memory_range {
	uint64_t address;
	uint64_t size;
	struct context *context; /* in which it was allocated; memory of a pool may outlive it */
	const void *owner; /* it ends with this: a variable's library, a graph's slot; not owned */
	struct pool *pool; /* of allocated and pooled memory, with the piece in it */
	struct piece *piece;
	struct allocation *allocation; /* of a mapping; not owned */
	struct advised *advised;       /* of managed memory */
	struct exchange *exchange;     /* of registered memory whose pages are exchanged */
	uint64_t other; /* of registered memory the alias, and of an alias the registered memory; 0:
			   none */
	enum memory_kind kind;
	unsigned flags;            /* from its allocation, if any */
	bool is_sync;              /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set */
	uint64_t readers, writers; /* of a mapping: one bit per device */
	uint64_t id;               /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique */
};

/* A set with one kind. */
#define MEMORY_KIND(kind) (1u << (kind))

/* A flag of allocated memory: another process may have it open. */
#define MEMORY_EXPORTED 1u

/* Whether it is pinned or managed memory, of a pool or not. */
bool memory_is_pinned(const struct memory_range *range);
bool memory_is_managed(const struct memory_range *range);

/* Whether the program lets any device access it. It decides that for mappings and host pools. */
bool memory_is_admitted(const struct memory_range *range);

/* The device of memory that is no mapping. */
const struct device *memory_device(const struct memory_range *range);

/* A copy of the range that contains `address'; false: none in this map. */
bool memory_find(uint64_t address, struct memory_range *ret_range);

/* Whether [address, address + size) is within one range, or within adjacent mappings. */
bool memory_contains(uint64_t address, uint64_t size);

/*
 * The same for memory that a device can access; mappings and memory of host pools count if
 * the device has been given access.
 */
bool memory_reaches(uint32_t device, uint64_t address, uint64_t size);

/* Like memory_contains(), with a copy of the range of the first byte. */
bool memory_find_whole(uint64_t address, uint64_t size, struct memory_range *ret_range);

/* A page of the host. */
#define MEMORY_PAGE 4096ull

/*
 * Whether whole pages of the host consist of device memory of this process. A page counts if
 * any byte of it was allocated.
 */
bool memory_has_pages(uint64_t address, uint64_t size);

/* Whether any byte of it is in a range. */
bool memory_overlaps(uint64_t address, uint64_t size);

/* Sets MEMORY_EXPORTED; false: no memory of that kind begins there. */
bool memory_set_exported(uint64_t address, enum memory_kind kind);

/* Sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the range that contains `address'. */
void memory_set_sync(uint64_t address, bool is_sync);

/* Sets what a device may do with the mappings in that range. */
void memory_set_access(uint64_t address, uint64_t size, uint32_t device, CUmemAccess_flags flags);

/* Returns it for one mapping, as the driver would. */
CUmemAccess_flags memory_get_access(const struct memory_range *range, uint32_t device);

/* Finds memory of one of the kinds that begins at `address'. */
bool memory_find_start(uint64_t address, unsigned kinds, struct memory_range *ret_range);

/* A copy of the first range that ends above `address'; false: there is none. */
bool memory_next(uint64_t address, struct memory_range *ret_range);

/* Adds a range and gives it an ID. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult memory_add(struct memory_range *range);

/* Adds a library's variable, which stays until memory_end_owner(). */
CUresult memory_add_variable(
	struct context *context, const void *owner, uint64_t address, uint64_t size);

/* A new ID for a range of any kind. */
uint64_t memory_new_id(void);

/* Removes the range of one of the kinds that starts there; false: there is none. */
bool memory_remove(uint64_t address, unsigned kinds, struct memory_range *ret_range);

/*
 * Removes the next range at or above `*at' that ends with the context or, if that is NULL,
 * with the owner; false: there is no other.
 */
bool memory_take(uint64_t *at, const struct context *context, const void *owner,
	struct memory_range *ret_range);

/* memory_calls.c: what follows. */

/*
 * Frees the range of one of the kinds that starts at `address', after the work of
 * its device is done.
 */
CUresult memory_free(uint64_t address, unsigned kinds);

/* Allocates from the pool, and adds the range with that kind to the map. */
CUresult memory_alloc(struct pool *pool, uint64_t size, enum memory_kind kind,
	struct stream *stream, struct memory_range *range);

/* Removes ranges that end with `owner', and frees the managed ones. */
void memory_end_owner(const void *owner);

/* Frees what was allocated in a context that ends, but for memory of pools. */
void memory_end_context(struct context *context);

#endif
