/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conditions and conditional nodes. Any thread of the application, under the lock of all
 * graphs.
 *
 * Invariant: what a graph with conditional nodes may contain is checked when the graph is
 * made executable, as the driver does it.
 */

#include "conditional.h"

#include "calls_graph.h"
#include "wire.h"
#include "client/util/compat.h"
#include "client/transport/route.h"
#include "client/context/context.h"
#include "client/context/context_share.h"

static struct graph *outermost(const struct graph *graph)
{
	while (graph->parent)
		graph = graph->parent->graph;
	return (struct graph *)graph;
}

bool graph_is_in_body(const struct graph *graph)
{
	while (graph->parent && graph->parent->op.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		graph = graph->parent->graph;
	return graph->parent;
}

bool graph_is_conditional(const struct graph *graph)
{
	struct graph_node *node = graph->first;

	if (graph->n_conditions > 0)
		return true;
	while (node && node->op.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		node = graph_next(graph, node);
	return node || graph_is_in_body(graph);
}

static bool condition_is_used(const struct graph *graph, CUgraphConditionalHandle handle)
{
	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		if (node->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
			node->op.conditional.handle == handle)
			return true;
	return false;
}

static CUresult condition_add(struct graph *graph, const struct condition *condition)
{
	struct condition *grown;

	if (graph->n_conditions == WIRE_GRAPH_CONDITIONS_MAX)
		return refuse("cuGraphConditionalHandleCreate",
			"a graph can have at most 1024 conditional handles");
	if (graph->n_conditions > 0 && context_share_id(graph->conditions->context) !=
					       context_share_id(condition->context))
		return refuse("cuGraphConditionalHandleCreate",
			"all conditional handles of a graph must be of contexts with the same SMs");
	grown = array_resize(graph->conditions, graph->n_conditions + 1, sizeof(*grown));
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->conditions = grown;
	grown[graph->n_conditions++] = *condition;
	return CUDA_SUCCESS;
}

CUresult local_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
	CUcontext ctx, unsigned int defaultLaunchValue, unsigned int flags)
{
	struct condition condition = {
		.default_value = defaultLaunchValue,
		.is_assigned = flags & CU_GRAPH_COND_ASSIGN_DEFAULT,
	};
	struct context *context;
	struct graph *graph;
	CUresult result = context_named_active(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	GRAPHS_LOCKED;
	graph = graph_find(hGraph);
	if (!graph || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT))
		return CUDA_ERROR_INVALID_VALUE;
	graph = outermost(graph);
	condition.context = context;
	result = condition_add(graph, &condition);
	if (result == CUDA_SUCCESS)
		*pHandle_out = graph->n_conditions;
	return result;
}

static bool size_is_right(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	switch (params->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return params->size == 1 || params->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return params->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return params->size > 0;
	default:
		return false;
	}
}

static CUresult bodies_new(struct node_op_conditional *conditional, uint32_t n)
{
	CUresult result = CUDA_SUCCESS;

	conditional->bodies = calloc(n, sizeof(struct graph *));
	if (!conditional->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		result = graph_new(&conditional->bodies[i]);
		conditional->n_bodies += result == CUDA_SUCCESS;
	}
	return result;
}

CUresult node_op_conditional(
	struct graph *graph, const CUDA_CONDITIONAL_NODE_PARAMS *params, struct node_op *ret_op)
{
	const struct graph *outer = graph ? outermost(graph) : NULL;
	struct context *context;
	CUresult result;

	if (!params->ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = context_named(params->ctx, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!graph || !size_is_right(params) || params->handle == 0 ||
		params->handle > outer->n_conditions || condition_is_used(outer, params->handle) ||
		outer->conditions[params->handle - 1].context != context)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->size > WIRE_GRAPH_BODIES_MAX)
		return refuse("cuGraphAddNode", "a graph can have at most 1024 bodies");
	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	ret_op->conditional.handle = params->handle;
	ret_op->conditional.type = params->type;
	result = bodies_new(&ret_op->conditional, params->size);
	if (result != CUDA_SUCCESS)
		node_op_fini(ret_op);
	return result;
}

/* What the driver says of a node in a body. */
static CUgraphInstantiateResult check_in_body(
	const struct graph_node *node, const struct context *context)
{
	const struct box *box = &node->op.copy.box;

	switch (node->op.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return node->op.kernel.context == context
			       ? CUDA_GRAPH_INSTANTIATE_SUCCESS
			       : CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return box->dst.is_ours && box->src.is_ours
			       ? CUDA_GRAPH_INSTANTIATE_SUCCESS
			       : CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_GRAPH:
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return CUDA_GRAPH_INSTANTIATE_SUCCESS;
	default:
		return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	}
}

static bool is_too_deep(const struct graph *graph)
{
	uint32_t depth = 0;

	for (; graph->parent; graph = graph->parent->graph)
		depth += graph->parent->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
	return depth > WIRE_GRAPH_DEPTH_MAX;
}

/* Each condition has at most one node. */
static bool all_are_used(const struct graph *graph)
{
	uint32_t n_used = 0;

	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		n_used += node->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
	return n_used == graph->n_conditions;
}

CUgraphInstantiateResult graph_conditional_check(
	const struct graph *graph, const struct graph_node **ret_node)
{
	CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	*ret_node = NULL;
	if (graph->n_conditions == 0)
		return result;
	if (!all_are_used(graph))
		return CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
	for (struct graph_node *node = graph->first;
		node && result == CUDA_GRAPH_INSTANTIATE_SUCCESS; node = graph_next(graph, node)) {
		if (!graph_is_in_body(node->graph))
			continue;
		*ret_node = node;
		result = check_in_body(node, graph->conditions->context);
		if (result == CUDA_GRAPH_INSTANTIATE_SUCCESS && is_too_deep(node->graph)) {
			(void)refuse("cuGraphInstantiate",
				"conditional nodes can be nested 128 deep at most");
			result = CUDA_GRAPH_INSTANTIATE_ERROR;
		}
	}
	if (result == CUDA_GRAPH_INSTANTIATE_SUCCESS)
		*ret_node = NULL;
	return result;
}
