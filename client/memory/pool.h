/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POOL_H
#define POOL_H

/*
 * Pools of device memory: blocks that the server gave us, cut here, so that an
 * allocation and its free cost no message where a block has room. What
 * cuMemAlloc() gives comes from a pool as well, a plain one, which the program
 * does not see. Any thread.
 */

#include "client/device/context.h"
#include "heap.h"
#include "client/util/slab.h"
#include "client/stream/stream.h"

#define POOL_REUSES 3
/* Random bytes that name a pool to all processes. */
#define POOL_NAME_BYTES 16

enum pool_kind {
	POOL_PLAIN,   /* of cuMemAlloc() */
	POOL_DEFAULT, /* of a device */
	POOL_CREATED,
	POOL_GRAPH,    /* of what graphs allocate on a device */
	POOL_IMPORTED, /* another process's: a name for it, without memory of ours */
};

struct pool {
	struct slab_head slab;
	enum pool_kind kind;
	struct device *device;
	CUdevice ordinal;
	uint64_t size_max; /* 0: no limit of its own */
	bool is_shareable; /* by a descriptor */
	uint32_t n_opened; /* atomic; of an imported one: what is open of it */
	/* Under the lock of what is shared: */
	uint8_t name[POOL_NAME_BYTES]; /* zero: never exported */
	struct pool *next_imported;
	unsigned n_imports;
	/* Under the pools' lock: */
	struct pool *next; /* of all that have, or may have, memory */
	struct heap heap;
	bool is_destroyed; /* stays until the last piece is back */
	uint64_t used, used_high, size_high;
	uint64_t threshold;
	uint64_t admitted;      /* atomic: a bit for each other device that may touch it */
	int reuse[POOL_REUSES]; /* what the program has set; ours needs no leave */
};

struct pool_size {
	uint64_t size, size_high, used, used_high;
};

/* The pools that each device has. NULL: no memory. */
struct pool *pool_plain(struct device *device, CUdevice ordinal);
struct pool *pool_default(struct device *device, CUdevice ordinal);
struct pool *pool_graph(struct device *device, CUdevice ordinal);

/* NULL: no memory. */
struct pool *pool_new(struct device *device, CUdevice ordinal, enum pool_kind kind);

/* The program has done with a created one; what it has of it stays good. */
void pool_destroy(struct pool *pool);

/* NULL: no such pool. */
struct pool *pool_find(CUmemoryPool handle);

/* Undoes one import, the last one destroys it. CUDA_ERROR_INVALID_VALUE: some of it is open. */
CUresult pool_unimport(struct pool *pool);

/*
 * `size' is not 0. For work that is put on `stream' from now on; NULL: for any.
 * May wait for this process's own work, where nothing else has room.
 */
CUresult pool_alloc(
	struct pool *pool, uint64_t size, struct stream *stream, struct piece **ret_piece);

/* Free when what is on `stream' now is done; NULL: now. */
void pool_free(struct pool *pool, struct piece *piece, struct stream *stream);

/* Free when the stream has come to that seqno; NULL: now. */
void pool_free_at(struct pool *pool, struct piece *piece, struct stream *stream, uint64_t seqno);

/* Gives back what is free until `size_kept' bytes are left; never fewer. */
void pool_trim(struct pool *pool, uint64_t size_kept);

/* After stream_waited(): pools give back what is above their thresholds. */
void pools_reclaim(void);

/* Every pool of a device gives back all that is free. Whether anything was. */
bool pools_trim_device(const struct device *device);

/* The same after what was freed in the order of streams has been waited for. */
bool pools_make_room(const struct device *device);

void pool_get_size(struct pool *pool, struct pool_size *ret_size);
void pool_reset_high(struct pool *pool, bool of_used);
void pool_set_threshold(struct pool *pool, uint64_t threshold);

/* Bytes of a device that cuMemAlloc() can give without asking for more. */
uint64_t pools_kept(const struct device *device);

#endif
