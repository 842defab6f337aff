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

#include "conditional.h"
#include "client/util/compat.h"
#include "client/stream/event.h"
#include "client/stream/timeline.h"
#include "client/memory/memory.h"

/*
 * The greatest number of nodes that a search for free bytes visits: longer searches
 * take too much time.
 */
#define STEPS_MAX 4096u

static struct graph_memory *memories;

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
		.next = memories,
		.refs = 1,
		.pool = pool,
		.context = context,
		.params = *params,
	};
	memory->params.accessDescs = access;
	if (memories)
		memories->previous = memory;
	memories = memory;
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
		memories = memory->next;
	if (memory->slot && memory->slot->holder == memory)
		memory->slot->holder = NULL;
	slot_unref(memory->slot);
	free((void *)memory->params.accessDescs);
	free(memory);
}

static struct graph_memory *graph_memory_find(uint64_t address)
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

/* Nodes still to be visited. Zero-initialised it is empty. */
struct walk {
	struct graph_node **list; /* owned */
	size_t n, n_max;
	uint64_t number;
};

/* Adds each node once. Only edges that wait for the whole node count. */
static bool walk_add(struct walk *walk, const struct graph_node *node)
{
	static const CUgraphEdgeData plain;

	for (uint32_t i = 0; i < node->n_before; i++) {
		struct graph_node *before = node->before[i].node;
		struct graph_node **grown;

		if (before->walked == walk->number ||
			memcmp(&node->before[i].data, &plain, sizeof(plain)) != 0)
			continue;
		before->walked = walk->number;
		if (walk->n == walk->n_max) {
			size_t n_max = MAX(2 * walk->n_max, (size_t)16);

			grown = array_resize(walk->list, n_max, sizeof(struct graph_node *));
			if (!grown)
				return false;
			walk->list = grown;
			walk->n_max = n_max;
		}
		walk->list[walk->n++] = before;
	}
	return true;
}

/*
 * Whether a node frees bytes of its own graph that no node has taken since, and
 * that are not much too large.
 */
static bool frees_for(const struct graph_node *before, const struct graph_node *node, uint64_t size)
{
	const struct graph_memory *memory = before->op.memory;

	return before->op.type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
	       memory->owner == node->graph->unique && memory->slot->holder == memory &&
	       memory->pool == node->op.memory->pool && memory->slot->size >= size &&
	       memory->slot->size / 2 <= size;
}

/* Finds bytes that nodes before this one free; NULL: none fit. */
static struct graph_slot *find_freed(const struct graph_node *node, uint64_t size)
{
	static uint64_t last_walk;
	struct walk walk = {.number = ++last_walk};
	struct graph_slot *found = NULL;
	bool has_more = walk_add(&walk, node);

	for (unsigned steps = 0; has_more && !found && walk.n > 0 && steps < STEPS_MAX; steps++) {
		const struct graph_node *before = walk.list[--walk.n];

		if (frees_for(before, node, size))
			found = before->op.memory->slot;
		has_more = walk_add(&walk, before);
	}
	free((void *)walk.list);
	return found;
}

static CUresult slot_new(struct graph_memory *memory, uint64_t size, struct graph_slot **ret_slot)
{
	struct memory_range range = {.context = memory->context};
	struct graph_slot *slot = calloc(1, sizeof(*slot));
	CUresult result;

	if (!slot)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.owner = slot;
	result = device_open(memory->pool->device);
	if (result == CUDA_SUCCESS)
		result = memory_alloc(memory->pool, size, MEMORY_GRAPH, NULL, &range);
	if (result != CUDA_SUCCESS) {
		free(slot);
		return result;
	}
	*slot = (struct graph_slot){.pool = memory->pool, .piece = range.piece, .size = size};
	*ret_slot = slot;
	return CUDA_SUCCESS;
}

static CUresult graph_memory_resolve_alloc(struct graph_node *node)
{
	struct graph_memory *memory = node->op.memory;
	uint64_t size = memory->params.bytesize;
	struct graph_slot *slot = find_freed(node, size);
	CUresult result = CUDA_SUCCESS;

	if (!slot)
		result = slot_new(memory, size, &slot);
	if (result != CUDA_SUCCESS)
		return result;
	slot->refs++;
	slot->holder = memory;
	memory->slot = slot;
	memory->owner = node->graph->unique;
	memory->params.dptr = graph_memory_address(memory);
	return CUDA_SUCCESS;
}

/* Either the graph of the allocation frees it, once, or other graphs do. */
static CUresult graph_memory_resolve_free(const struct graph_node *node)
{
	struct graph_memory *memory = node->op.memory;
	bool is_own = memory->owner == node->graph->unique;

	if (memory->is_freed_by_owner || (is_own && memory->is_freed_by_others))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_own)
		memory->is_freed_by_owner = true;
	else
		memory->is_freed_by_others = true;
	return CUDA_SUCCESS;
}

CUresult node_resolve_memory(struct graph_node *node)
{
	CUresult result = CUDA_SUCCESS;

	if (!node_op_is_memory(&node->op))
		return CUDA_SUCCESS;
	/* No check would see an allocation in a child graph. A graph with one in a body never runs.
	 */
	if (node->graph->parent && !graph_is_in_body(node->graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (node->op.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		result = graph_memory_resolve_alloc(node);
	else
		result = graph_memory_resolve_free(node);
	if (result == CUDA_SUCCESS)
		node->graph->has_memory = true;
	return result;
}

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
	for (struct graph_memory *memory = memories; memory; memory = next) {
		next = memory->next;
		if (memory->context == context)
			set_live(memory, false);
	}
}
