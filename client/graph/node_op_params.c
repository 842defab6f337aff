/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Converts the driver's descriptions of nodes to node ops. Any thread of the
 * application, without the lock of graphs but for node_op_any().
 *
 * Invariant: a node op that is made here has passed the checks of the same work on
 * a stream.
 */

#include <string.h>

#include "conditional.h"
#include "graph_memory.h"
#include "client/transport/route.h"
#include "client/stream/event.h"
#include "client/memory/memory_op.h"
#include "client/memory/pool_calls.h"

/* The size of a list that launch_params() has accepted. */
static size_t buffer_size(void *const *extra)
{
	size_t size = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2)
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[1];
	return size;
}

/* The buffer has space for the driver's limit, which no kernel exceeds. */
CUresult node_op_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct node_op *ret_op)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct context *context;
	struct kernel *kernel;
	struct launch launch;
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!params || (!params->func && !params->kern))
		return CUDA_ERROR_INVALID_VALUE;
	kernel = params->func ? kernel_find_function(params->func)
			      : kernel_find_kernel(params->kern);
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	context = kernel->library->context;
	if (!params->func && params->ctx)
		result = context_named(params->ctx, &context);
	else if (!context)
		result = context_enter(&context);
	launch = (struct launch){
		.grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
		.block = {params->blockDimX, params->blockDimY, params->blockDimZ},
		.shared_bytes = params->sharedMemBytes,
	};
	if (result == CUDA_SUCCESS)
		result = kernel_measure(kernel);
	if (result == CUDA_SUCCESS)
		result = launch_check(&launch, kernel, context->device);
	if (result != CUDA_SUCCESS)
		return result;
	bytes = malloc(kernel->param_bytes + 1);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = launch_params(kernel, params->kernelParams, params->extra, bytes);
	if (result == CUDA_SUCCESS)
		result = node_op_of_kernel(context, &launch, kernel, bytes, ret_op);
	if (result == CUDA_SUCCESS && params->extra)
		result = node_op_set_buffer(ret_op, buffer_size(params->extra));
	return result;
}

CUresult node_op_context(CUcontext handle)
{
	struct context *context;

	return handle ? context_named_active(handle, &context) : CUDA_SUCCESS;
}

