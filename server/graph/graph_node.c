/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Nodes of executable graphs: checked like the work of streams, then added to the graph, or
 * changed in the executable graph. A worker.
 *
 * Invariant: every address of a node belonged to the session when the node was added, and is
 * checked again at a launch after memory of the session was freed.
 */

#include "graph_node.h"

#include <string.h>

#include "graph_change.h"
#include "graph_twin.h"
#include "graph_wait.h"
#include "messages.h"
#include "wire.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/context_share.h"
#include "server/share/graph_end.h"
#include "server/stream/event.h"
#include "server/stream/pending_wait.h"
#include "server/memory/box.h"
#include "server/memory/host.h"
#include "server/memory/memory_op.h"
#include "server/array/array.h"
#include "server/copy/copy.h"
#include "server/copy/copy_kernel.h"
#include "server/module/kernel.h"
#include "server/module/library.h"
#include "server/launch/launch.h"
#include "do_graph.h"

void graph_node_fini(struct graph_node *node, bool device_lost)
{
	for (unsigned i = 0; i < ARRAY_SIZE(node->arrays); i++)
		array_unref(node->arrays[i]);
	if (node->library)
		library_unuse(node->library);
	if (node->event)
		event_unuse(node->event, device_lost);
	context_share_unref(node->share, device_lost);
	account_free(node->ops);
	*node = (struct graph_node){0};
}

static bool ops_ok(struct session *session, const struct graph_node *node)
{
	for (uint32_t i = 0; i < node->n_ops; i++) {
		uint32_t size = memory_op_size(&node->ops[i]);

		if (size > 0 && !memory_check(session, node->ops[i].address, size))
			return false;
	}
	return true;
}

bool graph_spans_ok(struct session *session, const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		const struct graph_node *node = &graph->nodes[i];

		for (unsigned k = 0; k < ARRAY_SIZE(node->spans); k++)
			if (node->spans[k].size > 0 &&
				!memory_find(session, node->spans[k].address, node->spans[k].size))
				return false;
		if (!ops_ok(session, node))
			return false;
	}
	return true;
}

/*
 * The driver will keep `node->kept' bytes for the node. It may also keep what it kept
 * before. After a later failure the charge stays until the graph's end: there is at most one
 * such node.
 */
static bool node_pay(struct session *session, struct graph *graph, const struct graph_node *node,
	uint64_t kept_before)
{
	const uint64_t more = node->kept - MIN(node->kept, kept_before);

	if (more == 0)
		return true;
	if (!account_keep(graph->ending, more))
		return false;
	graph->kept += more;
	graph_twins_keep(session, graph, more);
	return true;
}

CUresult graph_node_find(struct session *session, struct graph *graph, uint32_t number,
	CUgraphNodeType type, uint64_t more, struct graph_node *ret_node)
{
	uint64_t kept_before = 0;

	*ret_node = (struct graph_node){.type = type,
		.kept = KEPT_NODE + more + (graph->body > 0 ? KEPT_IN_BODY : 0),
		.body = graph->body};
	if (graph->real) {
		if (number >= graph->n_nodes || graph->nodes[number].type != type)
			return CUDA_ERROR_INVALID_VALUE;
		ret_node->real = graph->nodes[number].real;
		ret_node->attr_mask = graph->nodes[number].attr_mask;
		ret_node->is_by_kernel = graph->nodes[number].is_by_kernel;
		ret_node->is_disabled = graph->nodes[number].is_disabled;
		ret_node->body = graph->nodes[number].body;
		kept_before = graph->nodes[number].kept;
	} else if (graph->result != CUDA_SUCCESS) {
		return graph->result;
	} else if (number != graph->n_nodes || (graph->body > 0 && !graph_body_may_have(type))) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!node_pay(session, graph, ret_node, kept_before))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ret_node->kept = MAX(ret_node->kept, kept_before);
	if (graph->real)
		graph->nodes[number].kept = ret_node->kept;
	return session_device_enter(session, graph->sdev);
}

