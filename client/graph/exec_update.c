/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changing executable graphs: one node, whether a node is enabled, or all nodes to
 * match another graph of the same shape. Any thread of the application.
 *
 * Invariant: a change that the driver would refuse is refused here, before any part
 * of it has been sent.
 */

#include <string.h>

#include "calls_graph.h"
#include "exec.h"
#include "node_calls.h"
#include "client/transport/server_link.h"
#include "client/context/context_share.h"

static bool box_is_line(const struct box *box)
{
	return box->height == 1 && box->depth == 1;
}

static bool same_shape(const struct box *one, const struct box *other)
{
	return one->width == other->width && one->height == other->height &&
	       one->depth == other->depth;
}

/* Both ends must keep their kinds of memory. */
static bool copy_can_be(const struct node_op *old, const struct node_op *op, bool is_one_node)
{
	const struct box *one = &old->copy.box, *other = &op->copy.box;

	if (is_one_node && (old->copy.desc.dstMemoryType != op->copy.desc.dstMemoryType ||
				   old->copy.desc.srcMemoryType != op->copy.desc.srcMemoryType))
		return false;
	if (one->dst.is_ours != other->dst.is_ours || one->src.is_ours != other->src.is_ours ||
		!one->dst.array != !other->dst.array || !one->src.array != !other->src.array)
		return false;
	if (is_one_node)
		return box_is_line(one) && box_is_line(other);
	return same_shape(one, other) || (box_is_line(one) && box_is_line(other));
}

static bool fill_can_be(const struct fill *old, const struct fill *fill)
{
	if (old->rows > 1 || fill->rows > 1)
		return old->width == fill->width && old->count == fill->count &&
		       old->rows == fill->rows && old->pitch == fill->pitch;
	return true;
}

static bool memory_ops_can_be(
	const struct node_op_memory_ops *old, const struct node_op_memory_ops *ops)
{
	if (old->n_ops != ops->n_ops)
		return false;
	for (uint32_t i = 0; i < ops->n_ops; i++)
		if (old->ops[i].operation != ops->ops[i].operation)
			return false;
	return true;
}

static bool can_be(const struct node_op *old, const struct node_op *op, bool is_one_node)
{
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_can_be(old, op, is_one_node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fill_can_be(&old->fill, &op->fill);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return memory_ops_can_be(&old->memory_ops, &op->memory_ops);
	default:
		return true;
	}
}

/* Takes ownership of `op' if `result' is CUDA_SUCCESS. */
static CUresult exec_set_node(CUgraphExec handle, CUgraphNode node_handle, CUgraphNodeType type,
	CUresult result, struct node_op *op)
{
	struct exec *exec = exec_find(handle);
	struct graph_node *node = exec ? exec_node(exec, node_handle) : NULL;
	const struct graph_node *error;

	if (result != CUDA_SUCCESS)
		return result;
	if (!node || node->op.type != type || node_op_is_memory(op) ||
		!can_be(&node->op, op, true)) {
		node_op_fini(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Keep the node's attributes, which the description does not include. */
	if (type == CU_GRAPH_NODE_TYPE_KERNEL)
		op->kernel.launch.attrs = node->op.kernel.launch.attrs;
	result = exec_send_change(exec, node, op);
	/* A kernel was checked completely; if the driver refuses it, a launch reports that. */
	if (result != CUDA_SUCCESS || type == CU_GRAPH_NODE_TYPE_KERNEL ||
		type == CU_GRAPH_NODE_TYPE_HOST)
		return result;
	result = exec_confirm(exec, &error);
	/* The server's memory may be of another kind where the program's memory is of one. */
	if (result == CUDA_ERROR_INVALID_VALUE &&
		(type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET))
		result = exec_remake(exec, exec->image, &error);
	return result;
}

CUresult graph_exec_set_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
	const void *params, CUcontext context)
{
	CUresult result = node_op_context(context);
	struct node_op op;

	GRAPHS_LOCKED;
	if (result == CUDA_SUCCESS)
		result = node_op_make(type, params, &op);
	return exec_set_node(exec, node, type, result, &op);
}

CUresult local_cuGraphExecKernelNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	return graph_exec_set_node(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL,
		widen_kernel_params(nodeParams, &wide), NULL);
}

CUresult local_cuGraphExecNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct node_op op;
	CUresult result;

	if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return local_cuGraphExecChildGraphNodeSetParams(
			hGraphExec, hNode, nodeParams->graph.graph);
	GRAPHS_LOCKED;
	result = node_op_any(nodeParams, &op);
	return result == CUDA_SUCCESS ? exec_set_node(hGraphExec, hNode, op.type, result, &op)
				      : result;
}

