/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that graphs allocate. Any thread of the application, under the lock of all
 * graphs.
 *
 * Invariant: bytes go back to their pool when no node refers to an allocation with
 * these bytes, no such allocation is live, and the streams that used them have
 * finished. So the launches of a graph find the bytes with which it was made.
 */

#include "graph_memory.h"

#include <string.h>

#include "client/memory/memory.h"

struct graph_memory *graph_memories;

static void slot_unref(struct graph_slot *slot)
{
	struct memory_range range;

	if (!slot || --slot->refs > 0)
		return;
	memory_remove(slot->piece->address, MEMORY_KIND(MEMORY_GRAPH), &range);
	pool_free_at(slot->pool, slot->piece, slot->stream, slot->seqno);
	free(slot);
}

CUresult graph_memory_new(struct context *context, struct pool *pool,
	const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct graph_memory **ret_memory)
{
	size_t n = params->accessDescCount;
	struct graph_memory *memory = calloc(1, sizeof(*memory));
	CUmemAccessDesc *access = calloc(n + 1, sizeof(*access));

	if (!memory || !access) {
		free(memory);
		free(access);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n > 0)
		memcpy(access, params->accessDescs, n * sizeof(*access));
	*memory = (struct graph_memory){
		.next = graph_memories,
		.refs = 1,
		.pool = pool,
		.context = context,
		.params = *params,
	};
	memory->params.accessDescs = access;
	if (graph_memories)
		graph_memories->previous = memory;
	graph_memories = memory;
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

struct graph_memory *graph_memory_ref(struct graph_memory *memory)
{
	memory->refs++;
	return memory;
}

void graph_memory_unref(struct graph_memory *memory)
{
	if (!memory || --memory->refs > 0)
		return;
	if (memory->next)
		memory->next->previous = memory->previous;
	if (memory->previous)
		memory->previous->next = memory->next;
	else
		graph_memories = memory->next;
	if (memory->slot && memory->slot->holder == memory)
		memory->slot->holder = NULL;
	slot_unref(memory->slot);
	free((void *)memory->params.accessDescs);
	free(memory);
}

struct graph_memory *graph_memory_find(uint64_t address)
{
	struct memory_range range;

	if (!memory_find_start(address, MEMORY_KIND(MEMORY_GRAPH), &range))
		return NULL;
	return ((const struct graph_slot *)range.owner)->holder;
}

CUresult graph_memory_at(uint64_t address, struct graph_memory **ret_memory)
{
	struct graph_memory *memory = graph_memory_find(address);

	if (!memory)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_memory = graph_memory_ref(memory);
	return CUDA_SUCCESS;
}
