/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adding nodes, reading their parameters and changing them. Any thread of the
 * application.
 *
 * Invariant: a call that fails leaves its graph unchanged.
 */

#include <string.h>

#include "calls_graph.h"
#include "conditional.h"
#include "exec.h"
#include "node_calls.h"
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

struct graph_node *node_find_kernel(CUgraphNode handle)
{
	return find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL);
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

/* Like driver 580, all handles, no matter which of them the program passed. */
static CUDA_KERNEL_NODE_PARAMS_v2 describe_kernel(const struct node_op_kernel *kernel)
{
	return (CUDA_KERNEL_NODE_PARAMS_v2){
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
}

static CUDA_MEMSET_NODE_PARAMS describe_fill(const struct fill *fill)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = registered_own(fill->dst),
		.pitch = fill->pitch,
		.value = fill->value,
		.elementSize = fill->width,
		.width = fill->count,
		.height = fill->rows,
	};
}

/* Writes the description that the call for the op's type returns. */
static void describe(const struct node_op *op, void *ret_params)
{
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		*(CUDA_KERNEL_NODE_PARAMS_v2 *)ret_params = describe_kernel(&op->kernel);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		*(CUDA_MEMCPY3D *)ret_params = op->copy.desc;
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		*(CUDA_MEMSET_NODE_PARAMS *)ret_params = describe_fill(&op->fill);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		*(CUDA_HOST_NODE_PARAMS *)ret_params =
			(CUDA_HOST_NODE_PARAMS){op->host.function, op->host.data};
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		*(CUgraph *)ret_params = (CUgraph)op->child;
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		*(CUDA_BATCH_MEM_OP_NODE_PARAMS *)ret_params =
			(CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = op->memory_ops.context,
				.count = op->memory_ops.n_ops,
				.paramArray = op->memory_ops.params};
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		*(CUDA_MEM_ALLOC_NODE_PARAMS *)ret_params = op->memory->params;
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		*(CUdeviceptr *)ret_params = graph_memory_address(op->memory);
		break;
	default:
		*(CUevent *)ret_params = (CUevent)op->event.event;
		break;
	}
}

CUresult graph_add_node(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
	size_t n, CUgraphNodeType type, const void *params, CUcontext context)
{
	CUresult result = node_op_context(context);
	struct node_op op;

	GRAPHS_LOCKED;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && graph == *(const CUgraph *)params)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = node_op_make(type, params, &op);
	result = add_node(ret_node, graph, dependencies, NULL, n, result, &op);
	if (result == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		((CUDA_MEM_ALLOC_NODE_PARAMS *)params)->dptr = graph_memory_address(op.memory);
	return result;
}

CUresult graph_describe_node(CUgraphNode handle, CUgraphNodeType type, void *ret_params)
{
	const struct graph_node *node;

	GRAPHS_LOCKED;
	node = find_node(handle, type);
	if (!node || !ret_params)
		return CUDA_ERROR_INVALID_VALUE;
	describe(&node->op, ret_params);
	return CUDA_SUCCESS;
}

CUresult graph_set_node(CUgraphNode handle, CUgraphNodeType type, const void *params)
{
	struct node_op op;

	GRAPHS_LOCKED;
	return set_node(handle, type, node_op_make(type, params, &op), &op);
}

const CUDA_KERNEL_NODE_PARAMS_v2 *widen_kernel_params(
	const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUDA_KERNEL_NODE_PARAMS_v2 *wide)
{
	if (!params)
		return NULL;
	memset(wide, 0, sizeof(*wide));
	memcpy(wide, params, sizeof(*params));
	return wide;
}

CUresult local_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	return graph_add_node(phGraphNode, hGraph, dependencies, numDependencies,
		CU_GRAPH_NODE_TYPE_KERNEL, widen_kernel_params(nodeParams, &wide), NULL);
}

CUresult local_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	CUresult result =
		graph_describe_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams ? &wide : NULL);

	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &wide, sizeof(*nodeParams));
	return result;
}

CUresult local_cuGraphKernelNodeSetParams(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	return graph_set_node(
		hNode, CU_GRAPH_NODE_TYPE_KERNEL, widen_kernel_params(nodeParams, &wide));
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

CUresult local_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct node_op op;
	CUresult result;

	GRAPHS_LOCKED;
	result = node_op_any(nodeParams, &op);
	return result == CUDA_SUCCESS ? set_node(hNode, nodeParams->type, result, &op) : result;
}