static bool node_make_space(struct session *session, struct graph *graph)
{
	return graph_end_take_nodes(graph->ending, 1) &&
	       account_grow_list(session->account, &graph->nodes, graph->n_nodes,
		       &graph->n_nodes_max, sizeof(*graph->nodes));
}

/* The graph may change the session's constants whenever it is launched. */
static __attribute__((noinline)) void note_variables(
	struct session *session, const struct graph_node *node)
{
	for (unsigned k = 0; k < ARRAY_SIZE(node->spans); k++)
		if (node->spans[k].size > 0)
			ranges_note_graph(&session->variables, node->spans[k].address);
	for (uint32_t i = 0; i < node->n_ops; i++)
		ranges_note_graph(&session->variables, node->ops[i].address);
}

CUresult graph_node_put(struct session *session, struct graph *graph, uint32_t number,
	struct graph_node *node, CUresult result)
{
	if (result == CUDA_SUCCESS && !graph->real && !node_make_space(session, graph))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		graph->n_waits += memory_ops_count_waits(node->ops, node->n_ops);
		if (graph->real) {
			graph->n_waits -= memory_ops_count_waits(
				graph->nodes[number].ops, graph->nodes[number].n_ops);
			graph_node_fini(&graph->nodes[number], false);
		} else {
			graph->n_nodes++;
			graph->n_body_nodes += graph->body > 0;
		}
		graph->nodes[number] = *node;
		if (unlikely(session->variables.n > 0))
			note_variables(session, node);
		return CUDA_SUCCESS;
	}
	graph_node_fini(node, false);
	if (fault_explains(result))
		return result;
	record_refuse(&session->record);
	if (graph->result == CUDA_SUCCESS) {
		graph->result = result;
		graph->error_node = number;
	}
	return CUDA_SUCCESS;
}

CUresult do_graph_empty(struct session *session, struct graph *graph, uint32_t number)
{
	struct graph_node node;
	CUresult result =
		graph_node_find(session, graph, number, CU_GRAPH_NODE_TYPE_EMPTY, 0, &node);

	if (result == CUDA_SUCCESS && !graph->real)
		result = cuda.cuGraphAddEmptyNode(
			&node.real, graph_body(graph, graph->body), NULL, 0);
	return graph_node_put(session, graph, number, &node, result);
}

static CUresult set_attributes(
	CUgraphNode real, const CUlaunchAttribute *attributes, unsigned n_attributes)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n_attributes && result == CUDA_SUCCESS; i++)
		result = cuda.cuGraphKernelNodeSetAttribute(
			real, attributes[i].id, &attributes[i].value);
	return result;
}

static CUresult kernel_put(struct session *session, struct graph *graph, struct graph_node *node,
	const CUDA_KERNEL_NODE_PARAMS_v2 *params, uint32_t attr_mask,
	const CUlaunchAttribute *attributes, unsigned n_attributes)
{
	const struct graph_change change = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = params};
	CUresult result;

	if (graph->real)
		return attr_mask == node->attr_mask ? graph_change(session, graph, node, &change)
						    : CUDA_ERROR_INVALID_VALUE;
	node->attr_mask = attr_mask;
	result = cuda.cuGraphAddKernelNode_v2(
		&node->real, graph_body(graph, graph->body), NULL, 0, params);
	return result == CUDA_SUCCESS ? set_attributes(node->real, attributes, n_attributes)
				      : result;
}

/* The driver's node stays in the context in which it was made, and can be changed only there. */
static CUresult kernel_context(struct session *session, const struct graph *graph, uint32_t number,
	uint32_t share, struct graph_node *node)
{
	struct context_share *found =
		graph->real ? graph->nodes[number].share : session_context_share(session, share);

	if (!found)
		return graph->real || share == WIRE_CONTEXT_SHARES_MAX ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_HANDLE;
	if (found->sdev != graph->sdev)
		return CUDA_ERROR_INVALID_VALUE;
	node->share = context_share_ref(found);
	return CUDA_SUCCESS;
}

