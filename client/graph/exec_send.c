/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends executable graphs to the server: nodes, then edges, without waiting, then
 * one question about the result. Any thread of the application, under the lock of
 * all graphs.
 *
 * Invariant: the server's nodes of one node have consecutive numbers, and each
 * waits for the one before. A child graph has one server node at its start and one
 * at its end.
 */

#include "exec.h"
#include "client/util/compat.h"
#include "client/context/context_share.h"
#include "client/stream/event.h"
#include "client/memory/host.h"
#include "send_graph.h"

#define BOUNCE_KIND MEMORY_PINNED

struct edges {
	uint32_t graph, n;
	struct graph_edge list[WIRE_GRAPH_EDGES_MAX / 16];
};

static CUresult edges_flush(struct edges *edges)
{
	uint32_t n = edges->n;

	edges->n = 0;
	return n > 0 ? send_graph_edges(edges->graph, edges->list, n) : CUDA_SUCCESS;
}

/* Adds an edge from the end of node `from' if `data' is NULL. */
static CUresult edges_add(
	struct edges *edges, uint32_t from, uint32_t to, const CUgraphEdgeData *data)
{
	struct graph_edge *edge = &edges->list[edges->n++];

	*edge = (struct graph_edge){.from = from, .to = to};
	if (data) {
		edge->from_port = data->from_port;
		edge->to_port = data->to_port;
		edge->type = data->type;
	}
	return edges->n < ARRAY_SIZE(edges->list) ? CUDA_SUCCESS : edges_flush(edges);
}

const struct exec_bounce *exec_bounce(const struct exec *exec, const struct graph_node *node)
{
	for (uint32_t i = 0; i < exec->n_bounces; i++)
		if (exec->bounces[i].node == node)
			return &exec->bounces[i];
	return NULL;
}

/* Chooses the larger part if the memory spans two pieces of pinned memory. */
static void bounce_place(struct exec_bounce *bounce)
{
	uint64_t first = MIN(bounce->size, HOST_PIECE - bounce->allocated % HOST_PIECE);

	bounce->address = bounce->allocated;
	if (first < bounce->size - first) {
		bounce->address += first;
		first = bounce->size - first;
	}
	bounce->size = first;
}

static CUresult bounce_new(struct exec *exec, const struct graph_node *node, uint64_t size)
{
	struct memory_range range = {.size = size, .kind = BOUNCE_KIND, .context = exec->context};
	struct exec_bounce *grown =
		array_resize(exec->bounces, exec->n_bounces + 1, sizeof(*grown));
	CUresult result;

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->bounces = grown;
	result = host_new(&range);
	if (result != CUDA_SUCCESS)
		return result;
	grown[exec->n_bounces] = (struct exec_bounce){node, range.address, 0, size};
	bounce_place(&grown[exec->n_bounces++]);
	return CUDA_SUCCESS;
}

static CUresult exec_lower(const struct exec *exec, const struct graph_node *node,
	const struct node_op *op, struct lowering *lowering)
{
	const struct exec_bounce *bounce = exec_bounce(exec, node);

	return lowering_make(op, bounce ? bounce->address : 0, bounce ? bounce->size : 0, lowering);
}

static CUresult send_kernel(uint32_t graph, uint32_t number, const struct node_op_kernel *kernel)
{
	const struct launch *launch = &kernel->launch;

	return send_graph_kernel(graph, number, context_share_id(kernel->context),
		kernel_id(kernel->kernel), launch->grid, launch->block, launch->shared_bytes,
		launch->attrs.attr_mask, launch->attrs.cluster, launch->attrs.cluster_policy,
		launch->attrs.priority, kernel->params, kernel->params_size);
}

