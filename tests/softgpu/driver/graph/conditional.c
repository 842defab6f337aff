/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of conditions, and conditional nodes in graphs. What the documentation
 * leaves open is as measured with driver 580.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "conditional.h"

#include "graph.h"
#include "tests/softgpu/driver/stream/context.h"

static struct graph *outermost(struct graph *graph)
{
	while (graph->owner)
		graph = graph->owner->graph;
	return graph;
}

static CUresult context_is_given(CUcontext handle)
{
	struct context *context;

	if (!handle || context_get(handle, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->is_active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult condition_new(struct graph *graph, const struct condition *condition,
	CUgraphConditionalHandle *ret_handle)
{
	struct condition *grown =
		realloc(graph->conditions, (graph->n_conditions + 1) * sizeof(*graph->conditions));

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	grown[graph->n_conditions++] = *condition;
	graph->conditions = grown;
	*ret_handle = graph->n_conditions;
	return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
	CUcontext ctx, unsigned int defaultLaunchValue, unsigned int flags)
{
	struct condition condition = {.context = ctx,
		.value = defaultLaunchValue,
		.is_assigned = flags & CU_GRAPH_COND_ASSIGN_DEFAULT};
	struct graph *graph;
	CUresult result;

	ENTER(CALL_INIT);
	graph = object_find(OBJECT_GRAPH, hGraph);
	if (!pHandle_out || !graph || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT))
		return CUDA_ERROR_INVALID_VALUE;
	result = context_is_given(ctx);
	if (result != CUDA_SUCCESS)
		return result;
	/* Clones share a child graph, so it has no outermost graph. */
	if (graph->is_child && !graph->owner)
		return CUDA_ERROR_NOT_SUPPORTED;
	return condition_new(outermost(graph), &condition, pHandle_out);
}

static struct condition *condition_find(struct graph *graph, CUgraphConditionalHandle handle)
{
	graph = outermost(graph);
	return handle >= 1 && handle <= graph->n_conditions ? &graph->conditions[handle - 1] : NULL;
}

static bool size_is_valid(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	switch (params->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return params->size == 1 || params->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return params->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return params->size >= 1;
	default:
		return false;
	}
}

static void bodies_drop(struct node *node)
{
	for (size_t i = 0; i < node->n_bodies; i++)
		graph_unref(node->bodies[i]);
	node->n_bodies = 0;
}

static CUresult bodies_add(struct node *node, size_t n)
{
	node->bodies = calloc(n, sizeof(struct graph *));
	if (!node->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (node->n_bodies < n) {
		struct graph *body = graph_new();

		if (!body)
			return CUDA_ERROR_OUT_OF_MEMORY;
		body->is_child = true;
		body->owner = node;
		node->bodies[node->n_bodies++] = body;
	}
	return CUDA_SUCCESS;
}

static CUresult node_of(struct graph *graph, struct node *const *dependencies, size_t n,
	const CUDA_CONDITIONAL_NODE_PARAMS *params, struct node **ret_node)
{
	struct work work = {.kind = WORK_CONDITIONAL,
		.conditional = {
			.type = params->type, .handle = params->handle, .context = params->ctx}};
	CUresult result =
		node_new(graph, dependencies, n, CU_GRAPH_NODE_TYPE_CONDITIONAL, &work, ret_node);

	if (result != CUDA_SUCCESS)
		return result;
	result = bodies_add(*ret_node, params->size);
	if (result != CUDA_SUCCESS)
		node_destroy(*ret_node);
	return result;
}

CUresult conditional_add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
	size_t n, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	struct graph *graph = object_find(OBJECT_GRAPH, handle);
	struct condition *condition;
	struct node *node;
	CUresult result;

	if (!ret_node || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		if (!dependencies || !object_find(OBJECT_NODE, dependencies[i]))
			return CUDA_ERROR_INVALID_VALUE;
	result = context_is_given(params->ctx);
	if (result != CUDA_SUCCESS)
		return result;
	condition = condition_find(graph, params->handle);
	if (!condition || condition->node || !size_is_valid(params))
		return CUDA_ERROR_INVALID_VALUE;
	result = node_of(graph, (struct node *const *)dependencies, n, params, &node);
	if (result != CUDA_SUCCESS)
		return result;
	condition->node = node;
	params->phGraph_out = (CUgraph *)node->bodies;
	*ret_node = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* Whether `inner' is the node, or within one of its bodies. */
static bool node_holds(const struct node *node, const struct node *inner)
{
	while (inner && inner != node)
		inner = inner->graph->owner;
	return inner;
}

void conditional_release(struct node *node)
{
	struct graph *graph = outermost(node->graph);

	for (uint32_t i = 0; i < graph->n_conditions; i++)
		if (node_holds(node, graph->conditions[i].node))
			graph->conditions[i].node = NULL;
	bodies_drop(node);
}

bool graph_is_conditional(const struct graph *graph)
{
	for (const struct node *node = graph->nodes; node; node = node->next)
		if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			return true;
	return graph->owner;
}

/* ---- which graphs may become executable */

static CUgraphInstantiateResult bodies_check(
	const struct graph *graph, const struct node *node, CUcontext context);

/* Graphs nest. NOLINTBEGIN(misc-no-recursion) */

/* A node of a body whose outermost conditional node is of `context'. */
static CUgraphInstantiateResult body_node_check(
	const struct graph *graph, const struct node *node, CUcontext context);

static CUgraphInstantiateResult body_check(
	const struct graph *graph, const struct graph *body, CUcontext context)
{
	CUgraphInstantiateResult detail = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	for (const struct node *node = body->nodes;
		node && detail == CUDA_GRAPH_INSTANTIATE_SUCCESS; node = node->next)
		detail = body_node_check(graph, node, context);
	return detail;
}

static bool copy_is_pageable(const struct copy_work *copy)
{
	return !copy->is_dst_device || !copy->is_src_device;
}

static CUgraphInstantiateResult body_node_check(
	const struct graph *graph, const struct node *node, CUcontext context)
{
	bool is_one = true;

	switch (node->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return body_check(graph, node->child, context);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return bodies_check(graph, node, context);
	case CU_GRAPH_NODE_TYPE_KERNEL:
		is_one = node->work.kernel.context == context;
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		is_one = !copy_is_pageable(&node->work.copy);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		break;
	default:
		return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	}
	return is_one ? CUDA_GRAPH_INSTANTIATE_SUCCESS
		      : CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
}

static CUgraphInstantiateResult bodies_check(
	const struct graph *graph, const struct node *node, CUcontext context)
{
	const struct conditional_work *work = &node->work.conditional;
	CUgraphInstantiateResult detail = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	if (work->context != context || graph->conditions[work->handle - 1].context != context)
		detail = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
	for (size_t i = 0; i < node->n_bodies && detail == CUDA_GRAPH_INSTANTIATE_SUCCESS; i++)
		detail = body_check(graph, node->bodies[i], context);
	return detail;
}

/* NOLINTEND(misc-no-recursion) */

CUresult conditional_check(const struct graph *graph, CUgraphInstantiateResult *ret_detail)
{
	CUgraphInstantiateResult detail = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	if (graph->owner)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (uint32_t i = 0; i < graph->n_conditions; i++)
		if (!graph->conditions[i].node)
			detail = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
	for (const struct node *node = graph->nodes;
		node && detail == CUDA_GRAPH_INSTANTIATE_SUCCESS; node = node->next)
		if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			detail = bodies_check(graph, node, node->work.conditional.context);
	if (detail == CUDA_GRAPH_INSTANTIATE_SUCCESS)
		return CUDA_SUCCESS;
	*ret_detail = detail;
	return CUDA_ERROR_INVALID_VALUE;
}
