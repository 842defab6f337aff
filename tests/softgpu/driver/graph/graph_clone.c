/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of graphs, with the graphs of their child nodes.
 *
 * Runs in any thread, under the driver's lock. A node of a copy knows the node that it was made
 * of, which may end before it: the pointer is only compared.
 */

#include "conditional.h"
#include "graph.h"
#include "graph_memory.h"

static struct node *clone_of(const struct graph *clone, const struct node *original)
{
	for (struct node *node = clone->nodes; node; node = node->next)
		if (node->original == original)
			return node;
	return NULL;
}

/* The child of a clone's node: it is filled after the graphs that wait before it. */
static CUresult clone_child(struct graph *clone, struct node *node, struct graph *original)
{
	node->child = graph_new();
	if (!node->child)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->child->is_child = true;
	node->child->original = original;
	node->child->pending = clone->pending;
	clone->pending = node->child;
	return CUDA_SUCCESS;
}

/* The clone's node has the dependencies of its original, as clones. */
static CUresult clone_node(struct graph *clone, const struct node *original)
{
	struct work work;
	struct node *node, *on;
	CUresult result = work_dup(&original->work, &work);

	if (result == CUDA_SUCCESS)
		result = node_new(clone, NULL, 0, original->type, &work, &node);
	if (result != CUDA_SUCCESS)
		return result;
	node->original = original;
	if (original->child)
		result = clone_child(clone, node, original->child);
	for (size_t i = 0; i < original->n_dependencies && result == CUDA_SUCCESS; i++) {
		on = clone_of(clone, original->dependencies[i]);
		result = on ? node_depend(node, &on, &original->edge_data[i], 1)
			    : CUDA_ERROR_INVALID_VALUE;
	}
	return result;
}

static CUresult clone_nodes(struct graph *clone, struct graph *original)
{
	struct node **nodes = calloc(original->n_nodes + 1, sizeof(struct node *));
	CUresult result = CUDA_SUCCESS;

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!graph_order(original, nodes))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < original->n_nodes && result == CUDA_SUCCESS; i++)
		result = clone_node(clone, nodes[i]);
	free(nodes);
	return result;
}

CUresult graph_clone(struct graph *original, struct graph **ret_clone)
{
	struct graph *clone = graph_new(), *next;
	CUresult result = CUDA_SUCCESS;

	if (!clone)
		return CUDA_ERROR_OUT_OF_MEMORY;
	clone->original = original;
	for (struct graph *at = clone; at; at = next) {
		if (result == CUDA_SUCCESS)
			result = clone_nodes(at, at->original);
		if (result == CUDA_SUCCESS)
			result = user_refs_copy(at->original->user_refs, &at->user_refs);
		next = at->pending;
		at->pending = NULL;
	}
	if (result != CUDA_SUCCESS) {
		graph_unref(clone);
		return result;
	}
	*ret_clone = clone;
	return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct graph *original, *clone;
	CUresult result;

	ENTER(CALL_INIT);
	original = object_find(OBJECT_GRAPH, originalGraph);
	if (!phGraphClone || !original)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_has_memory(original) || graph_is_conditional(original))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = graph_clone(original, &clone);
	if (result == CUDA_SUCCESS)
		*phGraphClone = (CUgraph)clone;
	return result;
}

CUresult cuGraphNodeFindInClone(
	CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	const struct graph *clone;
	struct node *node;

	ENTER(CALL_INIT);
	clone = object_find(OBJECT_GRAPH, hClonedGraph);
	if (!phNode || !clone || !object_find(OBJECT_NODE, hOriginalNode))
		return CUDA_ERROR_INVALID_VALUE;
	node = clone_of(clone, (const struct node *)hOriginalNode);
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}