static CUresult kernel_check(struct session *session, const struct graph *graph,
	struct kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
	uint32_t shared_bytes, const struct device_kernel **ret_found)
{
	CUresult result = kernel_find(session, kernel, graph->sdev, ret_found);

	if (result != CUDA_SUCCESS)
		return result;
	return launch_shape_ok(&graph->sdev->device->facts, *ret_found, grid, block, shared_bytes)
		       ? kernel_ready(session, kernel, graph->sdev, *ret_found)
		       : CUDA_ERROR_INVALID_VALUE;
}

/* The parameters of a new node, as the driver takes them. */
struct kernel_params {
	CUDA_KERNEL_NODE_PARAMS_v2 node;
	struct kernel_extra extra;
	void *pointers[WIRE_PARAMS_COUNT_MAX];
};

/*
 * In one piece, but one by one for cooperative kernels, because the driver makes such nodes
 * in no other way.
 */
static CUresult kernel_point_all(struct kernel_params *all, const struct kernel *kernel,
	const struct device_kernel *found, bool is_cooperative, const void *params,
	uint32_t params_size)
{
	if (params_size < kernel->param_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_cooperative) {
		all->node.kernelParams = all->pointers;
		return kernel_point(kernel, found, params, all->pointers);
	}
	all->node.extra = kernel_extra(&all->extra, params, kernel->param_bytes);
	return CUDA_SUCCESS;
}

CUresult do_graph_kernel(struct session *session, struct graph *graph, struct kernel *kernel,
	const struct msg_graph_kernel *msg, const void *params)
{
	CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES_MAX];
	struct kernel_params all;
	const struct device_kernel *found;
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, msg->node, CU_GRAPH_NODE_TYPE_KERNEL,
		KEPT_PARAMS(msg->params_size), &node);

	all.node = (CUDA_KERNEL_NODE_PARAMS_v2){NULL, msg->grid[0], msg->grid[1], msg->grid[2],
		msg->block[0], msg->block[1], msg->block[2], msg->shared_bytes, NULL, NULL, NULL,
		NULL};
	if (result == CUDA_SUCCESS && (msg->attr_mask & WIRE_LAUNCH_ATTR_CLUSTER) &&
		!launch_cluster_ok(msg->grid, msg->cluster))
		result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (result == CUDA_SUCCESS)
		result = kernel_check(
			session, graph, kernel, msg->grid, msg->block, msg->shared_bytes, &found);
	if (result == CUDA_SUCCESS)
		result = kernel_point_all(&all, kernel, found,
			msg->attr_mask & WIRE_LAUNCH_ATTR_COOPERATIVE, params, msg->params_size);
	if (result == CUDA_SUCCESS)
		result = kernel_context(session, graph, msg->node, msg->share, &node);
	if (result == CUDA_SUCCESS)
		result = context_share_enter(session, node.share);
	if (result == CUDA_SUCCESS) {
		unsigned n = launch_attributes(attributes, msg->attr_mask, msg->cluster,
			msg->cluster_policy, session_device_priority(graph->sdev, msg->priority));

		all.node.func = found->function;
		result =
			kernel_put(session, graph, &node, &all.node, msg->attr_mask, attributes, n);
		node.library = kernel->library;
		library_use(node.library);
		graph->prints = graph->prints || kernel->prints;
	}
	(void)context_share_leave(session, node.share);
	return graph_node_put(session, graph, msg->node, &node, result);
}

/* The session's own context, but in a body the context of all nodes of bodies. */
static CUresult copy_context(
	const struct graph *graph, const struct graph_node *node, CUcontext *ret_context)
{
	return node->body > 0 ? graph_conditional_context(graph, ret_context)
			      : cuda.cuCtxGetCurrent(ret_context);
}

