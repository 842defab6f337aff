/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POOL_H
#define POOL_H

/*
 * Pools of device memory, of pinned memory and of managed memory. A pool gets blocks
 * from the server and divides them here, so that allocations and frees need no
 * messages while a block has space. The memory of cuMemAlloc() comes from a plain
 * pool that the program does not see. Any thread.
 */

#include "heap.h"
#include "client/util/slab.h"
#include "client/context/context.h"
#include "client/stream/stream.h"

#define POOL_REUSES 3
/* Random bytes that identify a pool in all processes. */
#define POOL_NAME_BYTES 16

enum pool_kind {
	POOL_PLAIN,   /* for cuMemAlloc() */
	POOL_DEFAULT, /* the default pool of a home */
	POOL_CREATED,
	POOL_GRAPH,    /* for graphs' allocations on a device */
	POOL_IMPORTED, /* imported from another process: a name without memory of this process */
};

enum pool_memory {
	POOL_OF_DEVICE,
	POOL_PINNED,
	POOL_MANAGED,
};

/* NUMA nodes that pools can name. */
#define POOL_NODES 64
#define POOL_HOMES (2u * (DEVICES_MAX + 2u + POOL_NODES))

/* Where a program wants a pool's memory. Each home has a default pool and a current one. */
struct pool_home {
	unsigned number; /* unique, below POOL_HOMES */
	enum pool_memory memory;
	struct device *device; /* NULL: host memory, or managed memory that prefers no device */
	CUdevice ordinal;
	CUmemLocation preferred; /* of managed memory */
};

struct pool {
	struct slab_head slab;
	enum pool_kind kind;
	enum pool_memory memory;
	unsigned home;
	struct device *device; /* NULL: none */
	CUdevice ordinal;
	CUmemLocation preferred;
	uint64_t size_max;         /* 0: unlimited */
	bool is_shareable;         /* as a descriptor */
	_Atomic uint32_t n_opened; /* for an imported pool: its open memory */
	/* Under the lock of what is shared: */
	uint8_t name[POOL_NAME_BYTES]; /* zero: never exported */
	struct pool *next_imported;
	unsigned n_imports;
	/* Under the pools' lock: */
	struct pool *next; /* of all pools that may have memory */
	struct heap heap;
	atomic_bool is_destroyed; /* exists until the last piece is freed */
	uint64_t used, used_high, size_high;
	uint64_t threshold;
	/* To whom the program has given access: one bit per device, and the host. */
	_Atomic uint64_t granted;
	atomic_bool is_host_granted;
	int reuse[POOL_REUSES]; /* the program's settings; pools here reuse memory regardless */
};

struct pool_size {
	uint64_t size, size_high, used, used_high;
};

/* The home of pools of a device's memory. */
struct pool_home pool_home_of(struct device *device, CUdevice ordinal);

/* The pools that each device has. NULL: out of memory. */
struct pool *pool_plain(struct device *device, CUdevice ordinal);
struct pool *pool_graph(struct device *device, CUdevice ordinal);

/* NULL: out of memory. */
struct pool *pool_default(const struct pool_home *home);
struct pool *pool_new(const struct pool_home *home, enum pool_kind kind);

/* The program has destroyed a pool of its own; its allocations stay valid. */
void pool_destroy(struct pool *pool);

/* NULL: no such pool. */
struct pool *pool_find(CUmemoryPool handle);
/* NULL also for a pool of another process. */
struct pool *pool_find_own(CUmemoryPool handle);

/*
 * Undoes one import; undoing the last one destroys the pool.
 * CUDA_ERROR_INVALID_VALUE: memory of it is still open.
 */
CUresult pool_unimport(struct pool *pool);

/*
 * Allocates `size' bytes, not 0, for later work on `stream'; NULL: for any work.
 * If no memory is free, later work on `stream' may wait for another stream that frees
 * some, or the caller for this process's own work.
 */
CUresult pool_alloc(
	struct pool *pool, uint64_t size, struct stream *stream, struct piece **ret_piece);

/* Frees after the current work on `stream' is done; NULL: now. */
void pool_free(struct pool *pool, struct piece *piece, struct stream *stream);

/* Frees when the stream has reached that seqno; NULL: now. */
void pool_free_at(struct pool *pool, struct piece *piece, struct stream *stream, uint64_t seqno);

/* Releases free blocks until `size_kept' bytes are left, never more. */
void pool_trim(struct pool *pool, uint64_t size_kept);

/* Called by stream_waited(): pools release memory above their thresholds. */
void pools_reclaim(void);

/*
 * The same for pools that keep nothing. Does not wait for the lock. Whether more of their
 * memory waits for streams.
 */
bool pools_free_ended(void);

/* Releases all free memory of a device's pools. Returns whether there was any. */
bool pools_trim_device(const struct device *device);

/* The same after a wait for memory that was freed in the order of streams. */
bool pools_make_space(const struct device *device);

void pool_get_size(struct pool *pool, struct pool_size *ret_size);
void pool_reset_high(struct pool *pool, bool of_used);
void pool_set_threshold(struct pool *pool, uint64_t threshold);

/* Bytes that cuMemAlloc() can get on a device without a message. */
uint64_t pools_kept(const struct device *device);

#endif