CUresult node_op_copy(const CUDA_MEMCPY3D *params, struct node_op *ret_op)
{
	CUresult result = context_check();

	if (result != CUDA_SUCCESS)
		return result;
	if (!params || params->WidthInBytes == 0 || params->Height == 0 || params->Depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	ret_op->copy.desc = *params;
	return box_read(params, &ret_op->copy.box);
}

CUresult node_op_fill(const CUDA_MEMSET_NODE_PARAMS *params, struct node_op *ret_op)
{
	CUresult result = context_check();

	if (result != CUDA_SUCCESS)
		return result;
	if (!params || params->width == 0 || params->height == 0 ||
		(params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_MEMSET};
	ret_op->fill = (struct fill){
		.dst = params->dst,
		.value = params->value,
		.width = params->elementSize,
		.count = params->width,
		.pitch = params->pitch,
		.rows = params->height,
	};
	return fill_check(&ret_op->fill);
}

CUresult node_op_host(const CUDA_HOST_NODE_PARAMS *params, struct node_op *ret_op)
{
	if (!params || !params->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_op = (struct node_op){
		.type = CU_GRAPH_NODE_TYPE_HOST, .host = {params->fn, params->userData}};
	return CUDA_SUCCESS;
}

CUresult node_op_memory_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct node_op *ret_op)
{
	struct memory_op ops[WIRE_MEMORY_OPS_MAX];
	struct context *context;
	CUresult result = context_check();

	if (result != CUDA_SUCCESS)
		return result;
	if (!params || params->count == 0 || params->count > WIRE_MEMORY_OPS_MAX ||
		!params->paramArray || params->flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_named_active(params->ctx, &context);
	for (unsigned i = 0; i < params->count && result == CUDA_SUCCESS; i++) {
		ops[i] = memory_op_of(&params->paramArray[i]);
		result = memory_op_check(&ops[i]);
	}
	if (result == CUDA_SUCCESS)
		result = node_op_of_memory_ops(ops, params->count, ret_op);
	if (result == CUDA_SUCCESS)
		ret_op->memory_ops.context = params->ctx;
	return result;
}

CUresult node_op_event(CUgraphNodeType type, CUevent handle, struct node_op *ret_op)
{
	struct event *event = slab_find(&events, handle);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	node_op_of_event(type, event, ret_op);
	return CUDA_SUCCESS;
}

CUresult node_op_memory_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct node_op *ret_op)
{
	struct context *context = context_current;
	struct pool *pool;
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!params || params->bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = pool_of_graph(params, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (!context || !context_is_active(context))
		context = pool->device->primary;
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	return graph_memory_new(context, pool, params, &ret_op->memory);
}

CUresult node_op_memory_free(CUdeviceptr address, struct node_op *ret_op)
{
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
	return graph_memory_at(address, &ret_op->memory);
}

static CUresult node_op_child(CUgraph handle, struct node_op *ret_op)
{
	const struct graph *graph = graph_find(handle);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->has_memory || graph_is_conditional(graph))
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_GRAPH};
	return graph_clone(graph, &ret_op->child);
}

static CUresult refuse_type(CUgraphNodeType type)
{
	switch (type) {
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return refuse("cuGraphAddNode", "external semaphores are not supported: they "
						"belong to a context of this process");
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult node_op_make(CUgraphNodeType type, const void *params, struct node_op *ret_op)
{
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return node_op_kernel(params, ret_op);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return node_op_copy(params, ret_op);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return node_op_fill(params, ret_op);
	case CU_GRAPH_NODE_TYPE_HOST:
		return node_op_host(params, ret_op);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return node_op_child(*(const CUgraph *)params, ret_op);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*ret_op = (struct node_op){.type = type};
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return node_op_event(type, *(const CUevent *)params, ret_op);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return node_op_memory_ops(params, ret_op);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return node_op_memory_alloc(params, ret_op);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return node_op_memory_free(*(const CUdeviceptr *)params, ret_op);
	default:
		return refuse_type(type);
	}
}

/* But for copies, the description in the union begins like that of the call for the type. */
CUresult node_op_any(const CUgraphNodeParams *params, struct node_op *ret_op)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	return node_op_make(params->type,
		params->type == CU_GRAPH_NODE_TYPE_MEMCPY ? (const void *)&params->memcpy.copyParams
							  : &params->kernel,
		ret_op);
}

CUresult node_op_set_attribute(
	struct node_op *op, CUlaunchAttributeID name, const CUlaunchAttributeValue *value)
{
	struct launch_attrs attrs = op->kernel.launch.attrs;
	struct launch_hints hints = op->kernel.hints;
	CUresult result = launch_attribute_read(name, value, &attrs, &hints, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	op->kernel.launch.attrs = attrs;
	op->kernel.hints = hints;
	return CUDA_SUCCESS;
}

/* The nearest priority of a stream, like the driver. */
static int priority_of(const struct node_op_kernel *kernel)
{
	const struct device *device = kernel->context->device;
	const struct launch_attrs *attrs = &kernel->launch.attrs;

	if (!(attrs->attr_mask & WIRE_LAUNCH_ATTR_PRIORITY))
		return 0;
	return MAX(device->priority_greatest, MIN(attrs->priority, device->priority_least));
}

static CUresult get_hint(const struct launch_hints *hints, CUlaunchAttributeID name,
	CUlaunchAttributeValue *ret_value)
{
	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		ret_value->accessPolicyWindow = hints->window;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		ret_value->memSyncDomainMap = hints->domains;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		ret_value->sharedMemCarveout = hints->carveout;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		ret_value->deviceUpdatableKernelNode.deviceUpdatable = 0;
		ret_value->deviceUpdatableKernelNode.devNode = NULL;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Writes only the attribute's member of the value, like the driver. */
CUresult node_op_get_attribute(
	const struct node_op *op, CUlaunchAttributeID name, CUlaunchAttributeValue *ret_value)
{
	const struct launch_attrs *attrs = &op->kernel.launch.attrs;
	bool has_cluster = attrs->attr_mask & WIRE_LAUNCH_ATTR_CLUSTER;
	bool has_policy = attrs->attr_mask & WIRE_LAUNCH_ATTR_CLUSTER_POLICY;

	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		ret_value->cooperative = (attrs->attr_mask & WIRE_LAUNCH_ATTR_COOPERATIVE) != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		ret_value->clusterDim.x = has_cluster ? attrs->cluster[0] : 0;
		ret_value->clusterDim.y = has_cluster ? attrs->cluster[1] : 0;
		ret_value->clusterDim.z = has_cluster ? attrs->cluster[2] : 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		ret_value->clusterSchedulingPolicyPreference =
			(CUclusterSchedulingPolicy)(has_policy ? attrs->cluster_policy : 0);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		ret_value->priority = priority_of(&op->kernel);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		ret_value->memSyncDomain = attrs->attr_mask & WIRE_LAUNCH_ATTR_REMOTE_DOMAIN
						   ? CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
						   : CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
		return CUDA_SUCCESS;
	default:
		return get_hint(&op->kernel.hints, name, ret_value);
	}
}