/* Only some types of nodes can be disabled. */
static struct graph_node *find_switchable(
	CUgraphExec exec_handle, CUgraphNode handle, struct exec **ret_exec)
{
	struct exec *exec = exec_find(exec_handle);
	struct graph_node *node = exec ? exec_node(exec, handle) : NULL;

	*ret_exec = exec;
	if (!node)
		return NULL;
	return node->op.type == CU_GRAPH_NODE_TYPE_KERNEL ||
			       node->op.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
			       node->op.type == CU_GRAPH_NODE_TYPE_MEMSET
		       ? node
		       : NULL;
}

CUresult local_cuGraphNodeSetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct graph_node *node;
	struct exec *exec;

	GRAPHS_LOCKED;
	node = find_switchable(hGraphExec, hNode, &exec);
	return node ? exec_enable(exec, node, isEnabled != 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuGraphNodeGetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	const struct graph_node *node;
	struct exec *exec;

	GRAPHS_LOCKED;
	node = find_switchable(hGraphExec, hNode, &exec);
	if (!node || !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = !node->is_disabled;
	return CUDA_SUCCESS;
}

/* ---- all nodes */

struct update {
	CUgraphExecUpdateResult result;
	const struct graph_node *node, *from; /* in the new graph */
};

static bool update_fail(struct update *update, CUgraphExecUpdateResult why,
	const struct graph_node *node, const struct graph_node *from)
{
	*update = (struct update){why, node, from};
	return false;
}

/* Pairs nodes in the order of their creation; `first' of a new node is the index of its partner. */
static bool edges_match(
	struct update *update, const struct graph_node *old, const struct graph_node *node)
{
	if (old->n_before != node->n_before)
		return update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, NULL);
	for (uint32_t i = 0; i < node->n_before; i++) {
		const struct edge *edge = &node->before[i];
		uint32_t k = 0;

		while (k < old->n_before &&
			(old->before[k].node->first != edge->node->first ||
				memcmp(&old->before[k].data, &edge->data, sizeof(edge->data)) != 0))
			k++;
		if (k == old->n_before)
			return update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
				node, edge->node);
	}
	return true;
}

static bool kernel_matches(
	struct update *update, const struct graph_node *old, const struct graph_node *node)
{
	const struct launch_attrs *one = &old->op.kernel.launch.attrs;
	const struct launch_attrs *other = &node->op.kernel.launch.attrs;

	if (one->attr_mask == other->attr_mask && !memcmp(one->cluster, other->cluster, 12) &&
		one->cluster_policy == other->cluster_policy && one->priority == other->priority)
		return true;
	return update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, node, NULL);
}

static bool conditionals_match(
	const struct node_op_conditional *old, const struct node_op_conditional *conditional)
{
	return old->handle == conditional->handle && old->type == conditional->type &&
	       old->n_bodies == conditional->n_bodies;
}

static bool inner_graphs_match(
	struct update *update, const struct graph_node *old, const struct graph_node *node)
{
	struct graph *const *ours, *const *theirs;
	uint32_t n = node_inner_graphs(node, &theirs);

	node_inner_graphs(old, &ours);
	for (uint32_t i = 0; i < n; i++)
		if (ours[i]->n_nodes != theirs[i]->n_nodes)
			return update_fail(
				update, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, NULL);
	return true;
}

static bool node_matches(
	struct update *update, const struct graph_node *old, const struct graph_node *node)
{
	if (old->op.type != node->op.type)
		return update_fail(
			update, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node, NULL);
	if (!can_be(&old->op, &node->op, false))
		return update_fail(
			update, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node, NULL);
	if (node->op.type == CU_GRAPH_NODE_TYPE_KERNEL)
		return kernel_matches(update, old, node);
	if (node->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
		!conditionals_match(&old->op.conditional, &node->op.conditional))
		return update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, node, NULL);
	return inner_graphs_match(update, old, node);
}

static bool conditions_match(const struct graph *image, const struct graph *graph)
{
	return image->n_conditions == graph->n_conditions &&
	       (graph->n_conditions == 0 || context_share_id(image->conditions->context) ==
						    context_share_id(graph->conditions->context));
}

/* In the driver's graph a condition keeps its default value. */
static bool defaults_match(const struct graph *image, const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->n_conditions; i++)
		if (image->conditions[i].default_value != graph->conditions[i].default_value ||
			image->conditions[i].is_assigned != graph->conditions[i].is_assigned)
			return false;
	return true;
}

static bool graphs_match(
	struct update *update, const struct graph *image, const struct graph *graph)
{
	struct graph_node *old = image->first, *node = graph->first;

