/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adding a node with its edges, which decide the bytes of an allocation. Any thread of
 * the application, under the lock of all graphs.
 *
 * Invariant: an allocation takes bytes that nodes before it free, or new ones from its
 * pool.
 */

#include <string.h>

#include "conditional.h"
#include "graph_memory.h"
#include "client/util/compat.h"
#include "client/memory/memory.h"

/*
 * The greatest number of nodes that a search for free bytes visits: longer searches
 * take too much time.
 */
#define STEPS_MAX 4096u

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

/* Gives an allocation its address, or claims a free. */
static CUresult resolve_memory(struct graph_node *node)
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

CUresult node_add(struct graph *graph, struct node_op *op, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, struct graph_node **ret_node)
{
	struct graph_node *node = NULL;
	CUresult result = node_new(graph, op, &node);

	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct graph_node *on = node_find(dependencies[i]);

		result = on ? node_depend(node, on, data ? &data[i] : NULL)
			    : CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		result = resolve_memory(node);
	if (result != CUDA_SUCCESS) {
		if (node)
			node_free(node);
		return result;
	}
	*ret_node = node;
	return CUDA_SUCCESS;
}
