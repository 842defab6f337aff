/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of graph nodes: conversion of parameters to work, for a node of a graph
 * and of an executable graph, and of work to parameters.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <string.h>

#include "conditional.h"
#include "graph.h"
#include "graph_memory.h"
#include "tests/softgpu/driver/copy/copy.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/event.h"

/* ---- parameters to work */

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct work *ret_work)
{
	struct context *context = context_current();
	const struct function *function;
	struct launch launch;
	CUcontext handle;
	CUresult result;

	if (!params || (!params->func && !params->kern))
		return CUDA_ERROR_INVALID_VALUE;
	if (params->func && !object_find(OBJECT_FUNCTION, params->func))
		return CUDA_ERROR_INVALID_HANDLE;
	/* If there is a function, the driver ignores the context (measured). */
	function = params->func ? object_find(OBJECT_FUNCTION, params->func) : NULL;
	if (function)
		context = function->module->context;
	else if (params->func && !object_find(OBJECT_KERNEL, params->func))
		return CUDA_ERROR_INVALID_HANDLE;
	handle = params->func ? NULL : params->ctx;
	if (handle && context_get(handle, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context || !context->is_active)
		return CUDA_ERROR_INVALID_CONTEXT;
	launch = (struct launch){.function = params->func ? params->func : (CUfunction)params->kern,
		.grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
		.block = {params->blockDimX, params->blockDimY, params->blockDimZ},
		.shared_dynamic = params->sharedMemBytes,
		.params = params->kernelParams,
		.extra = params->extra};
	result = launch_work(&launch, context, context_green(handle), ret_work);
	if (result == CUDA_SUCCESS)
		ret_work->kernel.has_buffer = params->extra != NULL;
	return result;
}

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_params_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide = {0};

	if (params)
		memcpy(&wide, params, sizeof(*params));
	return wide;
}

