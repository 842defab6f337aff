/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

/*
 * Memory that graphs allocate. Its address is fixed when the node of the
 * allocation is added, so the bytes are taken from a pool then, and stay with
 * the node and whatever is made of it. What the GPU does at the node is
 * nothing; whether a launch may allocate, and who may free, is judged here.
 * Under the lock of all graphs, but for what says otherwise.
 */

#include "graph.h"
#include "client/memory/pool.h"

/* Bytes of the pool. In one graph several allocations may have them, one after the other. */
struct graph_slot {
	unsigned refs; /* of allocations */
	struct pool *pool;
	struct piece *piece;
	uint64_t size;
	struct graph_memory *holder; /* the last allocation to have it; NULL: that one has gone */
	struct stream *stream;       /* whose work may be using it up to ... */
	uint64_t seqno;              /* ... here; NULL: nobody's */
};

/* One allocation: what its node, nodes that free it, and its being there have in common. */
struct graph_memory {
	struct graph_memory *next, *previous; /* of all */
	unsigned refs;
	struct graph_slot *slot; /* NULL: the node is not in its graph yet */
	struct pool *pool;
	struct context *context;
	uint64_t owner; /* struct graph::unique of the node's graph */
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	bool is_live;            /* a launch has allocated it, and nobody has freed it since */
	bool is_freed_by_owner;  /* its own graph has a node that frees it ... */
	bool is_freed_by_others; /* ... or another has */
};

/* An allocation that no node has yet; `pool' is of the device that `params' name. */
CUresult graph_memory_new(struct context *context, struct pool *pool,
	const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct graph_memory **ret_memory);

/* The allocation that has an address now, with a reference. CUDA_ERROR_INVALID_VALUE: none. */
CUresult graph_memory_at(uint64_t address, struct graph_memory **ret_memory);

struct graph_memory *graph_memory_ref(struct graph_memory *memory);
void graph_memory_unref(struct graph_memory *memory); /* NULL is fine */

static inline uint64_t graph_memory_address(const struct graph_memory *memory)
{
	return memory->slot->piece->address;
}

/* Gives an allocation its address, or claims a free, once the node has its edges. */
CUresult node_resolve_memory(struct graph_node *node);

/* Any node's, of any type: nothing for most. To be freed by the caller of the lock. */
struct graph_launch {
	struct graph_memory **allocated, **freed; /* owned; not the allocations */
	uint32_t n_allocated, n_freed;
};

CUresult graph_launch_of(const struct graph *graph, struct graph_launch *ret_launch);
void graph_launch_fini(struct graph_launch *launch);

/*
 * Before a launch: CUDA_ERROR_INVALID_VALUE if it would allocate what is there,
 * or free what is not. Has the stream wait for those that used the bytes before.
 */
CUresult graph_launch_check(
	const struct graph_launch *launch, struct stream *stream, bool frees_itself);

/* After it; `seqno' will cover it. */
void graph_launch_done(const struct graph_launch *launch, struct stream *stream, uint64_t seqno);

/*
 * For cuMemFree() and cuMemFreeAsync(), with the lock not held; NULL as a
 * stream: all work has ended. CUDA_ERROR_INVALID_VALUE: it is not there, or its
 * own graph frees it.
 */
CUresult graph_memory_free(uint64_t address, struct stream *stream);

/* What is allocated in a context that goes is so no more. Takes the lock. */
void graph_memories_end_context(const struct context *context);

#endif
