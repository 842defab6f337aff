/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What launches of a graph allocate and free, and how the program frees it. Any thread of
 * the application, under the lock of all graphs except where the header says otherwise.
 *
 * Invariant: an allocation is live from a launch that allocates it until something frees
 * it. A live allocation exists independently of its nodes.
 */

#include "graph_memory.h"
#include "client/stream/event.h"
#include "client/stream/timeline.h"

void graph_launch_fini(struct graph_launch *launch)
{
	free((void *)launch->allocated);
	free((void *)launch->freed);
	*launch = (struct graph_launch){0};
}

CUresult graph_launch_of(const struct graph *graph, struct graph_launch *ret_launch)
{
	struct graph_launch launch = {0};
	size_t n = 0;

	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		n += node_op_is_memory(&node->op);
	*ret_launch = launch;
	if (n == 0)
		return CUDA_SUCCESS;
	launch.allocated = calloc(n, sizeof(struct graph_memory *));
	launch.freed = calloc(n, sizeof(struct graph_memory *));
	if (!launch.allocated || !launch.freed) {
		graph_launch_fini(&launch);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node)) {
		if (node->op.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			launch.allocated[launch.n_allocated++] = node->op.memory;
		else if (node->op.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			launch.freed[launch.n_freed++] = node->op.memory;
	}
	*ret_launch = launch;
	return CUDA_SUCCESS;
}

static bool launch_allocates(const struct graph_launch *launch, const struct graph_memory *memory)
{
	for (uint32_t i = 0; i < launch->n_allocated; i++)
		if (launch->allocated[i] == memory)
			return true;
	return false;
}

/* Makes later work on the stream wait until the bytes are unused. */
static CUresult slot_await(const struct graph_slot *slot, struct stream *stream)
{
	if (!slot->stream || slot->stream == stream || timeline_reached(slot->stream, slot->seqno))
		return CUDA_SUCCESS;
	if (!stream_is_used(slot->stream))
		return timeline_wait(slot->stream, slot->seqno);
	return event_between(slot->stream, stream);
}

CUresult graph_launch_check(
	const struct graph_launch *launch, struct stream *stream, bool frees_itself)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < launch->n_allocated && !frees_itself; i++)
		if (launch->allocated[i]->is_live)
			return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < launch->n_freed; i++)
		if (!launch->freed[i]->is_live && !launch->freed[i]->is_freed_by_owner &&
			!launch_allocates(launch, launch->freed[i]))
			return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < launch->n_allocated && result == CUDA_SUCCESS; i++)
		result = slot_await(launch->allocated[i]->slot, stream);
	return result;
}

/* A live allocation exists independently of its nodes. */
static void set_live(struct graph_memory *memory, bool is_live)
{
	if (memory->is_live == is_live)
		return;
	memory->is_live = is_live;
	if (is_live)
		graph_memory_ref(memory);
	else
		graph_memory_unref(memory);
}

static void set_used(struct graph_slot *slot, struct stream *stream, uint64_t seqno)
{
	slot->stream = stream;
	slot->seqno = seqno;
}

void graph_launch_done(const struct graph_launch *launch, struct stream *stream, uint64_t seqno)
{
	for (uint32_t i = 0; i < launch->n_allocated; i++) {
		set_used(launch->allocated[i]->slot, stream, seqno);
		set_live(launch->allocated[i], true);
	}
	for (uint32_t i = 0; i < launch->n_freed; i++) {
		set_used(launch->freed[i]->slot, stream, seqno);
		set_live(launch->freed[i], false);
	}
}

CUresult graph_memory_free(uint64_t address, struct stream *stream)
{
	struct graph_memory *memory;
	uint64_t seqno = 0;

	GRAPHS_LOCKED;
	memory = graph_memory_find(address);
	if (!memory || !memory->is_live || memory->is_freed_by_owner)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream)
		timeline_cover(stream, &seqno);
	set_used(memory->slot, stream, seqno);
	set_live(memory, false);
	return CUDA_SUCCESS;
}

void graph_memories_end_context(const struct context *context)
{
	struct graph_memory *next;

	GRAPHS_LOCKED;
	for (struct graph_memory *memory = graph_memories; memory; memory = next) {
		next = memory->next;
		if (memory->context == context)
			set_live(memory, false);
	}
}
