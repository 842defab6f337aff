/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs of the counting driver: chains of kernel nodes, whose kernels count as
 * launches when the graph is launched; and records, which do nothing.
 */

#include <stdlib.h>

#include "fake_tables.h"

#define FAKE_NODES_MAX 64

struct node {
	uint32_t param_sum;
	bool is_set; /* since the last launch */
};

struct fake_graph {
	unsigned n;
	bool is_exec;
	struct node nodes[FAKE_NODES_MAX];
};

static CUresult graph_create(CUgraph *ret, unsigned flags)
{
	struct fake_graph *graph;

	BEGIN();
	must(flags == 0, "a graph with flags");
	graph = calloc(1, sizeof(*graph));
	must(graph != NULL, "a graph without memory");
	fake_counts.graphs++;
	*ret = (CUgraph)graph;
	return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph)
{
	BEGIN();
	must(graph && !((struct fake_graph *)graph)->is_exec, "the end of no graph");
	free(graph);
	fake_counts.graphs--;
	return CUDA_SUCCESS;
}

static void node_set(struct node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	must(params->gridDimX && params->gridDimY && params->gridDimZ, "an odd grid");
	must(params->func && !params->kernelParams, "an odd node");
	node->param_sum = fake_param_sum(params->extra);
	node->is_set = true;
}

/* A node is known by its number, from 1 on. */
static CUresult add_kernel(CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	BEGIN();
	must(graph->n < FAKE_NODES_MAX, "a long graph");
	must(n == (graph->n > 0), "a graph that is no chain");
	must(n == 0 || (uintptr_t)dependencies[0] == graph->n, "a chain out of order");
	node_set(&graph->nodes[graph->n], params);
	*ret = (CUgraphNode)(uintptr_t)++graph->n;
	return CUDA_SUCCESS;
}

static CUresult add_record(
	CUgraphNode *ret, CUgraph handle, const CUgraphNode *dependencies, size_t n, CUevent event)
{
	(void)dependencies;
	BEGIN();
	must(handle && n == 0 && event, "an odd node");
	*ret = (CUgraphNode)handle;
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *ret, CUgraph handle, unsigned long long flags)
{
	struct fake_graph *exec;

	BEGIN();
	must(flags == 0, "a graph with flags");
	exec = malloc(sizeof(*exec));
	must(exec != NULL, "a graph without memory");
	*exec = *(struct fake_graph *)handle;
	exec->is_exec = true;
	fake_counts.execs++;
	*ret = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

static CUresult exec_destroy(CUgraphExec exec)
{
	BEGIN();
	must(exec && ((struct fake_graph *)exec)->is_exec, "the end of no graph");
	free(exec);
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
	node_set(&exec->nodes[number - 1], params);
	return CUDA_SUCCESS;
}

static CUresult graph_launch(CUgraphExec handle, CUstream stream)
{
	struct fake_graph *exec = (struct fake_graph *)handle;

	BEGIN();
	must(exec->is_exec && stream, "an odd launch of a graph");
	for (unsigned i = 0; i < exec->n; i++) {
		must(exec->nodes[i].is_set, "an earlier run's kernel");
		exec->nodes[i].is_set = false;
		fake_calls.last_param_sum = exec->nodes[i].param_sum;
		fake_calls.launches++;
	}
	fake_calls.graph_launches++;
	return CUDA_SUCCESS;
}

void fake_graph_start(void)
{
	cuda.cuGraphCreate = graph_create;
	cuda.cuGraphDestroy = graph_destroy;
	cuda.cuGraphAddKernelNode_v2 = add_kernel;
	cuda.cuGraphAddEventRecordNode = add_record;
	cuda.cuGraphInstantiateWithFlags = instantiate;
	cuda.cuGraphExecDestroy = exec_destroy;
	cuda.cuGraphExecKernelNodeSetParams_v2 = exec_set_kernel;
	cuda.cuGraphLaunch = graph_launch;
}
