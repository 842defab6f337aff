/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_H
#define MEMORY_H

/*
 * A map of this process's own memory that the GPU reaches, so that ranges,
 * attributes and bad frees are answered without asking. Any thread.
 */

#include "client/device/context.h"

struct stream;

enum memory_kind {
	MEMORY_ALLOCATED,  /* cuMemAlloc(): the program frees it */
	MEMORY_POOLED,     /* cuMemAllocAsync(): the same, in the order of a stream if it likes */
	MEMORY_GRAPH,      /* a graph's node allocates it: stays as long as the node */
	MEMORY_VARIABLE,   /* of a library: goes with it */
	MEMORY_PINNED,     /* cuMemHostAlloc(): host memory at one address with the GPU's */
	MEMORY_MANAGED,    /* cuMemAllocManaged(): the same, called otherwise */
	MEMORY_MAPPED,     /* cuMemMap(): of no context */
	MEMORY_IPC,        /* cuIpcOpenMemHandle(): another process's */
	MEMORY_IMPORTED,   /* cuMemPoolImportPointer(): the same, of a pool */
	MEMORY_REGISTERED, /* cuMemHostRegister(): the program's own, in registered.c alone */
	MEMORY_ALIAS,      /* the same, where the GPU reaches it */
};

struct advised;
struct allocation;
struct piece;
struct pool;

struct memory_range {
	uint64_t address;
	uint64_t size;
	struct context *context;
	const void *owner; /* with which it goes: a variable's library, a graph's slot; not owned */
	struct pool *pool; /* of allocated and pooled memory, with its piece of it */
	struct piece *piece;
	struct allocation *allocation; /* of a mapping; not owned */
	struct advised *advised;       /* of managed memory */
	uint64_t other; /* of registered memory its alias, and of that where it is; 0: none */
	enum memory_kind kind;
	unsigned flags;            /* of its making, where it had some */
	bool is_sync;              /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set */
	uint64_t readers, writers; /* of a mapping: a bit for each device */
	uint64_t id;               /* CU_POINTER_ATTRIBUTE_BUFFER_ID: never given twice */
};

/* In the flags of allocated memory: another process may have it open. */
#define MEMORY_EXPORTED 1u

/* A copy of the range that `address' lies in; false: none of ours. */
bool memory_find(uint64_t address, struct memory_range *ret_range);

/* Whether [address, address + size) lies in one range of ours, or in mappings side by side. */
bool memory_contains(uint64_t address, uint64_t size);

/* The same of what a GPU may touch: of what is mapped, where it was given access. */
bool memory_reaches(uint32_t device, uint64_t address, uint64_t size);

/* As memory_contains(), and a copy of the range that the first byte lies in. */
bool memory_find_whole(uint64_t address, uint64_t size, struct memory_range *ret_range);

/* Whether any of it lies in a range of ours. */
bool memory_overlaps(uint64_t address, uint64_t size);

/* Sets MEMORY_EXPORTED; false: no memory of that kind begins there. */
bool memory_set_exported(uint64_t address, enum memory_kind kind);

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the range that `address' lies in. */
void memory_set_sync(uint64_t address, bool is_sync);

/* What a device may do with the mappings that begin there. */
void memory_set_access(uint64_t address, uint64_t size, uint32_t device, CUmemAccess_flags flags);

/* The same of one mapping, as the driver tells it. */
CUmemAccess_flags memory_get_access(const struct memory_range *range, uint32_t device);

/* The same for memory of one of the kinds that begins at `address'. */
bool memory_find_start(uint64_t address, unsigned kinds, struct memory_range *ret_range);

/* Notes a new range, and gives it its id. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult memory_add(struct memory_range *range);

/* For a range of any kind. */
uint64_t memory_new_id(void);

/* Takes out the range of one of the kinds that starts there; false: there is none. */
bool memory_remove(uint64_t address, unsigned kinds, struct memory_range *ret_range);

/* Frees what starts at `address' and is of one of the kinds, when the work of its device is done.
 */
CUresult memory_free(uint64_t address, unsigned kinds);

/* A piece of the pool, noted as memory of that kind. */
CUresult memory_alloc(struct pool *pool, uint64_t size, enum memory_kind kind,
	struct stream *stream, struct memory_range *range);

/* A set of kinds. */
#define MEMORY_KIND(kind) (1u << (kind))

/* Notes a variable of a library; once noted it stays until memory_end_owner(). */
CUresult memory_add_variable(
	struct context *context, const void *owner, uint64_t address, uint64_t size);
void memory_end_owner(const void *owner);

/* Frees what was allocated in a context that ends. */
void memory_end_context(struct context *context);

#endif
