/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

/*
 * Memory that graphs allocate. Its address is fixed when its node is added, so its
 * bytes are taken from a pool then, and belong to the node and its copies. The GPU
 * does nothing at the node; this file decides whether a launch may allocate and who
 * may free. Under the lock of all graphs, except where noted.
 */

#include "graph.h"
#include "client/memory/pool.h"

/* Bytes of the pool. Several allocations of one graph may use them, one after the other. */
struct graph_slot {
	unsigned refs; /* number of allocations */
	struct pool *pool;
	struct piece *piece;
	uint64_t size;
	struct graph_memory
		*holder;       /* the last allocation that used it; NULL: that one has ended */
	struct stream *stream; /* whose work may use it until ... */
	uint64_t seqno;        /* ... this seqno; NULL: no stream */
};

/* One allocation, shared by its node, the nodes that free it, and its live state. */
struct graph_memory {
	struct graph_memory *next, *previous; /* in the list of all */
	unsigned refs;
	struct graph_slot *slot; /* NULL: the node is not in its graph yet */
	struct pool *pool;
	struct context *context;
	uint64_t owner; /* struct graph::unique of the node's graph */
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	bool is_live;            /* a launch has allocated it, and it has not been freed since */
	bool is_freed_by_owner;  /* its own graph has a node that frees it ... */
	bool is_freed_by_others; /* ... or another graph has */
};

/* Creates an allocation without a node; `pool' is on the device in `params'. */
CUresult graph_memory_new(struct context *context, struct pool *pool,
	const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct graph_memory **ret_memory);

/* All allocations. */
extern struct graph_memory *graph_memories;

/* The allocation at an address; NULL: none. */
struct graph_memory *graph_memory_find(uint64_t address);

/* The same with a reference. CUDA_ERROR_INVALID_VALUE: none. */
CUresult graph_memory_at(uint64_t address, struct graph_memory **ret_memory);

struct graph_memory *graph_memory_ref(struct graph_memory *memory);
void graph_memory_unref(struct graph_memory *memory); /* accepts NULL */

static inline uint64_t graph_memory_address(const struct graph_memory *memory)
{
	return memory->slot->piece->address;
}

/* graph_launch.c: what a launch allocates and frees; empty for most graphs. The holder of the lock
 * frees it. */
struct graph_launch {
	struct graph_memory **allocated, **freed; /* owned, but not the allocations */
	uint32_t n_allocated, n_freed;
};

CUresult graph_launch_of(const struct graph *graph, struct graph_launch *ret_launch);
void graph_launch_fini(struct graph_launch *launch);

/*
 * Before a launch: makes the stream wait for the earlier users of the bytes.
 * CUDA_ERROR_INVALID_VALUE: it would allocate live memory, or free memory that is
 * not live.
 */
CUresult graph_launch_check(
	const struct graph_launch *launch, struct stream *stream, bool frees_itself);

/* After a launch; `seqno' will cover it. */
void graph_launch_done(const struct graph_launch *launch, struct stream *stream, uint64_t seqno);

/*
 * For cuMemFree() and cuMemFreeAsync(), without the lock. A NULL stream: all work
 * has ended. CUDA_ERROR_INVALID_VALUE: no such allocation, or its own graph frees
 * it.
 */
CUresult graph_memory_free(uint64_t address, struct stream *stream);

/* Ends live allocations in a context that ends. Takes the lock. */
void graph_memories_end_context(const struct context *context);

#endif