static CUresult send_event(uint32_t graph, uint32_t number, const struct node_op *op)
{
	const struct event *event = op->event.event;

	if (!slab_find(&events, event) || event->serial != op->event.serial)
		return CUDA_ERROR_INVALID_HANDLE;
	return send_graph_event(
		graph, number, slab_id(&events, event), op->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static CUresult send_conditional(
	uint32_t graph, uint32_t number, const struct node_op_conditional *conditional)
{
	return send_graph_conditional(graph, number, (uint32_t)conditional->handle,
		(uint32_t)conditional->type, conditional->n_bodies);
}

static CUresult send_node_op(uint32_t graph, uint32_t number, const struct node_op *op)
{
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return send_kernel(graph, number, &op->kernel);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return send_graph_memory_ops(
			graph, number, op->memory_ops.ops, op->memory_ops.n_ops);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return send_conditional(graph, number, &op->conditional);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return send_event(graph, number, op);
	default:
		return send_graph_empty(graph, number);
	}
}

static CUresult send_copy_of_array(uint32_t graph, uint32_t number, const struct box *box,
	const struct box_end *in, const struct box_end *line, bool is_out)
{
	return send_graph_copy_array(graph, number, array_id(in->array), is_out, in->x, in->y,
		in->z, line->address, line->pitch, line->rows, box->width, box->height, box->depth);
}

static CUresult send_copy(uint32_t graph, uint32_t number, const struct box *box)
{
	const struct box_end *dst = &box->dst, *src = &box->src;

	if (dst->array && src->array)
		return send_graph_copy_arrays(graph, number, array_id(dst->array),
			array_id(src->array), dst->x, dst->y, dst->z, src->x, src->y, src->z,
			box->width, box->height, box->depth);
	if (dst->array)
		return send_copy_of_array(graph, number, box, dst, src, false);
	if (src->array)
		return send_copy_of_array(graph, number, box, src, dst, true);
	return send_graph_copy(graph, number, dst->address, src->address, dst->pitch, src->pitch,
		dst->rows, src->rows, box->width, box->height, box->depth);
}

static CUresult send_lowered_node(struct exec *exec, uint32_t number, const struct node_op *op,
	const struct lowered_node *lowered)
{
	const struct fill *fill = &lowered->fill;
	uint32_t graph = exec_id(exec);

	exec->prints |= op->type == CU_GRAPH_NODE_TYPE_KERNEL && op->kernel.kernel->prints;
	switch (lowered->kind) {
	case LOWERED_COPY:
		return send_copy(graph, number, &lowered->copy);
	case LOWERED_FILL:
		return send_graph_fill(graph, number, fill->dst, fill->value, fill->width,
			fill->count, fill->pitch, fill->rows);
	case LOWERED_OP:
		return send_node_op(graph, number, op);
	default:
		return send_graph_empty(graph, number);
	}
}

/* A call keeps its semaphores until the whole graph ends. */
static CUresult send_call(struct exec *exec, struct graph_node *node, uint32_t number,
	const struct lowered_node *lowered)
{
	struct exec_call *call;
	CUresult result;

	if (exec->n_calls == exec->n_calls_max) {
		uint32_t n_max = MAX(2 * exec->n_calls_max, 4u);

		call = array_resize(exec->calls, n_max, sizeof(*call));
		if (!call)
			return CUDA_ERROR_OUT_OF_MEMORY;
		exec->calls = call;
		exec->n_calls_max = n_max;
	}
	call = &exec->calls[exec->n_calls];
	*call = (struct exec_call){.node = node, .number = number, .chunk = lowered->chunk};
	result = call_take(&call->call);
	if (result != CUDA_SUCCESS)
		return result;
	exec->n_calls++;
	return send_graph_call(exec_id(exec), number, call->call);
}

/* Each conditional node's bodies get the next numbers. A child graph lies where its node lies. */
static void number_bodies(struct exec *exec, const struct graph_node *node)
{
	struct graph *const *inner;
	uint32_t n = node_inner_graphs(node, &inner);

	for (uint32_t i = 0; i < n; i++)
		inner[i]->body = node->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL
					 ? ++exec->n_bodies
					 : node->graph->body;
}

/* Makes the server add what follows to the graph or body of the node. */
static CUresult enter_body(const struct exec *exec, const struct graph_node *node, uint32_t *body)
{
	if (node->graph->body == *body)
		return CUDA_SUCCESS;
	*body = node->graph->body;
	return send_graph_body(exec_id(exec), *body);
}

static CUresult send_node(struct exec *exec, struct graph_node *node)
{
	_cleanup_(lowering_fini) struct lowering lowering = {0};
	uint64_t bounce_size = lowering_bounce_size(&node->op);
	uint32_t id = exec_id(exec);
	CUresult result = CUDA_SUCCESS;

	node->first = exec->n_numbers;
	number_bodies(exec, node);
	if (bounce_size > 0)
		result = bounce_new(exec, node, bounce_size);
	if (result == CUDA_SUCCESS)
		result = exec_lower(exec, node, &node->op, &lowering);
	for (uint32_t i = 0; i < lowering.n && result == CUDA_SUCCESS; i++) {
		uint32_t number = exec->n_numbers++;

		result = lowering.list[i].kind == LOWERED_CALL
				 ? send_call(exec, node, number, &lowering.list[i])
				 : send_lowered_node(exec, number, &node->op, &lowering.list[i]);
	}
	/* The end node is sent with the start node; edges make it the end. */
	if (node->op.type == CU_GRAPH_NODE_TYPE_GRAPH && result == CUDA_SUCCESS)
		result = send_graph_empty(id, exec->n_numbers++);
	node->last = exec->n_numbers - 1;
	return result;
}

static CUresult send_child_edges(struct edges *edges, const struct graph_node *child)
{
	CUresult result = CUDA_SUCCESS;

	if (!child->op.child->first)
		return edges_add(edges, child->first, child->last, NULL);
	for (const struct graph_node *node = child->op.child->first; node && result == CUDA_SUCCESS;
		node = node->next) {
		if (node->n_before == 0)
			result = edges_add(edges, child->first, node->first, NULL);
		if (node->n_after == 0 && result == CUDA_SUCCESS)
			result = edges_add(edges, node->last, child->last, NULL);
	}
	return result;
}

/* What only captures make has no meaning: the node then waits for the end of the one before. */
static const CUgraphEdgeData *data_to_send(const struct edge *edge, const struct graph_node *node)
{
	return edge_data_ok(edge->node, node->op.type, &edge->data) ? &edge->data : NULL;
}

static CUresult send_edges_of(struct edges *edges, const struct graph_node *node)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < node->n_before && result == CUDA_SUCCESS; i++)
		result = edges_add(edges, node->before[i].node->last, node->first,
			data_to_send(&node->before[i], node));
	if (result == CUDA_SUCCESS && node->op.type == CU_GRAPH_NODE_TYPE_GRAPH)
		return send_child_edges(edges, node);
	for (uint32_t i = node->first; i < node->last && result == CUDA_SUCCESS; i++)
		result = edges_add(edges, i, i + 1, NULL);
	return result;
}