	if (image->n_nodes != graph->n_nodes)
		return update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
	for (; node; node = graph_next(graph, node), old = graph_next(image, old)) {
		node->first = old->first;
		if (!node_matches(update, old, node))
			return false;
	}
	old = image->first;
	for (node = graph->first; node;
		node = graph_next(graph, node), old = graph_next(image, old))
		if (!edges_match(update, old, node))
			return false;
	return conditions_match(image, graph) ||
	       update_fail(update, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, NULL, NULL);
}

static bool kernel_is(const struct node_op_kernel *one, const struct node_op_kernel *other)
{
	return one->kernel == other->kernel && one->params_size == other->params_size &&
	       !memcmp(one->launch.grid, other->launch.grid, sizeof(one->launch.grid)) &&
	       !memcmp(one->launch.block, other->launch.block, sizeof(one->launch.block)) &&
	       one->launch.shared_bytes == other->launch.shared_bytes &&
	       !memcmp(one->params, other->params, one->params_size);
}

/* Whether nothing has to be sent. Other types are rare, so they are always sent. */
static bool node_op_is_same(const struct node_op *one, const struct node_op *other)
{
	switch (one->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel_is(&one->kernel, &other->kernel);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return one->memory == other->memory;
	case CU_GRAPH_NODE_TYPE_GRAPH:
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return true;
	default:
		return false;
	}
}

static CUresult send_changes(struct update *update, struct exec *exec, const struct graph *image,
	const struct graph *graph)
{
	struct graph_node *old = image->first, *node = graph->first;
	const struct graph_node *error = NULL;
	CUresult result = CUDA_SUCCESS;

	for (; node && result == CUDA_SUCCESS;
		node = graph_next(graph, node), old = graph_next(image, old)) {
		struct node_op op;

		if (node_op_is_same(&old->op, &node->op))
			continue;
		update->node = node;
		result = node_op_dup(&node->op, &op);
		if (result == CUDA_SUCCESS)
			result = exec_send_change(exec, old, &op);
	}
	if (result != CUDA_SUCCESS)
		return result;
	update->node = NULL;
	result = exec_confirm(exec, &error);
	for (node = graph->first; node && error; node = graph_next(graph, node))
		if (node->first == error->first)
			update->node = node;
	return result;
}

/* Updates the nodes of the image, or of a child in it, from the new graph's nodes. */
static bool nodes_update(
	struct update *update, struct exec *exec, struct graph *image, const struct graph *graph)
{
	CUresult result;

	*update = (struct update){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	/* Memory keeps its address, as in the driver. */
	if (graph->has_memory || image->has_memory)
		return false;
	update->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	if (!graphs_match(update, image, graph))
		return false;
	result = defaults_match(image, graph) ? send_changes(update, exec, image, graph)
					      : exec_remake(exec, graph, &update->node);
	if (result != CUDA_SUCCESS)
		update->result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	return result == CUDA_SUCCESS;
}

/* CUDA_SUCCESS, `failure', or the error of all calls after a fault. */
static CUresult update_all(struct update *update, struct exec *exec, struct graph *image,
	const struct graph *graph, CUresult failure)
{
	CUresult lost;

	if (nodes_update(update, exec, image, graph))
		return CUDA_SUCCESS;
	lost = server_link_check(&server);
	if (lost == CUDA_SUCCESS)
		return failure;
	*update = (struct update){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	return lost;
}

CUresult local_cuGraphExecUpdate_v2(
	CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	struct update update = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	const struct graph *graph;
	struct exec *exec;

	GRAPHS_LOCKED;
	exec = exec_find(hGraphExec);
	graph = graph_find(hGraph);
	if (exec && graph && !graph->is_moved &&
		!(graph->has_memory && exec_is_of(graph->unique, exec)))
		result = update_all(
			&update, exec, exec->image, graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	*resultInfo = (CUgraphExecUpdateResultInfo){
		.result = update.result,
		.errorNode = (CUgraphNode)update.node,
		.errorFromNode = (CUgraphNode)update.from,
	};
	return result;
}

CUresult local_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
	CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	CUresult result = local_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	*updateResult_out = info.result;
	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	return result;
}

CUresult local_cuGraphExecChildGraphNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	const struct graph *graph;
	const struct graph_node *node;
	struct update update;
	struct exec *exec;

	GRAPHS_LOCKED;
	exec = exec_find(hGraphExec);
	graph = graph_find(childGraph);
	node = exec ? exec_node(exec, hNode) : NULL;
	if (!graph || !node || node->op.type != CU_GRAPH_NODE_TYPE_GRAPH || graph->has_memory)
		return CUDA_ERROR_INVALID_VALUE;
	return update_all(&update, exec, node->op.child, graph, CUDA_ERROR_INVALID_VALUE);
}
