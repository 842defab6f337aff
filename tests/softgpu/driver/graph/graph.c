/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs and their edges.
 *
 * Runs in any thread, under the driver's lock. A node depends only on nodes of
 * its own graph.
 */

#include "graph.h"

#include <string.h>

#include "conditional.h"
#include "graph_memory.h"

static uint64_t last_mark;

struct graph *graph_new(void)
{
	struct graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->refs = 1;
	graph->id = ++driver.last_id;
	graph->tail = &graph->nodes;
	object_add(&graph->object, OBJECT_GRAPH);
	stat_add(STAT_GRAPHS, 1);
	return graph;
}

static void node_free(struct node *node)
{
	object_remove(&node->object);
	work_fini(&node->work);
	free(node->dependencies);
	free(node->edge_data);
	free(node->param_pointers);
	free(node->bodies);
	free(node);
}

/* Drops a reference; the last one puts the graph on the list `pending', which is returned. */
static struct graph *graph_pend(struct graph *graph, struct graph *pending)
{
	if (!graph || --graph->refs > 0)
		return pending;
	graph->pending = pending;
	return graph;
}

/* Child graphs and bodies without references are freed by a list, not by recursion. */
void graph_unref(struct graph *graph)
{
	struct graph *pending = graph_pend(graph, NULL);

	while (pending) {
		graph = pending;
		pending = graph->pending;
		object_remove(&graph->object);
		stat_add(STAT_GRAPHS, -1);
		while (graph->nodes) {
			struct node *node = graph->nodes;

			graph->nodes = node->next;
			pending = graph_pend(node->child, pending);
			for (size_t i = 0; i < node->n_bodies; i++)
				pending = graph_pend(node->bodies[i], pending);
			node_free(node);
		}
		user_refs_drop(&graph->user_refs, false);
		free(graph->conditions);
		free(graph);
	}
}

CUgraphNodeType node_type_of(const struct work *work)
{
	switch (work->kind) {
	case WORK_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case WORK_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case WORK_FILL:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case WORK_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	case WORK_MEMOPS:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	case WORK_WAIT_EVENT:
		return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	case WORK_RECORD_EVENT:
		return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	case WORK_GRAPH_ALLOC:
		return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	case WORK_GRAPH_FREE:
		return CU_GRAPH_NODE_TYPE_MEM_FREE;
	case WORK_CONDITIONAL:
		return CU_GRAPH_NODE_TYPE_CONDITIONAL;
	default:
		return CU_GRAPH_NODE_TYPE_EMPTY;
	}
}

/* Two nodes have one edge. */
static bool depends_on(const struct node *node, const struct node *on)
{
	for (size_t i = 0; i < node->n_dependencies; i++)
		if (node->dependencies[i] == on)
			return true;
	return false;
}

CUresult node_depend(
	struct node *node, struct node *const *on, const CUgraphEdgeData *data, size_t n)
{
	CUgraphEdgeData *grown_data;
	struct node **grown;

