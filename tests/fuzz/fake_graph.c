/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs of the counting driver. Graphs of a server's launch batches are chains of kernel
 * nodes, which must be set before each launch, and whose kernels count as launches. For
 * graphs of clients, nodes are counted.
 */

#include <stdlib.h>

#include "fake_tables.h"

struct node {
	CUgraphNodeType type;
	uint32_t param_sum;
	bool is_set;                 /* since the last launch */
	CUstreamBatchMemOpParams op; /* of a chain */
};

struct fake_graph {
	unsigned n, n_free_channels;
	bool is_exec, is_chain, is_body;
	struct node *nodes;
	unsigned n_conditions;     /* of the outermost graph */
	struct fake_graph *outer;  /* of a body: the outermost graph */
	struct fake_graph *bodies; /* of an outermost graph: those of all its conditional nodes */
	struct fake_graph *next;   /* among them */
	CUgraph *lists; /* of the first body of a node: the driver's list of its bodies */
};

static CUresult graph_create(CUgraph *ret, unsigned flags)
{
	struct fake_graph *graph;

	BEGIN();
	must(flags == 0, "a graph with flags");
	graph = fake_alloc(sizeof(*graph));
	fake_counts.graphs++;
	*ret = (CUgraph)graph;
	return CUDA_SUCCESS;
}

/* Not its bodies. */
static void graph_free(struct fake_graph *graph)
{
	free(graph->lists);
	free(graph->nodes);
	free(graph);
}

static void bodies_free(struct fake_graph *graph)
{
	while (graph->bodies) {
		struct fake_graph *body = graph->bodies;

		graph->bodies = body->next;
		graph_free(body);
	}
}

static CUresult graph_destroy(CUgraph graph)
{
	BEGIN();
	must(graph && !((struct fake_graph *)graph)->is_exec &&
			!((struct fake_graph *)graph)->is_body,
		"the end of no graph");
	bodies_free((struct fake_graph *)graph);
	graph_free((struct fake_graph *)graph);
	fake_counts.graphs--;
	return CUDA_SUCCESS;
}

static void node_set(struct node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	must(params->gridDimX && params->gridDimY && params->gridDimZ, "an odd grid");
	/* A cooperative kernel has a list. */
	must(params->func && !params->kernelParams != !params->extra, "an odd node");
	node->param_sum = params->extra ? fake_param_sum(params->extra) : 0;
	node->is_set = true;
}

/* A node is its number, from 1 on. */
static struct node *add(CUgraph handle, CUgraphNodeType type, CUgraphNode *ret)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	must(graph && !graph->is_exec, "a node of no graph");
	if (graph->n == graph->n_free_channels) {
		graph->n_free_channels = MAX(2 * graph->n_free_channels, 8u);
		graph->nodes =
			realloc(graph->nodes, graph->n_free_channels * sizeof(*graph->nodes));
		must(graph->nodes != NULL, "a graph without memory");
	}
	graph->nodes[graph->n] = (struct node){.type = type};
	*ret = (CUgraphNode)(uintptr_t)++graph->n;
	return &graph->nodes[graph->n - 1];
}

static CUresult add_kernel(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	BEGIN();
	fake_calls.nodes_set_green += fake_is_in_green();
	if (graph->n == 1)
		graph->is_chain = n > 0;
	must(n == (graph->n > 0 && graph->is_chain), "a graph that is a chain in part");
	must(n == 0 || (uintptr_t)dependencies[0] == graph->n, "a chain out of order");
	node_set(add(handle, CU_GRAPH_NODE_TYPE_KERNEL, ret), params);
	return CUDA_SUCCESS;
}

static CUresult set_attribute(
	CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *value)
{
	BEGIN();
	(void)id;
	must(node && value, "an odd attribute");
	return CUDA_SUCCESS;
}

static CUresult add_empty(
	CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies, size_t n)
{
	BEGIN();
	must(!dependencies && n == 0, "an odd node");
	add(handle, CU_GRAPH_NODE_TYPE_EMPTY, ret);
	return CUDA_SUCCESS;
}

static CUresult add_fill(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
	BEGIN();
	must(!dependencies && n == 0 && context, "an odd node");
	must_be_reached(fill->dst, fill->elementSize * fill->width);
	add(handle, CU_GRAPH_NODE_TYPE_MEMSET, ret);
	return CUDA_SUCCESS;
}

static CUresult add_copy(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, const CUDA_MEMCPY3D *copy, CUcontext context)
{
	BEGIN();
	must(!dependencies && n == 0 && context && copy, "an odd node");
	add(handle, CU_GRAPH_NODE_TYPE_MEMCPY, ret);
	return CUDA_SUCCESS;
}

