/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adding nodes, reading their parameters and changing them. Any thread of the
 * application.
 *
 * Invariant: a call that fails leaves its graph unchanged.
 */

#include <string.h>

#include "client.h"
#include "conditional.h"
#include "exec.h"
#include "client/stream/event.h"
#include "client/memory/registered.h"

static bool edges_ok(const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
	CUgraphNodeType to_type)
{
	for (size_t i = 0; data && i < n; i++) {
		const struct graph_node *from = node_find(dependencies[i]);

		if (!from || !edge_data_ok(from, to_type, &data[i]))
			return false;
	}
	return true;
}

/* Takes ownership of `op' if `result', which is that of making it, is CUDA_SUCCESS. */
static CUresult add_node(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, CUresult result, struct node_op *op)
{
	struct graph *graph = graph_find(handle);
	struct graph_node *node;

	if (result != CUDA_SUCCESS)
		return result;
	if (!graph || !ret_node || (n > 0 && !dependencies) ||
		!edges_ok(dependencies, data, n, op->type)) {
		node_op_fini(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = node_add(graph, op, dependencies, data, n, &node);
	if (result == CUDA_SUCCESS)
		*ret_node = (CUgraphNode)node;
	return result;
}

static struct graph_node *find_node(CUgraphNode handle, CUgraphNodeType type)
{
	struct graph_node *node = node_find(handle);

	return node && node->op.type == type ? node : NULL;
}

/* Takes ownership of `op' if `result' is CUDA_SUCCESS. */
static CUresult set_node(
	CUgraphNode handle, CUgraphNodeType type, CUresult result, struct node_op *op)
{
	struct graph_node *node = find_node(handle, type);

	if (result != CUDA_SUCCESS)
		return result;
	/* An allocation gets its address when the node is added. */
	if (!node || node_op_is_memory(op)) {
		node_op_fini(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	return node_set(node, op);
}

/* The older description lacks a CUkernel. */
static const CUDA_KERNEL_NODE_PARAMS_v2 *widen_kernel_params(
	const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUDA_KERNEL_NODE_PARAMS_v2 *wide)
{
	if (!params)
		return NULL;
	memset(wide, 0, sizeof(*wide));
	memcpy(wide, params, sizeof(*params));
	return wide;
}

CUresult local_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_kernel(nodeParams, &op), &op);
}

CUresult local_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	return local_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies,
		widen_kernel_params(nodeParams, &wide));
}

/* Like driver 580, all handles, no matter which of them the program passed. */
CUresult local_cuGraphKernelNodeGetParams_v2(
	CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	const struct node_op_kernel *kernel;
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	kernel = &node->op.kernel;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS_v2){
		.func = kernel_function(kernel->kernel),
		.kern = kernel_handle(kernel->kernel),
		.gridDimX = kernel->launch.grid[0],
		.gridDimY = kernel->launch.grid[1],
		.gridDimZ = kernel->launch.grid[2],
		.blockDimX = kernel->launch.block[0],
		.blockDimY = kernel->launch.block[1],
		.blockDimZ = kernel->launch.block[2],
		.sharedMemBytes = kernel->launch.shared_bytes,
		.kernelParams = kernel->buffer || !kernel->pointers[0] ? NULL : kernel->pointers,
		.extra = kernel->buffer ? kernel->buffer->extra : NULL,
		.ctx = (CUcontext)kernel->context,
	};
	return CUDA_SUCCESS;
}

CUresult local_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	CUresult result = local_cuGraphKernelNodeGetParams_v2(hNode, nodeParams ? &wide : NULL);

	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &wide, sizeof(*nodeParams));
	return result;
}

CUresult local_cuGraphKernelNodeSetParams_v2(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, node_op_kernel(nodeParams, &op), &op);
}

CUresult local_cuGraphKernelNodeSetParams(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	return local_cuGraphKernelNodeSetParams_v2(hNode, widen_kernel_params(nodeParams, &wide));
}

CUresult local_cuGraphKernelNodeSetAttribute(
	CUgraphNode hNode, CUlaunchAttributeID attr, const CUlaunchAttributeValue *value)
{
	struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (!node || !value)
		return CUDA_ERROR_INVALID_VALUE;
	return node_op_set_attribute(&node->op, attr, value);
}

CUresult local_cuGraphKernelNodeGetAttribute(
	CUgraphNode hNode, CUlaunchAttributeID attr, CUlaunchAttributeValue *value_out)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (!node || !value_out)
		return CUDA_ERROR_INVALID_VALUE;
	return node_op_get_attribute(&node->op, attr, value_out);
}

CUresult local_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	const struct graph_node *from;
	struct graph_node *to;

	GRAPHS_LOCKED;
	from = find_node(src, CU_GRAPH_NODE_TYPE_KERNEL);
	to = find_node(dst, CU_GRAPH_NODE_TYPE_KERNEL);
	if (!from || !to)
		return CUDA_ERROR_INVALID_VALUE;
	node_op_copy_attributes(&to->op, &from->op);
	return CUDA_SUCCESS;
}

CUresult local_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams,
	CUcontext ctx)
{
	CUresult result = node_op_context(ctx);
	struct node_op op;

	GRAPHS_LOCKED;
	if (result == CUDA_SUCCESS)
		result = node_op_copy(copyParams, &op);
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, result, &op);
}

CUresult local_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = node->op.copy.desc;
	return CUDA_SUCCESS;
}

CUresult local_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, node_op_copy(nodeParams, &op), &op);
}

CUresult local_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUresult result = node_op_context(ctx);
	struct node_op op;

	GRAPHS_LOCKED;
	if (result == CUDA_SUCCESS)
		result = node_op_fill(memsetParams, &op);
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, result, &op);
}