static CUresult copy_put(struct session *session, struct graph *graph, struct graph_node *node,
	const CUDA_MEMCPY3D *copy)
{
	CUcontext context = NULL;
	CUresult result = copy_context(graph, node, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph->real)
		return graph_change(session, graph, node,
			&(struct graph_change){CU_GRAPH_NODE_TYPE_MEMCPY, context, .copy = copy});
	return cuda.cuGraphAddMemcpyNode(
		&node->real, graph_body(graph, graph->body), NULL, 0, copy, context);
}

/*
 * Within host memory a kernel copies. In an executable graph, a node does not change between
 * the two kinds.
 */
static CUresult box_put(struct session *session, struct graph *graph, struct graph_node *node,
	const struct box_end *dst, const struct box_end *src, const struct box_size *size)
{
	const CUDA_MEMCPY3D copy = box_describe(dst, src, size);
	bool is_by_kernel = box_is_within_host(dst, src);
	struct copy_kernel_launch launch;
	CUresult result;

	if (graph->real && is_by_kernel != node->is_by_kernel)
		return CUDA_ERROR_INVALID_VALUE;
	node->is_by_kernel = is_by_kernel;
	if (!is_by_kernel)
		return copy_put(session, graph, node, &copy);
	result = copy_kernel_make(dst, src, size, &launch);
	return result == CUDA_SUCCESS ? kernel_put(session, graph, node, &launch.node, 0, NULL, 0)
				      : result;
}

/*
 * The span of an end, which gets the address that the driver knows. It must lie in one
 * registration, which the driver's copies must not leave.
 */
static bool span_of(struct session *session, struct box_end *end, const struct box_size *size,
	struct graph_span *ret_span)
{
	ret_span->address = end->at.address;
	return box_end_find(session, end, size) &&
	       box_extent(end->pitch, end->rows, size, &ret_span->size) &&
	       host_cut(ret_span->address, ret_span->size) == ret_span->size;
}

static struct box_end line_end(
	uint64_t address, uint64_t pitch, uint64_t rows, const struct box_size *size)
{
	return (struct box_end){
		.at = end_of(address),
		.pitch = size->height > 1 || size->depth > 1 ? pitch : size->width,
		.rows = size->depth > 1 ? rows : size->height,
	};
}

/* Ends in arrays are checked. `arrays': of dst and src; NULL: the end is not in an array. */
static CUresult copy_node(struct session *session, struct graph *graph, uint32_t number,
	struct box_end *dst, struct box_end *src, const struct box_size *size,
	struct array *const arrays[2])
{
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, number, CU_GRAPH_NODE_TYPE_MEMCPY,
		KEPT_PARAMS(sizeof(struct copy_kernel_params)), &node);

	if (result == CUDA_SUCCESS &&
		((!dst->array && !span_of(session, dst, size, &node.spans[0])) ||
			(!src->array && !span_of(session, src, size, &node.spans[1]))))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = box_put(session, graph, &node, dst, src, size);
	for (unsigned i = 0; i < ARRAY_SIZE(node.arrays); i++)
		if (result == CUDA_SUCCESS && arrays[i])
			node.arrays[i] = array_ref(arrays[i]);
	return graph_node_put(session, graph, number, &node, result);
}

CUresult do_graph_copy(
	struct session *session, struct graph *graph, const struct msg_graph_copy *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	struct box_end to = line_end(msg->dst, msg->dst_pitch, msg->dst_rows, &size);
	struct box_end from = line_end(msg->src, msg->src_pitch, msg->src_rows, &size);

	return copy_node(
		session, graph, msg->node, &to, &from, &size, (struct array *const[2]){NULL, NULL});
}