/* The node that contains the server's node `number'; NULL: there is none. */
static const struct graph_node *node_by_number(const struct exec *exec, uint32_t number)
{
	for (struct graph_node *node = exec->image->first; node;
		node = graph_next(exec->image, node))
		if (number >= node->first && number <= node->last &&
			(node->op.type != CU_GRAPH_NODE_TYPE_GRAPH || number == node->first))
			return node;
	return NULL;
}

static CUresult send_conditions(const struct exec *exec)
{
	const struct graph *image = exec->image;
	struct graph_condition list[WIRE_GRAPH_CONDITIONS_MAX];

	if (image->n_conditions == 0)
		return CUDA_SUCCESS;
	for (uint32_t i = 0; i < image->n_conditions; i++)
		list[i] = (struct graph_condition){
			image->conditions[i].default_value, image->conditions[i].is_assigned};
	return send_graph_conditions(exec_id(exec), context_share_id(image->conditions->context),
		list, image->n_conditions);
}

static CUresult send_nodes(struct exec *exec, const struct graph_node **ret_error)
{
	struct graph *image = exec->image;
	uint32_t body = 0;
	CUresult result = send_conditions(exec);

	for (struct graph_node *node = image->first; node && result == CUDA_SUCCESS;
		node = graph_next(image, node)) {
		result = enter_body(exec, node, &body);
		if (result == CUDA_SUCCESS)
			result = send_node(exec, node);
		if (result != CUDA_SUCCESS)
			*ret_error = node;
	}
	return result;
}

