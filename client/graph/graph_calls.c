/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, copying, traversing and ending graphs. Any thread of the application.
 *
 * Invariant: nothing here asks the server.
 */

#include <string.h>

#include "calls_graph.h"
#include "conditional.h"
#include "node_calls.h"
#include "wire.h"

CUresult local_cuGraphNodeFindInClone(
	CUgraphNode *phNode, struct graph_node *original, struct graph *clone)
{
	struct graph_node *node = graph_find_clone(clone, original->unique);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/*
 * A list for the program. Without a buffer, only counts. With a buffer, fills it as
 * far as possible and clears the rest.
 */
struct listing {
	CUgraphNode *nodes, *others;
	CUgraphEdgeData *data;
	size_t n_max, n;
	bool is_lossy; /* a listed edge has data, and the program did not ask for it */
};

static void list_edge(struct listing *listing, const struct graph_node *node,
	const struct graph_node *other, const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	if (data && listing->nodes && !listing->data && memcmp(data, &plain, sizeof(plain)) != 0)
		listing->is_lossy = true;
	if (listing->nodes && listing->n < listing->n_max) {
		listing->nodes[listing->n] = (CUgraphNode)node;
		if (listing->others)
			listing->others[listing->n] = (CUgraphNode)other;
		if (listing->data && data)
			listing->data[listing->n] = *data;
	}
	listing->n++;
}

static CUresult list_end(const struct listing *listing, size_t *ret_n)
{
	if (listing->is_lossy)
		return CUDA_ERROR_LOSSY_QUERY;
	if (listing->nodes && listing->n_max == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = listing->n; listing->nodes && i < listing->n_max; i++) {
		listing->nodes[i] = NULL;
		if (listing->others)
			listing->others[i] = NULL;
	}
	*ret_n = listing->nodes ? MIN(listing->n, listing->n_max) : listing->n;
	return CUDA_SUCCESS;
}

CUresult graph_list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *n, bool roots_only)
{
	struct listing listing = {.nodes = nodes};
	const struct graph *graph;

	GRAPHS_LOCKED;
	graph = graph_find(handle);
	if (!graph || !n)
		return CUDA_ERROR_INVALID_VALUE;
	listing.n_max = *n;
	for (const struct graph_node *node = graph->first; node; node = node->next)
		if (!roots_only || node->n_before == 0)
			list_edge(&listing, node, NULL, NULL);
	return list_end(&listing, n);
}

/* The data of the edge between two nodes. */
static const CUgraphEdgeData *edge_to(const struct graph_node *from, const struct graph_node *to)
{
	uint32_t i = 0;

	while (to->before[i].node != from)
		i++;
	return &to->before[i].data;
}

/* In the order of the nodes from which they come, like the driver. */
CUresult local_cuGraphGetEdges_v2(struct graph *graph, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct listing listing = {.nodes = from, .others = to, .data = edgeData};

	listing.n_max = *numEdges;
	for (const struct graph_node *node = graph->first; node; node = node->next)
		for (uint32_t i = 0; i < node->n_after; i++)
			list_edge(&listing, node, node->after[i], edge_to(node, node->after[i]));
	return list_end(&listing, numEdges);
}

CUresult local_cuGraphNodeGetDependencies_v2(struct graph_node *node, CUgraphNode *dependencies,
	CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	struct listing listing = {.nodes = dependencies, .data = edgeData};

	listing.n_max = *numDependencies;
	for (uint32_t i = 0; i < node->n_before; i++)
		list_edge(&listing, node->before[i].node, NULL, &node->before[i].data);
	return list_end(&listing, numDependencies);
}

CUresult local_cuGraphNodeGetDependentNodes_v2(struct graph_node *node, CUgraphNode *dependentNodes,
	CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	struct listing listing = {.nodes = dependentNodes, .data = edgeData};

	listing.n_max = *numDependentNodes;
	for (uint32_t i = 0; i < node->n_after; i++)
		list_edge(&listing, node->after[i], NULL, edge_to(node, node->after[i]));
	return list_end(&listing, numDependentNodes);
}

static bool edges_are_of(
	const struct graph *graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	if (!graph || (n > 0 && (!from || !to)))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct graph_node *one = node_find(from[i]), *other = node_find(to[i]);

		if (!one || !other || one->graph != graph || other->graph != graph)
			return false;
	}
	return true;
}

CUresult local_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	CUresult result = CUDA_SUCCESS;

	GRAPHS_LOCKED;
	if (!edges_are_of(graph_find(hGraph), from, to, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies && result == CUDA_SUCCESS; i++) {
		struct graph_node *on = (struct graph_node *)from[i];
		struct graph_node *node = (struct graph_node *)to[i];
		const CUgraphEdgeData *data = edgeData ? &edgeData[i] : NULL;

		result = data && !edge_data_ok(on, node->op.type, data)
				 ? CUDA_ERROR_INVALID_VALUE
				 : node_depend(node, on, data);
	}
	return result;
}

CUresult local_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	bool are_there = true;

	GRAPHS_LOCKED;
	if (!edges_are_of(graph_find(hGraph), from, to, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_find(hGraph)->has_memory)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < numDependencies; i++)
		are_there = node_undepend((struct graph_node *)to[i],
				    (const struct graph_node *)from[i],
				    edgeData ? &edgeData[i] : NULL) &&
			    are_there;
	return are_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