/* An impossible node counts as a failed one. */
static CUresult refuse_node(struct session *session, struct graph *graph, uint32_t number)
{
	struct graph_node node = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	return graph_node_put(session, graph, number, &node, CUDA_ERROR_INVALID_VALUE);
}

CUresult do_graph_copy_array(struct session *session, struct graph *graph, struct array *array,
	const struct msg_graph_copy_array *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	struct box_end line = line_end(msg->address, msg->pitch, msg->rows, &size);
	struct box_end end;

	if (!box_end_in(array, msg->x, msg->y, msg->z, &size, &end))
		return refuse_node(session, graph, msg->node);
	if (msg->is_out)
		return copy_node(session, graph, msg->node, &line, &end, &size,
			(struct array *const[2]){NULL, array});
	return copy_node(session, graph, msg->node, &end, &line, &size,
		(struct array *const[2]){array, NULL});
}

CUresult do_graph_copy_arrays(struct session *session, struct graph *graph, struct array *dst,
	struct array *src, const struct msg_graph_copy_arrays *msg)
{
	const struct box_size size = {msg->width, msg->height, msg->depth};
	struct box_end to, from;

	if (!box_end_in(dst, msg->dst_x, msg->dst_y, msg->dst_z, &size, &to) ||
		!box_end_in(src, msg->src_x, msg->src_y, msg->src_z, &size, &from))
		return refuse_node(session, graph, msg->node);
	return copy_node(
		session, graph, msg->node, &to, &from, &size, (struct array *const[2]){dst, src});
}

static CUresult fill_put(struct session *session, struct graph *graph, struct graph_node *node,
	const CUDA_MEMSET_NODE_PARAMS *fill)
{
	CUcontext context = NULL;
	CUresult result = copy_context(graph, node, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph->real)
		return graph_change(session, graph, node,
			&(struct graph_change){CU_GRAPH_NODE_TYPE_MEMSET, context, .fill = fill});
	return cuda.cuGraphAddMemsetNode(
		&node->real, graph_body(graph, graph->body), NULL, 0, fill, context);
}

CUresult do_graph_fill(
	struct session *session, struct graph *graph, const struct msg_graph_fill *msg)
{
	uint64_t size = fill_extent(msg->width, msg->count, msg->pitch, msg->rows);
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = size > 0 ? memory_find(session, msg->dst, size) : 0,
		.pitch = msg->rows > 1 ? msg->pitch : msg->count * msg->width,
		.value = msg->value,
		.elementSize = msg->width,
		.width = msg->count,
		.height = msg->rows,
	};
	const bool is_row = msg->rows == 1;
	struct graph_node node;
	CUresult result =
		graph_node_find(session, graph, msg->node, CU_GRAPH_NODE_TYPE_MEMSET, 0, &node);

	node.spans[0] = (struct graph_span){msg->dst, size};
	node.fill_dst = fill.dst;
	node.fill_value = msg->value;
	node.fill_unit = is_row ? msg->width : 0;
	/* One row is disabled in another way than several (graph_switch.h). */
	if (result == CUDA_SUCCESS && graph->real &&
		(graph->nodes[msg->node].fill_unit > 0) != is_row)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS &&
		(fill.dst == 0 || msg->dst % msg->width != 0 || host_cut(msg->dst, size) < size))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = fill_put(session, graph, &node, &fill);
	return graph_node_put(session, graph, msg->node, &node, result);
}

static CUresult batch_put(struct session *session, struct graph *graph, struct graph_node *node,
	CUstreamBatchMemOpParams *params, uint32_t n_params)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = n_params, .paramArray = params};
	CUresult result = cuda.cuCtxGetCurrent(&batch.ctx);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph->real)
		return graph_change(session, graph, node,
			&(struct graph_change){
				.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .ops = &batch});
	return cuda.cuGraphAddBatchMemOpNode(
		&node->real, graph_body(graph, graph->body), NULL, 0, &batch);
}