CUresult exec_send(struct exec *exec, const struct graph_node **ret_error)
{
	struct edges edges = {.graph = exec_id(exec)};
	uint32_t error_node = UINT32_MAX;
	CUresult result = send_graph_begin(exec_id(exec), exec->context->device->index);
	struct graph *image = exec->image;

	*ret_error = NULL;
	if (result == CUDA_SUCCESS)
		result = send_nodes(exec, ret_error);
	for (struct graph_node *node = image->first; node && result == CUDA_SUCCESS;
		node = graph_next(image, node))
		result = send_edges_of(&edges, node);
	if (result == CUDA_SUCCESS)
		result = edges_flush(&edges);
	if (result != CUDA_SUCCESS)
		return result;
	result = send_graph_instantiate(exec_id(exec), exec->n_numbers,
		(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0, &error_node);
	if (result != CUDA_SUCCESS)
		*ret_error = node_by_number(exec, error_node);
	return result;
}

bool exec_is_call(const struct exec *exec, uint32_t number)
{
	for (uint32_t i = 0; i < exec->n_calls; i++)
		if (exec->calls[i].number == number)
			return true;
	return false;
}

CUresult exec_enable(const struct exec *exec, struct graph_node *node, bool is_enabled)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = node->first; i <= node->last && result == CUDA_SUCCESS; i++)
		if (!exec_is_call(exec, i))
			result = send_graph_enable(exec_id(exec), i, is_enabled);
	if (result == CUDA_SUCCESS)
		node->is_disabled = !is_enabled;
	return result;
}

static void set_chunk(struct exec *exec, uint32_t number, const struct box_chunk *chunk)
{
	for (uint32_t i = 0; i < exec->n_calls; i++)
		if (exec->calls[i].number == number)
			exec->calls[i].chunk = *chunk;
}

/* Whether the lowered nodes are of the same kinds as before the change. */
static bool lowering_fit(
	const struct exec *exec, const struct graph_node *node, const struct lowering *lowering)
{
	if (lowering->n != node->last - node->first + 1)
		return false;
	for (uint32_t i = 0; i < lowering->n; i++)
		if ((lowering->list[i].kind == LOWERED_CALL) != exec_is_call(exec, node->first + i))
			return false;
	return true;
}

CUresult exec_send_change(struct exec *exec, struct graph_node *node, struct node_op *op)
{
	_cleanup_(lowering_fini) struct lowering lowering = {0};
	CUresult result = exec_lower(exec, node, op, &lowering);

	if (result == CUDA_SUCCESS && !lowering_fit(exec, node, &lowering))
		result = CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < lowering.n && result == CUDA_SUCCESS; i++) {
		if (lowering.list[i].kind == LOWERED_CALL)
			set_chunk(exec, node->first + i, &lowering.list[i].chunk);
		else
			result = send_lowered_node(exec, node->first + i, op, &lowering.list[i]);
	}
	if (result != CUDA_SUCCESS) {
		node_op_fini(op);
		return result;
	}
	return node_set(node, op);
}

CUresult exec_confirm(struct exec *exec, const struct graph_node **ret_error)
{
	uint32_t error_node = UINT32_MAX;
	CUresult result = send_graph_update_result(exec_id(exec), &error_node);

	*ret_error = result == CUDA_SUCCESS ? NULL : node_by_number(exec, error_node);
	return result;
}