static void node_set_ops(struct node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *ops)
{
	must(ops->ctx && ops->count > 0, "an odd node");
	node->op = ops->paramArray[0];
	node->is_set = true;
}

/* In a chain, the last node. */
static CUresult add_ops(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies, size_t n,
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *ops)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	BEGIN();
	must(n == 0 || (n == 1 && ops->count == 1 && (uintptr_t)dependencies[0] == graph->n),
		"an odd node");
	if (n > 0)
		graph->is_chain = true;
	node_set_ops(add(handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, ret), ops);
	return CUDA_SUCCESS;
}

static CUresult add_event(
	CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies, size_t n, CUevent event)
{
	BEGIN();
	must(!dependencies && n == 0 && event, "an odd node");
	add(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, ret);
	return CUDA_SUCCESS;
}

static CUresult create_condition(CUgraphConditionalHandle *ret, CUgraph handle, CUcontext context,
	unsigned value, unsigned flags)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	BEGIN();
	(void)value;
	must(context && !graph->is_body && !(flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT),
		"an odd condition");
	*ret = ++graph->n_conditions;
	return CUDA_SUCCESS;
}

/* Its bodies lie with the outermost graph, and their list with the first of them. */
static CUresult add_conditional(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *params)
{
	struct fake_graph *graph = (struct fake_graph *)handle;
	struct fake_graph *outer = graph->is_body ? graph->outer : graph;
	CUDA_CONDITIONAL_NODE_PARAMS *conditional = &params->conditional;
	CUgraph *list;

	BEGIN();
	must(params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && !dependencies && !data && n == 0,
		"an odd node");
	must(conditional->handle >= 1 && conditional->handle <= outer->n_conditions &&
			conditional->ctx && conditional->size > 0,
		"an odd conditional node");
	list = fake_alloc(conditional->size * sizeof(CUgraph));
	for (unsigned i = 0; i < conditional->size; i++) {
		struct fake_graph *body = fake_alloc(sizeof(*body));

		body->is_body = true;
		body->outer = outer;
		body->next = outer->bodies;
		body->lists = i == 0 ? list : NULL;
		outer->bodies = body;
		list[i] = (CUgraph)body;
	}
	add(handle, CU_GRAPH_NODE_TYPE_CONDITIONAL, ret);
	conditional->phGraph_out = list;
	return CUDA_SUCCESS;
}

static CUresult add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	const struct fake_graph *graph = (struct fake_graph *)handle;

	BEGIN();
	for (size_t i = 0; i < n; i++)
		must((uintptr_t)from[i] <= graph->n && (uintptr_t)to[i] <= graph->n,
			"an edge to nowhere");
	return CUDA_SUCCESS;
}

static CUresult add_edges_with(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *data, size_t n)
{
	const struct fake_graph *graph = (struct fake_graph *)handle;

	for (size_t i = 0; i < n; i++) {
		bool is_programmatic = data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;

		must(data[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
				(data[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
					is_programmatic),
			"an edge from an odd port");
		must(data[i].to_port == 0 && data[i].type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
			"an edge of an odd type");
		must(graph->nodes[(uintptr_t)from[i] - 1].type == CU_GRAPH_NODE_TYPE_KERNEL,
			"an edge from the port of no kernel");
		must(!is_programmatic || graph->nodes[(uintptr_t)to[i] - 1].type ==
						 CU_GRAPH_NODE_TYPE_KERNEL,
			"a programmatic edge to no kernel");
		fake_calls.programmatic_edges += is_programmatic;
	}
	return add_edges(handle, from, to, n);
}

static CUresult instantiate(CUgraphExec *ret, CUgraph handle, unsigned long long flags)
{
	const struct fake_graph *graph = (struct fake_graph *)handle;
	struct fake_graph *exec;

	BEGIN();
	must((flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) == 0,
		"a graph with odd flags");
	exec = fake_alloc(sizeof(*exec));
	*exec = *graph;
	exec->is_exec = true;
	exec->bodies = NULL;
	exec->lists = NULL;
	exec->nodes = fake_alloc(MAX(graph->n, 1u) * sizeof(*exec->nodes));
	for (unsigned i = 0; i < graph->n; i++)
		exec->nodes[i] = graph->nodes[i];
	fake_counts.execs++;
	*ret = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

static CUresult graph_clone(CUgraph *ret, CUgraph handle)
{
	const struct fake_graph *graph = (struct fake_graph *)handle;
	struct fake_graph *copy;

	BEGIN();
	must(!graph->is_exec && graph->n_conditions == 0, "a graph that has no clone");
	copy = fake_alloc(sizeof(*copy));
	*copy = *graph;
	copy->n_free_channels = graph->n;
	copy->nodes = fake_alloc(MAX(graph->n, 1u) * sizeof(*copy->nodes));
	for (unsigned i = 0; i < graph->n; i++)
		copy->nodes[i] = graph->nodes[i];
	fake_counts.graphs++;
	*ret = (CUgraph)copy;
	return CUDA_SUCCESS;
}

static CUresult find_in_clone(CUgraphNode *ret, CUgraphNode node, CUgraph handle)
{
	BEGIN();
	must((uintptr_t)node >= 1 && (uintptr_t)node <= ((struct fake_graph *)handle)->n,
		"a node that is not there");
	*ret = node;
	return CUDA_SUCCESS;
}

/* A node does not know its graph, so its parameters stay those with which it was added. */
static CUresult get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	BEGIN();
	*params = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)node,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.ctx = (CUcontext)node};
	return CUDA_SUCCESS;
}

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	BEGIN();
	must(node && params->func && !params->ctx, "an odd node");
	fake_calls.nodes_set_green += fake_is_in_green();
	return CUDA_SUCCESS;
}