static CUresult copy_work(const CUDA_MEMCPY3D *params, struct work *ret_work)
{
	return params ? copy_work_3d(params, ret_work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fill_work(const CUDA_MEMSET_NODE_PARAMS *params, struct work *ret_work)
{
	return params ? fill_work_2d(params, ret_work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult host_work(const CUDA_HOST_NODE_PARAMS *params, struct work *ret_work)
{
	if (!params || !params->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_work = (struct work){
		.kind = WORK_HOST, .host = {.fn = params->fn, .user = params->userData}};
	return CUDA_SUCCESS;
}

static CUresult memop_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct work *ret_work)
{
	if (!params || !params->ctx || !params->paramArray || params->count == 0 ||
		params->count > MEMOPS_MAX || params->flags)
		return CUDA_ERROR_INVALID_VALUE;
	return memops_new(params->paramArray, params->count, ret_work);
}

static CUresult event_work(CUevent handle, enum work_kind kind, struct work *ret_work)
{
	struct event *event;
	CUresult result = handle ? event_get(handle, &event) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	event->refs++;
	*ret_work = (struct work){.kind = kind, .event = event};
	return CUDA_SUCCESS;
}

static CUresult any_work(const CUgraphNodeParams *params, struct work *ret_work)
{
	CUDA_KERNEL_NODE_PARAMS_v2 kernel;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_BATCH_MEM_OP_NODE_PARAMS memop;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		memcpy(&kernel, &params->kernel, sizeof(kernel));
		return kernel_work(&kernel, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_work_3d(&params->memcpy.copyParams, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		memcpy(&fill, &params->memset, sizeof(fill));
		return fill_work_2d(&fill, ret_work);
	case CU_GRAPH_NODE_TYPE_HOST:
		host = (CUDA_HOST_NODE_PARAMS){params->host.fn, params->host.userData};
		return host_work(&host, ret_work);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*ret_work = (struct work){.kind = WORK_NONE};
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return event_work(params->eventWait.event, WORK_WAIT_EVENT, ret_work);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event_work(params->eventRecord.event, WORK_RECORD_EVENT, ret_work);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		memop = (CUDA_BATCH_MEM_OP_NODE_PARAMS){params->memOp.ctx, params->memOp.count,
			params->memOp.paramArray, params->memOp.flags};
		return memop_work(&memop, ret_work);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* ---- nodes */

static CUresult node_add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, CUresult result, struct work *work)
{
	struct graph *graph = object_find(OBJECT_GRAPH, handle);
	struct node *node;

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < n; i++)
		if (!dependencies || !object_find(OBJECT_NODE, dependencies[i]))
			graph = NULL;
	if (!graph || !ret_node) {
		work_fini(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = node_new(
		graph, (struct node *const *)dependencies, n, node_type_of(work), work, &node);
	if (result == CUDA_SUCCESS)
		*ret_node = (CUgraphNode)node;
	return result;
}

static struct node *node_get(CUgraphNode handle, CUgraphNodeType type)
{
	struct node *node = object_find(OBJECT_NODE, handle);

	return node && node->type == type ? node : NULL;
}

static CUresult node_set(
	CUgraphNode handle, CUgraphNodeType type, CUresult result, struct work *work)
{
	struct node *node = node_get(handle, type);

	if (result != CUDA_SUCCESS)
		return result;
	if (!node) {
		work_fini(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Separate calls set a kernel's attributes. */
	if (work->kind == WORK_KERNEL) {
		kernel_copy_attributes(&work->kernel, &node->work.kernel);
		result = launch_fits(&work->kernel);
	}
	if (result != CUDA_SUCCESS) {
		work_fini(work);
		return result;
	}
	work_fini(&node->work);
	node->work = *work;
	free(node->param_pointers);
	node->param_pointers = NULL;
	return CUDA_SUCCESS;
}

static CUresult exec_set_checked(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type,
	CUresult result, struct work *work)
{
	return result == CUDA_SUCCESS ? exec_set(exec, handle, type, work) : result;
}

static bool has_ended(CUcontext handle)
{
	struct context *context;

	return handle && context_get(handle, &context) == CUDA_SUCCESS && !context->is_active;
}

/* The four calls that have this form for every kind with one parameter structure. */
#define NODE_CALLS(kind, type_name, params_type, to_work, needs)                                   \
	CUresult cuGraphAdd##kind##Node(CUgraphNode *node, CUgraph graph,                          \
		const CUgraphNode *dependencies, size_t n, const params_type *params)              \
	{                                                                                          \
		struct work work;                                                                  \
		CUresult result;                                                                   \
                                                                                                   \
		ENTER(needs);                                                                      \
		result = to_work(params, &work);                                                   \
		return node_add(node, graph, dependencies, n, result, &work);                      \
	}                                                                                          \
	NODE_SET_CALLS(kind, type_name, params_type, to_work, needs)

#define NODE_SET_CALLS(kind, type_name, params_type, to_work, needs)                               \
	CUresult cuGraph##kind##NodeSetParams(CUgraphNode node, const params_type *params)         \
	{                                                                                          \
		struct work work;                                                                  \
		CUresult result;                                                                   \
                                                                                                   \
		ENTER(needs);                                                                      \
		result = to_work(params, &work);                                                   \
		return node_set(node, type_name, result, &work);                                   \
	}

#define EXEC_SET_CALL(kind, type_name, params_type, to_work, needs)                                \
	CUresult cuGraphExec##kind##NodeSetParams(                                                 \
		CUgraphExec exec, CUgraphNode node, const params_type *params)                     \
	{                                                                                          \
		struct work work;                                                                  \
		CUresult result;                                                                   \
                                                                                                   \
		ENTER(needs);                                                                      \
		result = to_work(params, &work);                                                   \
		return exec_set_checked(exec, node, type_name, result, &work);                     \
	}

NODE_CALLS(Host, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host_work, CALL_ALIVE)
EXEC_SET_CALL(Host, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host_work, CALL_ALIVE)
NODE_CALLS(BatchMemOp, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, memop_work,
	CALL_OBJECT)
EXEC_SET_CALL(BatchMemOp, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS,
	memop_work, CALL_OBJECT)
NODE_SET_CALLS(Memcpy, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy_work, CALL_OBJECT)
NODE_SET_CALLS(Memset, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, fill_work, CALL_OBJECT)

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams,
	CUcontext ctx)
{
	struct work work;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (has_ended(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = copy_work(copyParams, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct work work;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (has_ended(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = copy_work(copyParams, &work);
	return exec_set_checked(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, result, &work);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct work work;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (has_ended(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = fill_work(memsetParams, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct work work;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (has_ended(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = fill_work(memsetParams, &work);
	return exec_set_checked(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, result, &work);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = kernel_work(nodeParams, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide = kernel_params_widen(nodeParams);

	return cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &wide);
}

CUresult cuGraphKernelNodeSetParams_v2(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = kernel_work(nodeParams, &work);
	return node_set(hNode, CU_GRAPH_NODE_TYPE_KERNEL, result, &work);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide = kernel_params_widen(nodeParams);

	return cuGraphKernelNodeSetParams_v2(hNode, &wide);
}

CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = kernel_work(nodeParams, &work);
	return exec_set_checked(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, result, &work);
}

CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide = kernel_params_widen(nodeParams);

	return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &wide);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies)
{
	struct work work = {.kind = WORK_NONE};

	ENTER(CALL_INIT);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS, &work);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = graph_memory_alloc_work(nodeParams, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = graph_memory_free_work(dptr, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_RECORD_EVENT, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_WAIT_EVENT, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

static CUresult event_of(CUgraphNode handle, CUgraphNodeType type, CUevent *ret_event)
{
	const struct node *node = node_get(handle, type);

	if (!node || !ret_event)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_event = (CUevent)node->work.event;
	return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	ENTER(CALL_INIT);
	return event_of(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	ENTER(CALL_INIT);
	return event_of(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_RECORD_EVENT, &work);
	return node_set(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, result, &work);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_WAIT_EVENT, &work);
	return node_set(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, result, &work);
}

CUresult cuGraphExecEventRecordNodeSetEvent(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_RECORD_EVENT, &work);
	return exec_set_checked(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, result, &work);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	struct work work;
	CUresult result;

	ENTER(CALL_INIT);
	result = event_work(event, WORK_WAIT_EVENT, &work);
	return exec_set_checked(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, result, &work);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(
		phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

static CUresult add_any(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	struct work work;
	CUresult result;

	if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return conditional_add(phGraphNode, hGraph, dependencies, numDependencies,
			&nodeParams->conditional);
	if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return graph_add_child(
			phGraphNode, hGraph, dependencies, numDependencies, &nodeParams->graph);
	if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		result = graph_memory_alloc_work(
			(CUDA_MEM_ALLOC_NODE_PARAMS *)&nodeParams->alloc, &work);
	else if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		result = graph_memory_free_work(nodeParams->free.dptr, &work);
	else
		result = any_work(nodeParams, &work);
	return node_add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	struct node *node;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = add_any((CUgraphNode *)&node, hGraph, dependencies, numDependencies, nodeParams);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < numDependencies && dependencyData; i++) {
		node->edge_data[i] = dependencyData[i];
		if (!edge_data_ok(node->dependencies[i], node, &dependencyData[i]))
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (!phGraphNode)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*phGraphNode = (CUgraphNode)node;
	else
		node_destroy(node);
	return result;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = any_work(nodeParams, &work);
	return result == CUDA_SUCCESS ? node_set(hNode, nodeParams->type, result, &work) : result;
}

CUresult cuGraphExecNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct work work;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = any_work(nodeParams, &work);
	return result == CUDA_SUCCESS ? exec_set(hGraphExec, hNode, nodeParams->type, &work)
				      : result;
}

/* ---- work to parameters */

/* Pointers into the packed arguments, or the list that names them; owned by the node. */
static CUresult node_param_pointers(struct node *node)
{
	const struct ptx_kernel_info *info = ptx_kernel_info(node->work.kernel.kernel);

	struct kernel_work *kernel = &node->work.kernel;

	if (node->param_pointers || info->n_params == 0)
		return CUDA_SUCCESS;
	node->param_pointers = calloc(MAX(info->n_params, 5u), sizeof(void *));
	if (!node->param_pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (kernel->has_buffer) {
		node->param_pointers[0] = CU_LAUNCH_PARAM_BUFFER_SIZE;
		node->param_pointers[1] = &kernel->params_size;
		node->param_pointers[2] = CU_LAUNCH_PARAM_BUFFER_POINTER;
		node->param_pointers[3] = kernel->params;
		node->param_pointers[4] = CU_LAUNCH_PARAM_END;
		return CUDA_SUCCESS;
	}
	for (uint32_t i = 0; i < info->n_params; i++)
		node->param_pointers[i] = (char *)node->work.kernel.params + info->params[i].offset;
	return CUDA_SUCCESS;
}

/* As driver 580 on an H100: all handles, no matter which of them the program passed. */
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	const struct kernel_work *work;
	struct node *node;
	CUresult result;

	ENTER(CALL_INIT);
	node = node_get(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = node_param_pointers(node);
	if (result != CUDA_SUCCESS)
		return result;
	work = &node->work.kernel;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS_v2){.func = work->function,
		.kern = work->handle,
		.gridDimX = work->grid[0],
		.gridDimY = work->grid[1],
		.gridDimZ = work->grid[2],
		.blockDimX = work->block[0],
		.blockDimY = work->block[1],
		.blockDimZ = work->block[2],
		.sharedMemBytes = work->shared_dynamic,
		.kernelParams = work->has_buffer ? NULL : node->param_pointers,
		.extra = work->has_buffer ? node->param_pointers : NULL,
		.ctx = work->context};
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	CUresult result = cuGraphKernelNodeGetParams_v2(hNode, &wide);

	if (result != CUDA_SUCCESS || !nodeParams)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
	memcpy(nodeParams, &wide, sizeof(*nodeParams));
	return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = node_get(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = node->work.copy.desc;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	const struct fill_work *fill;
	const struct node *node;

	ENTER(CALL_INIT);
	node = node_get(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill = &node->work.fill;
	*nodeParams = (CUDA_MEMSET_NODE_PARAMS){.dst = fill->dst,
		.pitch = fill->pitch,
		.value = fill->value,
		.elementSize = fill->unit,
		.width = fill->width / fill->unit,
		.height = fill->height};
	return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = node_get(hNode, CU_GRAPH_NODE_TYPE_HOST);
	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = (CUDA_HOST_NODE_PARAMS){node->work.host.fn, node->work.host.user};
	return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeGetParams(
	CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = node_get(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	if (!node || !nodeParams_out)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = (CUcontext)context_current(),
		.count = node->work.memops.n_ops,
		.paramArray = node->work.memops.ops};
	return CUDA_SUCCESS;
}