	if (n == 0)
		return CUDA_SUCCESS;
	for (size_t i = 0; i < n; i++)
		if (on[i]->graph != node->graph || on[i] == node || depends_on(node, on[i]))
			return CUDA_ERROR_INVALID_VALUE;
	grown = realloc(node->dependencies, (node->n_dependencies + n) * sizeof(struct node *));
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->dependencies = grown;
	grown_data = realloc(node->edge_data, (node->n_dependencies + n) * sizeof(*grown_data));
	if (!grown_data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->edge_data = grown_data;
	memcpy(&grown[node->n_dependencies], on, n * sizeof(struct node *));
	for (size_t i = 0; i < n; i++)
		grown_data[node->n_dependencies + i] = data ? data[i] : (CUgraphEdgeData){0};
	node->n_dependencies += n;
	return CUDA_SUCCESS;
}

bool edge_data_ok(const struct node *from, const struct node *to, const CUgraphEdgeData *data)
{
	static const unsigned char zeros[sizeof(data->reserved)];

	if (data->to_port || memcmp(data->reserved, zeros, sizeof(zeros)) != 0 ||
		data->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
		(data->from_port && from->type != CU_GRAPH_NODE_TYPE_KERNEL))
		return false;
	if (data->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
		return data->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
	return data->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && data->from_port &&
	       (!to || to->type == CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult node_new(struct graph *graph, struct node *const *dependencies, size_t n,
	CUgraphNodeType type, struct work *work, struct node **ret_node)
{
	struct node *node = calloc(1, sizeof(*node));
	CUresult result;

	if (!node) {
		work_fini(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->type = type;
	node->work = *work;
	result = node_depend(node, dependencies, NULL, n);
	if (result == CUDA_SUCCESS)
		result = graph_memory_claim(graph, work);
	if (result != CUDA_SUCCESS) {
		node_free(node);
		return result;
	}
	*graph->tail = node;
	graph->tail = &node->next;
	graph->n_nodes++;
	object_add(&node->object, OBJECT_NODE);
	*ret_node = node;
	return CUDA_SUCCESS;
}

static bool node_is_free(const struct node *node, uint64_t mark)
{
	for (size_t i = 0; i < node->n_dependencies; i++)
		if (node->dependencies[i]->mark != mark)
			return false;
	return node->mark != mark;
}

bool graph_order(struct graph *graph, struct node **out)
{
	uint64_t mark = ++last_mark;
	size_t n = 0, before = SIZE_MAX;

	while (n != before) {
		before = n;
		for (struct node *node = graph->nodes; node; node = node->next) {
			if (!node_is_free(node, mark))
				continue;
			node->mark = mark;
			out[n++] = node;
		}
	}
	return n == graph->n_nodes;
}

CUresult graph_sort(struct graph *graph, struct node ***ret_nodes, size_t *ret_n)
{
	_cleanup_free_ struct node **nodes = calloc(graph->n_nodes + 1, sizeof(struct node *));
	size_t n = graph->n_nodes;
	struct node **grown;

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!graph_order(graph, nodes))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its attribute frees it */
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		struct graph *child = nodes[i]->child;

		if (!child)
			continue;
		/* The child's nodes replace its node, and are visited next. */
		grown = realloc(nodes, (n + child->n_nodes + 1) * sizeof(struct node *));
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		nodes = grown;
		memmove(&nodes[i + child->n_nodes], &nodes[i + 1],
			(n - i - 1) * sizeof(struct node *));
		if (!graph_order(child, &nodes[i]))
			return CUDA_ERROR_INVALID_VALUE;
		n += child->n_nodes - 1;
		i--;
	}
	*ret_n = n;
	*ret_nodes = TAKE_PTR(nodes);
	return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct graph *graph;

	ENTER(CALL_INIT);
	if (!phGraph || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	graph = graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = (CUgraph)graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	struct graph *graph;

	ENTER(CALL_INIT);
	graph = object_find(OBJECT_GRAPH, hGraph);
	if (!graph || graph->is_child)
		return CUDA_ERROR_INVALID_VALUE;
	graph_unref(graph);
	return CUDA_SUCCESS;
}

/* The child is a copy, or the graph itself if it is moved. */
static CUresult child_add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, CUgraph child_handle, bool is_moved)
{
	struct work work = {.kind = WORK_NONE};
	struct graph *graph = object_find(OBJECT_GRAPH, handle);
	struct graph *child = object_find(OBJECT_GRAPH, child_handle);
	struct node *node;
	CUresult result = CUDA_SUCCESS;

	if (!ret_node || !graph || !child || graph == child || (is_moved && child->is_child))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		if (!dependencies || !object_find(OBJECT_NODE, dependencies[i]))
			return CUDA_ERROR_INVALID_VALUE;
	if (graph_is_conditional(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_moved)
		result = graph_has_memory(child) ? CUDA_ERROR_NOT_SUPPORTED
						 : graph_clone(child, &child);
	if (result != CUDA_SUCCESS)
		return result;
	result = node_new(graph, (struct node *const *)dependencies, n, CU_GRAPH_NODE_TYPE_GRAPH,
		&work, &node);
	if (result != CUDA_SUCCESS) {
		if (!is_moved)
			graph_unref(child);
		return result;
	}
	child->is_child = true;
	child->is_moved = is_moved;
	node->child = child;
	*ret_node = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	ENTER(CALL_INIT);
	return child_add(phGraphNode, hGraph, dependencies, numDependencies, childGraph, false);
}

CUresult graph_add_child(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
	size_t n, const CUDA_CHILD_GRAPH_NODE_PARAMS *params)
{
	return child_add(ret_node, graph, dependencies, n, params->graph,
		params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = object_find(OBJECT_NODE, hNode);
	if (!phGraph || !node || !node->child)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)node->child;
	return CUDA_SUCCESS;
}

/* `data' NULL: an edge of any data. False: there is none. */
static bool node_forget(struct node *node, const struct node *on, const CUgraphEdgeData *data)
{
	size_t n_before = node->n_dependencies, n = 0;

	for (size_t i = 0; i < node->n_dependencies; i++) {
		if (node->dependencies[i] == on &&
			(!data || !memcmp(&node->edge_data[i], data, sizeof(*data))))
			continue;
		node->edge_data[n] = node->edge_data[i];
		node->dependencies[n++] = node->dependencies[i];
	}
	node->n_dependencies = n;
	return n < n_before;
}

void node_destroy(struct node *node)
{
	struct graph *graph = node->graph;
	struct node **link = &graph->nodes;

	for (struct node *other = graph->nodes; other; other = other->next)
		node_forget(other, node, NULL);
	while (*link && *link != node)
		link = &(*link)->next;
	*link = node->next;
	if (!*link)
		graph->tail = link;
	graph->n_nodes--;
	graph_unref(node->child);
	conditional_release(node);
	node_free(node);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	struct node *node;

	ENTER(CALL_INIT);
	node = object_find(OBJECT_NODE, hNode);
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_has_memory(node->graph))
		return CUDA_ERROR_NOT_SUPPORTED;
	node_destroy(node);
	return CUDA_SUCCESS;
}

/* ---- edges */

static CUresult edges_change(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *data, size_t n, bool is_added)
{
	CUresult result = CUDA_SUCCESS;

	if (!object_find(OBJECT_GRAPH, handle) || (n > 0 && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		if (!object_find(OBJECT_NODE, from[i]) || !object_find(OBJECT_NODE, to[i]))
			return CUDA_ERROR_INVALID_VALUE;
	if (!is_added && graph_has_memory((struct graph *)handle))
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct node *on = (struct node *)from[i];
		const CUgraphEdgeData *one = data ? &data[i] : NULL;

		struct node *node = (struct node *)to[i];

		if (!is_added)
			result = node_forget(node, on, one) ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
		else if (one && !edge_data_ok(on, node, one))
			result = CUDA_ERROR_INVALID_VALUE;
		else
			result = node_depend(node, &on, one, 1);
	}
	return result;
}

CUresult cuGraphAddDependencies(
	CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	ENTER(CALL_INIT);
	return edges_change(hGraph, from, to, NULL, numDependencies, true);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	ENTER(CALL_INIT);
	return edges_change(hGraph, from, to, edgeData, numDependencies, true);
}

CUresult cuGraphRemoveDependencies(
	CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	ENTER(CALL_INIT);
	return edges_change(hGraph, from, to, NULL, numDependencies, false);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	ENTER(CALL_INIT);
	return edges_change(hGraph, from, to, edgeData, numDependencies, false);
}

/* A list that is counted, and filled if there is room for *n entries. */
struct listing {
	CUgraphNode *nodes;
	CUgraphNode *others; /* the far ends of edges, or NULL */
	CUgraphEdgeData *data;
	size_t room, n;
	bool is_lossy; /* a listed edge has data for which there is no room */
};

static void list(struct listing *listing, const struct node *node, const struct node *other)
{
	if (listing->nodes && listing->n < listing->room) {
		listing->nodes[listing->n] = (CUgraphNode)node;
		if (listing->others)
			listing->others[listing->n] = (CUgraphNode)other;
	}
	listing->n++;
}

static void list_edge(struct listing *listing, const struct node *node, const struct node *other,
	const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	if (listing->data && listing->n < listing->room)
		listing->data[listing->n] = *data;
	else if (listing->nodes && !listing->data && memcmp(data, &plain, sizeof(plain)) != 0)
		listing->is_lossy = true;
	list(listing, node, other);
}

static CUresult list_finish(struct listing *listing, size_t *ret_n)
{
	if (listing->is_lossy)
		return CUDA_ERROR_LOSSY_QUERY;
	if (listing->nodes && listing->room == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = listing->n; listing->nodes && i < listing->room; i++)
		listing->nodes[i] = NULL;
	*ret_n = listing->nodes ? MIN(listing->n, listing->room) : listing->n;
	return CUDA_SUCCESS;
}

static CUresult graph_list(CUgraph handle, CUgraphNode *nodes, size_t *n, bool is_roots)
{
	struct listing listing = {.nodes = nodes};
	const struct graph *graph = object_find(OBJECT_GRAPH, handle);

	if (!graph || !n)
		return CUDA_ERROR_INVALID_VALUE;
	listing.room = *n;
	for (const struct node *node = graph->nodes; node; node = node->next)
		if (!is_roots || node->n_dependencies == 0)
			list(&listing, node, NULL);
	return list_finish(&listing, n);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	ENTER(CALL_INIT);
	return graph_list(hGraph, nodes, numNodes, false);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	ENTER(CALL_INIT);
	return graph_list(hGraph, rootNodes, numRootNodes, true);
}

static CUresult graph_edges(
	CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edge_data, size_t *n)
{
	struct listing listing = {.nodes = from, .others = to, .data = edge_data};
	const struct graph *graph = object_find(OBJECT_GRAPH, handle);

	if (!graph || !n || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	listing.room = *n;
	for (const struct node *node = graph->nodes; node; node = node->next)
		for (size_t i = 0; i < node->n_dependencies; i++)
			list_edge(&listing, node->dependencies[i], node, &node->edge_data[i]);
	return list_finish(&listing, n);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	ENTER(CALL_INIT);
	return graph_edges(hGraph, from, to, NULL, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *edgeData, size_t *numEdges)
{
	ENTER(CALL_INIT);
	return graph_edges(hGraph, from, to, edgeData, numEdges);
}

/* The dependencies of a node, or the nodes that depend on it. */
static CUresult node_list(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *edge_data,
	size_t *n, bool is_dependents)
{
	struct listing listing = {.nodes = nodes, .data = edge_data};
	const struct node *node = object_find(OBJECT_NODE, handle);

	if (!node || !n)
		return CUDA_ERROR_INVALID_VALUE;
	listing.room = *n;
	for (size_t i = 0; !is_dependents && i < node->n_dependencies; i++)
		list_edge(&listing, node->dependencies[i], NULL, &node->edge_data[i]);
	for (const struct node *other = node->graph->nodes; is_dependents && other;
		other = other->next)
		for (size_t i = 0; i < other->n_dependencies; i++)
			if (other->dependencies[i] == node)
				list_edge(&listing, other, NULL, &other->edge_data[i]);
	return list_finish(&listing, n);
}

CUresult cuGraphNodeGetDependencies(
	CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
	ENTER(CALL_INIT);
	return node_list(hNode, dependencies, NULL, numDependencies, false);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
	CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	ENTER(CALL_INIT);
	return node_list(hNode, dependencies, edgeData, numDependencies, false);
}

CUresult cuGraphNodeGetDependentNodes(
	CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
	ENTER(CALL_INIT);
	return node_list(hNode, dependentNodes, NULL, numDependentNodes, true);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
	CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	ENTER(CALL_INIT);
	return node_list(hNode, dependentNodes, edgeData, numDependentNodes, true);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = object_find(OBJECT_NODE, hNode);
	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}