static CUresult exec_destroy(CUgraphExec exec)
{
	BEGIN();
	must(exec && ((struct fake_graph *)exec)->is_exec, "the end of no graph");
	graph_free((struct fake_graph *)exec);
	fake_counts.execs--;
	return CUDA_SUCCESS;
}

static CUresult exec_set_kernel(
	CUgraphExec handle, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct fake_graph *exec = (struct fake_graph *)handle;
	uintptr_t number = (uintptr_t)node;

	BEGIN();
	must(exec->is_exec && number >= 1 && number <= exec->n, "a node that is not there");
	fake_calls.exec_nodes_set_green += fake_is_in_green();
	node_set(&exec->nodes[number - 1], params);
	return CUDA_SUCCESS;
}

static CUresult exec_set_ops(
	CUgraphExec handle, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *ops)
{
	struct fake_graph *exec = (struct fake_graph *)handle;
	uintptr_t number = (uintptr_t)node;

	BEGIN();
	must(exec->is_exec && number >= 1 && number <= exec->n &&
			exec->nodes[number - 1].type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		"a node that is not there");
	node_set_ops(&exec->nodes[number - 1], ops);
	return CUDA_SUCCESS;
}

static void node_run(struct fake_graph *exec, struct node *node)
{
	must(!exec->is_chain || node->is_set, "an earlier run's node");
	node->is_set = false;
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		fake_calls.last_param_sum = node->param_sum;
		fake_calls.launches++;
	} else if (exec->is_chain) {
		fake_memory_op(&node->op);
	}
}

static CUresult graph_launch(CUgraphExec handle, CUstream stream)
{
	struct fake_graph *exec = (struct fake_graph *)handle;

	BEGIN();
	must(exec->is_exec && stream, "an odd launch of a graph");
	for (unsigned i = 0; i < exec->n; i++)
		node_run(exec, &exec->nodes[i]);
	fake_calls.graph_launches++;
	return CUDA_SUCCESS;
}

void fake_graph_start(void)
{
	cuda.cuGraphCreate = graph_create;
	cuda.cuGraphDestroy = graph_destroy;
	cuda.cuGraphAddKernelNode_v2 = add_kernel;
	cuda.cuGraphKernelNodeSetAttribute = set_attribute;
	cuda.cuGraphAddEmptyNode = add_empty;
	cuda.cuGraphAddMemsetNode = add_fill;
	cuda.cuGraphAddMemcpyNode = add_copy;
	cuda.cuGraphAddBatchMemOpNode = add_ops;
	cuda.cuGraphAddEventRecordNode = add_event;
	cuda.cuGraphAddEventWaitNode = add_event;
	cuda.cuGraphConditionalHandleCreate = create_condition;
	cuda.cuGraphAddNode_v2 = add_conditional;
	cuda.cuGraphAddDependencies = add_edges;
	cuda.cuGraphAddDependencies_v2 = add_edges_with;
	cuda.cuGraphInstantiateWithFlags = instantiate;
	cuda.cuGraphClone = graph_clone;
	cuda.cuGraphNodeFindInClone = find_in_clone;
	cuda.cuGraphKernelNodeGetParams_v2 = get_kernel;
	cuda.cuGraphKernelNodeSetParams_v2 = set_kernel;
	cuda.cuGraphExecDestroy = exec_destroy;
	cuda.cuGraphExecKernelNodeSetParams_v2 = exec_set_kernel;
	cuda.cuGraphExecBatchMemOpNodeSetParams = exec_set_ops;
	cuda.cuGraphLaunch = graph_launch;
}