/* The client keeps what a host node calls, so the node is never changed here. */
CUresult do_graph_call(struct session *session, struct graph *graph, uint32_t number, uint32_t call)
{
	CUstreamBatchMemOpParams params[PENDING_WAIT_CALL_OPS];
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, number, CU_GRAPH_NODE_TYPE_HOST,
		PENDING_WAIT_CALL_OPS * (uint64_t)KEPT_MEMORY_OP, &node);

	if (result == CUDA_SUCCESS && graph->real)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = pending_waits_graph_call(session, call, params);
	if (result == CUDA_SUCCESS)
		result = batch_put(session, graph, &node, params, PENDING_WAIT_CALL_OPS);
	graph->has_calls = graph->has_calls || result == CUDA_SUCCESS;
	return graph_node_put(session, graph, number, &node, result);
}

static bool keep_ops(struct session *session, struct graph_node *node, const struct memory_op *ops,
	uint32_t n_ops)
{
	node->ops = account_alloc(session->account, n_ops * sizeof(*ops), 0);
	if (!node->ops)
		return false;
	memcpy(node->ops, ops, n_ops * sizeof(*ops));
	node->n_ops = n_ops;
	return true;
}

/* A launch that waits keeps to the operations that the node had. */
static CUresult change_ops(struct session *session, struct graph *graph, uint32_t number,
	struct graph_node *node, CUstreamBatchMemOpParams *params)
{
	struct graph_node *before = &graph->nodes[number];
	struct graph_former *former;
	CUresult result;

	if (!graph_former_new(session, graph, before, &former))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = batch_put(session, graph, node, params, node->n_ops);
	if (former && result == CUDA_SUCCESS)
		graph_former_keep(graph, former, before);
	else
		account_free(former);
	return result;
}

CUresult do_graph_memory_ops(struct session *session, struct graph *graph, uint32_t number,
	const struct memory_op *ops, uint32_t n_ops)
{
	CUstreamBatchMemOpParams params[WIRE_MEMORY_OPS_MAX];
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, number, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		n_ops * (uint64_t)KEPT_MEMORY_OP, &node);

	for (uint32_t i = 0; i < n_ops && result == CUDA_SUCCESS; i++)
		result = memory_op_convert(session, &ops[i], &params[i]);
	if (result == CUDA_SUCCESS && !keep_ops(session, &node, ops, n_ops))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		result = graph->real ? change_ops(session, graph, number, &node, params)
				     : batch_put(session, graph, &node, params, n_ops);
	return graph_node_put(session, graph, number, &node, result);
}

static CUresult event_put(struct session *session, struct graph *graph, struct graph_node *node,
	CUevent event, bool is_wait)
{
	if (graph->real)
		return graph_change(session, graph, node,
			&(struct graph_change){.type = node->type, .event = event});
	return is_wait ? cuda.cuGraphAddEventWaitNode(
				 &node->real, graph_body(graph, graph->body), NULL, 0, event)
		       : cuda.cuGraphAddEventRecordNode(
				 &node->real, graph_body(graph, graph->body), NULL, 0, event);
}

CUresult do_graph_event(struct session *session, struct graph *graph, uint32_t number,
	struct event *event, uint32_t is_wait)
{
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, number,
		is_wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD, 0,
		&node);

	if (result == CUDA_SUCCESS)
		result = event_make(event, graph->sdev);
	if (result == CUDA_SUCCESS)
		result = event_put(session, graph, &node, event->real, is_wait);
	if (result == CUDA_SUCCESS) {
		node.event = event;
		event_use(event);
	}
	return graph_node_put(session, graph, number, &node, result);
}

CUresult do_graph_enable(
	struct session *session, struct graph *graph, uint32_t number, uint32_t is_enabled)
{
	CUresult result = session_device_enter(session, graph->sdev);

	if (!graph->real || number >= graph->n_nodes)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = graph_change_enabled(graph, &graph->nodes[number], is_enabled);
	return result;
}
