/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs, nodes and edges. Any thread of the application, under the lock of all
 * graphs.
 *
 * Invariant: an edge is in `before' of one node and in `after' of the other,
 * exactly once in each.
 */

#include "graph.h"

#include <string.h>

#include "lock.h"
#include "wire.h"
#include "client/util/compat.h"

static struct slab graphs = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct graph),
	.n_max = WIRE_GRAPHS_MAX * 4,
};

static struct slab nodes = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct graph_node),
	.n_max = WIRE_GRAPH_NODES_MAX * 4,
};

static struct lock lock = LOCK_INIT(GRAPHS);
static uint64_t last_unique;

void graphs_lock(void)
{
	lock_take(&lock);
}

bool graphs_trylock(void)
{
	return lock_try(&lock);
}

void graphs_unlock(const bool *locked)
{
	(void)locked;
	lock_release(&lock);
	user_objects_call_ends();
}

struct graph *graph_find(CUgraph handle)
{
	struct graph *graph = slab_find(&graphs, handle);

	return graph && !graph->is_private ? graph : NULL;
}

struct graph_node *node_find(CUgraphNode handle)
{
	struct graph_node *node = slab_find(&nodes, handle);

	return node && !node->graph->is_private ? node : NULL;
}

CUresult graph_new(struct graph **ret_graph)
{
	struct graph *graph = slab_take(&graphs);

	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->unique = ++last_unique;
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

/* Its edges end with the whole graph. */
static void node_drop(struct graph_node *node)
{
	node_op_fini(&node->op);
	free(node->before);
	free(node->after);
	slab_give(&nodes, node);
}

void graph_free(struct graph *graph)
{
	if (!graph)
		return;
	while (graph->first) {
		struct graph_node *node = LIST_POP(graph->first);

		node_drop(node);
	}
	graph_release_references(graph, false);
	free(graph->conditions);
	slab_give(&graphs, graph);
}

uint32_t node_inner_graphs(const struct graph_node *node, struct graph *const **ret_graphs)
{
	*ret_graphs = NULL;
	if (node->op.type == CU_GRAPH_NODE_TYPE_GRAPH) {
		*ret_graphs = &node->op.child;
		return 1;
	}
	if (node->op.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return 0;
	*ret_graphs = node->op.conditional.bodies;
	return node->op.conditional.n_bodies;
}

static void node_adopt_inner_graphs(struct graph_node *node)
{
	struct graph *const *inner;
	uint32_t n = node_inner_graphs(node, &inner);

	for (uint32_t i = 0; i < n; i++)
		inner[i]->parent = node;
}

CUresult node_new(struct graph *graph, struct node_op *op, struct graph_node **ret_node)
{
	struct graph_node *node = slab_take(&nodes);

	if (!node) {
		node_op_fini(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->unique = ++last_unique;
	node->op = *op;
	node_adopt_inner_graphs(node);
	node->previous = graph->last;
	if (graph->last)
		graph->last->next = node;
	else
		graph->first = node;
	graph->last = node;
	graph->n_nodes++;
	*ret_node = node;
	return CUDA_SUCCESS;
}

CUresult node_set(struct graph_node *node, struct node_op *op)
{
	if (node->op.type != op->type) {
		node_op_fini(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Separate calls set a kernel's attributes. */
	if (op->type == CU_GRAPH_NODE_TYPE_KERNEL)
		node_op_copy_attributes(op, &node->op);
	node_op_fini(&node->op);
	node->op = *op;
	node_adopt_inner_graphs(node);
	return CUDA_SUCCESS;
}

static bool edge_is(
	const struct edge *edge, const struct graph_node *on, const CUgraphEdgeData *data)
{
	return edge->node == on && (!data || !memcmp(&edge->data, data, sizeof(*data)));
}

bool edge_data_ok(
	const struct graph_node *from, CUgraphNodeType to_type, const CUgraphEdgeData *data)
{
	static const unsigned char zeros[sizeof(data->reserved)];

	if (data->to_port || memcmp(data->reserved, zeros, sizeof(zeros)) != 0 ||
		data->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)
		return false;
	if (data->from_port && from->op.type != CU_GRAPH_NODE_TYPE_KERNEL)
		return false;
	if (data->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
		return data->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
	return data->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && data->from_port &&
	       to_type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult node_depend(struct graph_node *node, struct graph_node *on, const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;
	struct edge *before;
	struct graph_node **after;

	data = data ? data : &plain;
	if (node == on || node->graph != on->graph)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < node->n_before; i++)
		if (node->before[i].node == on)
			return CUDA_ERROR_INVALID_VALUE;
	before = array_resize(node->before, node->n_before + 1, sizeof(*before));
	if (!before)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->before = before;
	after = array_resize(on->after, on->n_after + 1, sizeof(struct graph_node *));
	if (!after)
		return CUDA_ERROR_OUT_OF_MEMORY;
	on->after = after;
	before[node->n_before++] = (struct edge){on, *data};
	after[on->n_after++] = node;
	return CUDA_SUCCESS;
}

static void forget_after(struct graph_node *on, const struct graph_node *node)
{
	uint32_t i = 0;

	while (i < on->n_after && on->after[i] != node)
		i++;
	if (i == on->n_after)
		return;
	on->n_after--;
	memmove(&on->after[i], &on->after[i + 1], (on->n_after - i) * sizeof(struct graph_node *));
}

bool node_undepend(
	struct graph_node *node, const struct graph_node *on, const CUgraphEdgeData *data)
{
	for (uint32_t i = 0; i < node->n_before; i++) {
		if (!edge_is(&node->before[i], on, data))
			continue;
		forget_after(node->before[i].node, node);
		node->n_before--;
		memmove(&node->before[i], &node->before[i + 1],
			(node->n_before - i) * sizeof(struct edge));
		return true;
	}
	return false;
}

void node_free(struct graph_node *node)
{
	struct graph *graph = node->graph;

	while (node->n_before > 0)
		node_undepend(node, node->before[0].node, NULL);
	while (node->n_after > 0)
		node_undepend(node->after[0], node, NULL);
	if (node->next)
		node->next->previous = node->previous;
	else
		graph->last = node->previous;
	if (node->previous)
		node->previous->next = node->next;
	else
		graph->first = node->next;
	graph->n_nodes--;
	node_drop(node);
}

/* Finds a clone by its original's number; the table is sorted by these numbers. */
static struct graph_node *find_among(struct graph_node *const *clones, size_t n, uint64_t original)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (clones[middle]->original < original)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && clones[low]->original == original ? clones[low] : NULL;
}

static CUresult clone_nodes(
	const struct graph *graph, struct graph *clone, struct graph_node **clones)
{
	CUresult result = CUDA_SUCCESS;
	size_t n = 0;

	for (const struct graph_node *node = graph->first; node && result == CUDA_SUCCESS;
		node = node->next) {
		struct node_op op;

		result = node_op_dup(&node->op, &op);
		if (result == CUDA_SUCCESS)
			result = node_new(clone, &op, &clones[n]);
		if (result == CUDA_SUCCESS)
			clones[n++]->original = node->unique;
	}
	for (const struct graph_node *node = graph->first; node && result == CUDA_SUCCESS;
		node = node->next) {
		struct graph_node *to = find_among(clones, n, node->unique);

		for (uint32_t i = 0; i < node->n_before && result == CUDA_SUCCESS; i++)
			result =
				node_depend(to, find_among(clones, n, node->before[i].node->unique),
					&node->before[i].data);
	}
	return result;
}

static CUresult copy_conditions(const struct graph *graph, struct graph *clone)
{
	size_t size = graph->n_conditions * sizeof(*graph->conditions);

	if (size == 0)
		return CUDA_SUCCESS;
	clone->conditions = malloc(size);
	if (!clone->conditions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(clone->conditions, graph->conditions, size);
	clone->n_conditions = graph->n_conditions;
	return CUDA_SUCCESS;
}

static CUresult clone_into(const struct graph *graph, struct graph *clone)
{
	struct graph_node **clones = calloc(graph->n_nodes + 1, sizeof(struct graph_node *));
	CUresult result;

	if (!clones)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = clone_nodes(graph, clone, clones);
	free(clones);
	if (result == CUDA_SUCCESS)
		result = copy_conditions(graph, clone);
	return result == CUDA_SUCCESS ? graph_copy_references(graph, clone) : result;
}

CUresult graph_clone(const struct graph *graph, struct graph **ret_clone)
{
	struct graph *clone;
	CUresult result = graph_new(&clone);

	if (result != CUDA_SUCCESS)
		return result;
	clone->is_private = graph->is_private;
	clone->has_memory = graph->has_memory;
	result = clone_into(graph, clone);
	if (result != CUDA_SUCCESS) {
		graph_free(clone);
		return result;
	}
	*ret_clone = clone;
	return CUDA_SUCCESS;
}

void graph_move(struct graph *graph, struct graph_node *to)
{
	graph_free(to->op.child);
	to->op.child = graph;
	graph->parent = to;
	graph->is_moved = true;
	for (struct graph *outer = to->graph; outer && graph->has_memory;
		outer = outer->parent ? outer->parent->graph : NULL)
		outer->has_memory = true;
}

struct graph_node *graph_find_clone(const struct graph *graph, uint64_t original)
{
	struct graph_node *node = graph->first;

	while (node && node->original != original)
		node = node->next;
	return node;
}

/* The first node in the node's inner graphs that follow `after'; NULL: in all of them. */
static struct graph_node *first_within(const struct graph_node *node, const struct graph *after)
{
	struct graph *const *inner;
	uint32_t n = node_inner_graphs(node, &inner), i = 0;

	while (after && i < n && inner[i++] != after)
		;
	while (i < n && !inner[i]->first)
		i++;
	return i < n ? inner[i]->first : NULL;
}

struct graph_node *graph_next(const struct graph *graph, struct graph_node *node)
{
	struct graph_node *next = first_within(node, NULL);

	while (!next && node) {
		const struct graph *inner = node->graph;

		next = node->next;
		node = inner != graph ? inner->parent : NULL;
		if (!next && node)
			next = first_within(node, inner);
	}
	return next;
}

void graph_set_private(struct graph *graph, bool is_private)
{
	graph->is_private = is_private;
	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		node->graph->is_private = is_private;
}
