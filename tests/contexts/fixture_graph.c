/* SPDX-License-Identifier: Apache-2.0 */

/* Graphs with a node of each type. The main thread of a worker process. */

#include "fixture.h"

void *make_kernel_params(void)
{
	CUDA_KERNEL_NODE_PARAMS *params = make_zeros();

	params->func = make_function();
	params->gridDimX = params->gridDimY = params->gridDimZ = 1;
	params->blockDimX = params->blockDimY = params->blockDimZ = 1;
	params->kernelParams = make_kernel_arguments();
	return params;
}

CUDA_MEMSET_NODE_PARAMS *make_fill_params(void)
{
	CUDA_MEMSET_NODE_PARAMS *params = make_zeros();

	params->dst = make_memory();
	params->elementSize = 4;
	params->width = 8;
	params->height = 1;
	return params;
}

CUDA_HOST_NODE_PARAMS *make_host_params(void)
{
	CUDA_HOST_NODE_PARAMS *params = make_zeros();

	params->fn = do_nothing;
	return params;
}

CUDA_BATCH_MEM_OP_NODE_PARAMS *make_batch_params(void)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS *params = make_zeros();

	params->ctx = owner;
	params->count = 1;
	params->paramArray = make_memory_op();
	return params;
}

CUDA_MEM_ALLOC_NODE_PARAMS *make_alloc_params(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS *params = make_zeros();

	params->poolProps = *make_pool_props(0);
	params->bytesize = 4096;
	return params;
}

CUgraphNodeParams *make_node_params(void)
{
	CUgraphNodeParams *params = make_zeros();
	const CUDA_KERNEL_NODE_PARAMS *kernel = make_kernel_params();

	params->type = CU_GRAPH_NODE_TYPE_KERNEL;
	params->kernel.func = kernel->func;
	params->kernel.gridDimX = params->kernel.gridDimY = params->kernel.gridDimZ = 1;
	params->kernel.blockDimX = params->kernel.blockDimY = params->kernel.blockDimZ = 1;
	params->kernel.kernelParams = kernel->kernelParams;
	return params;
}

static void add_memory(struct graph *graph)
{
	CUDA_MEM_ALLOC_NODE_PARAMS *params = make_alloc_params();

	need(api.cuGraphAddMemAllocNode(&graph->node, graph->graph, NULL, 0, params));
	graph->address = params->dptr;
}

static void add_child(struct graph *graph)
{
	CUgraphNode node;

	need(api.cuGraphCreate(&graph->child, 0));
	need(api.cuGraphAddEmptyNode(&node, graph->child, NULL, 0));
	need(api.cuGraphAddChildGraphNode(&graph->node, graph->graph, NULL, 0, graph->child));
}

static void add_node(struct graph *graph, enum graph_kind kind)
{
	CUgraphNode *node = &graph->node, allocated;
	CUgraph to = graph->graph;

	switch (kind) {
	case GRAPH_KERNEL:
		need(api.cuGraphAddKernelNode_v2(node, to, NULL, 0, make_kernel_params()));
		return;
	case GRAPH_COPY:
		need(api.cuGraphAddMemcpyNode(node, to, NULL, 0, make_box(), owner));
		return;
	case GRAPH_FILL:
		need(api.cuGraphAddMemsetNode(node, to, NULL, 0, make_fill_params(), owner));
		return;
	case GRAPH_HOST:
		need(api.cuGraphAddHostNode(node, to, NULL, 0, make_host_params()));
		return;
	case GRAPH_CHILD:
		add_child(graph);
		return;
	case GRAPH_EVENT_RECORD:
		need(api.cuGraphAddEventRecordNode(node, to, NULL, 0, make_event()));
		return;
	case GRAPH_EVENT_WAIT:
		need(api.cuGraphAddEventWaitNode(node, to, NULL, 0, make_event()));
		return;
	case GRAPH_BATCH:
		need(api.cuGraphAddBatchMemOpNode(node, to, NULL, 0, make_batch_params()));
		return;
	case GRAPH_MEM_ALLOC:
		add_memory(graph);
		return;
	case GRAPH_MEM_FREE:
		add_memory(graph);
		allocated = *node;
		need(api.cuGraphAddMemFreeNode(node, to, &allocated, 1, graph->address));
		return;
	case GRAPH_EMPTY:
	case GRAPH_EDGE:
		need(api.cuGraphAddEmptyNode(node, to, NULL, 0));
		return;
	}
}

/* All arguments of a call get the graph that the first one made. */
static struct graph *made;

struct graph *graph_of(enum graph_kind kind)
{
	if (made)
		return made;
	made = make_zeros();
	need(api.cuGraphCreate(&made->graph, 0));
	need(api.cuGraphAddEmptyNode(&made->before, made->graph, NULL, 0));
	add_node(made, kind);
	need(api.cuGraphAddEmptyNode(
		&made->second, made->graph, &made->node, kind == GRAPH_EDGE ? 1 : 0));
	return made;
}

void graph_forget(void)
{
	made = NULL;
}

CUgraphExec graph_exec(struct graph *graph)
{
	CUgraphExec exec = NULL;

	need(api.cuGraphInstantiateWithFlags(&exec, graph->graph, 0));
	return exec;
}

CUgraph graph_clone(struct graph *graph)
{
	CUgraph clone = NULL;

	need(api.cuGraphClone(&clone, graph->graph));
	return clone;
}

CUuserObject graph_user_object(struct graph *graph)
{
	CUuserObject object = make_user_object();

	need(api.cuGraphRetainUserObject(graph->graph, object, 1, 0));
	return object;
}