CUresult local_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	const struct fill *fill;
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill = &node->op.fill;
	*nodeParams = (CUDA_MEMSET_NODE_PARAMS){
		.dst = registered_own(fill->dst),
		.pitch = fill->pitch,
		.value = fill->value,
		.elementSize = fill->width,
		.width = fill->count,
		.height = fill->rows,
	};
	return CUDA_SUCCESS;
}

CUresult local_cuGraphMemsetNodeSetParams(
	CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, node_op_fill(nodeParams, &op), &op);
}

CUresult local_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_host(nodeParams, &op), &op);
}

CUresult local_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_HOST);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = (CUDA_HOST_NODE_PARAMS){node->op.host.function, node->op.host.data};
	return CUDA_SUCCESS;
}

CUresult local_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(hNode, CU_GRAPH_NODE_TYPE_HOST, node_op_host(nodeParams, &op), &op);
}

CUresult local_cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_memory_ops(nodeParams, &op), &op);
}

CUresult local_cuGraphBatchMemOpNodeGetParams(
	CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	const struct node_op_memory_ops *ops;
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	if (!node || !nodeParams_out)
		return CUDA_ERROR_INVALID_VALUE;
	ops = &node->op.memory_ops;
	*nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		.ctx = ops->context, .count = ops->n_ops, .paramArray = ops->params};
	return CUDA_SUCCESS;
}

CUresult local_cuGraphBatchMemOpNodeSetParams(
	CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(
		hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, node_op_memory_ops(nodeParams, &op), &op);
}

CUresult local_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

	GRAPHS_LOCKED;
	return add_node(
		phGraphNode, hGraph, dependencies, NULL, numDependencies, CUDA_SUCCESS, &op);
}

CUresult local_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &op), &op);
}

CUresult local_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &op), &op);
}

static CUresult get_event(CUgraphNode handle, CUgraphNodeType type, CUevent *ret_event)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(handle, type);
	if (!node || !ret_event)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_event = (CUevent)node->op.event.event;
	return CUDA_SUCCESS;
}

CUresult local_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult local_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

static CUresult set_event_node(CUgraphNode handle, CUgraphNodeType type, CUevent event)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(handle, type, node_op_event(type, event, &op), &op);
}

CUresult local_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event_node(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult local_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event_node(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult local_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct node_op op;
	CUresult result;

	GRAPHS_LOCKED;
	result = add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_memory_alloc(nodeParams, &op), &op);
	if (result == CUDA_SUCCESS)
		nodeParams->dptr = graph_memory_address(op.memory);
	return result;
}

CUresult local_cuGraphMemAllocNodeGetParams(
	CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	if (!node || !params_out)
		return CUDA_ERROR_INVALID_VALUE;
	*params_out = node->op.memory->params;
	return CUDA_SUCCESS;
}

CUresult local_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_memory_free(dptr, &op), &op);
}

CUresult local_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE);
	if (!node || !dptr_out)
		return CUDA_ERROR_INVALID_VALUE;
	*dptr_out = graph_memory_address(node->op.memory);
	return CUDA_SUCCESS;
}

CUresult local_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	struct node_op op;

	GRAPHS_LOCKED;
	if (hGraph == childGraph)
		return CUDA_ERROR_INVALID_VALUE;
	params.graph.graph = childGraph;
	return add_node(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		node_op_any(&params, &op), &op);
}

CUresult local_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH);
	if (!node || !phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)node->op.child;
	return CUDA_SUCCESS;
}

static bool is_within(const struct graph *graph, const struct graph *outer)
{
	while (graph && graph != outer)
		graph = graph->parent ? graph->parent->graph : NULL;
	return graph;
}

/* Moves the graph: it becomes a child if the node can be added. */
static CUresult add_moved(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, CUgraph child_handle)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	struct graph *child = graph_find(child_handle);
	CUresult result;

	if (!child || child->parent || is_within(graph_find(handle), child) ||
		(child->has_memory && exec_is_of(child->unique, NULL)))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_is_conditional(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = graph_new(&op.child);
	if (result == CUDA_SUCCESS)
		result = add_node(ret_node, handle, dependencies, data, n, result, &op);
	if (result == CUDA_SUCCESS)
		graph_move(child, (struct graph_node *)*ret_node);
	return result;
}

static CUresult add_conditional(CUgraphNode *ret_node, CUgraph handle,
	const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
	CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	struct node_op op;
	CUresult result = node_op_conditional(graph_find(handle), params, &op);

	result = add_node(ret_node, handle, dependencies, data, n, result, &op);
	if (result == CUDA_SUCCESS)
		params->phGraph_out = (CUgraph *)op.conditional.bodies;
	return result;
}

CUresult local_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	struct node_op op;
	CUresult result;

	GRAPHS_LOCKED;
	if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH &&
		nodeParams->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		return add_moved(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
			nodeParams->graph.graph);
	if (nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return add_conditional(phGraphNode, hGraph, dependencies, dependencyData,
			numDependencies, &nodeParams->conditional);
	result = add_node(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
		node_op_any(nodeParams, &op), &op);
	if (result == CUDA_SUCCESS && nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		nodeParams->alloc.dptr = graph_memory_address(op.memory);
	return result;
}

CUresult local_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return local_cuGraphAddNode_v2(
		phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

CUresult local_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct node_op op;
	CUresult result;

	GRAPHS_LOCKED;
	result = node_op_any(nodeParams, &op);
	return result == CUDA_SUCCESS ? set_node(hNode, nodeParams->type, result, &op) : result;
}
