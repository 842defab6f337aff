/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Executable graphs: begun, made from nodes and edges, launched, ended. A worker.
 *
 * Invariant: what a node refers to (a kernel's library, an event) stays as long as the graph
 * may run. A graph that is destroyed while it runs is freed afterwards.
 */

#include "graph.h"

#include "graph_twin.h"
#include "graph_wait.h"
#include "wire.h"
#include "server/session/counting.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/driver_facts.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/deferred.h"
#include "server/schedule/gate.h"
#include "server/schedule/loop_turn.h"
#include "server/schedule/quiet.h"
#include "server/share/context_share.h"
#include "server/share/graph_end.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/event.h"
#include "server/stream/observed.h"
#include "server/stream/pending_wait.h"
#include "server/stream/printf_capture.h"
#include "server/stream/stream.h"
#include "server/memory/memory_op.h"
#include "server/memory/space.h"
#include "server/module/library.h"
#include "server/launch/launch.h"
#include "do_graph.h"

static void graph_free(struct session *session, struct graph *graph, bool device_lost)
{
	if (graph->next)
		graph->next->previous = graph->previous;
	if (graph->previous)
		graph->previous->next = graph->next;
	else
		session->graph_list = graph->next;
	graph_twins_free(graph, device_lost);
	graph_end(graph->ending, graph->real, graph->model, graph->sdev->device->context,
		device_lost);
	if (graph->end && !device_lost)
		cuda.cuEventDestroy_v2(graph->end);
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		graph_node_fini(&graph->nodes[i], device_lost);
	context_share_unref(graph->share, device_lost);
	graph_formers_free(graph);
	account_free(graph->bodies);
	account_free(graph->nodes);
	account_free(graph);
}

/* Frees destroyed graphs that have ended. Returns whether some have not. */
static bool sweep(struct session *session)
{
	bool is_left = false;
	struct graph *next;

	for (struct graph *graph = session->graph_list; graph; graph = next) {
		next = graph->next;
		if (!graph->is_closed)
			continue;
		if (!graph_running_on(session, graph) ||
			(graph->end && cuda.cuEventQuery(graph->end) == CUDA_SUCCESS))
			graph_free(session, graph, false);
		else
			is_left = true;
	}
	return is_left;
}

static void graphs_sweep(struct session *session)
{
	(void)sweep(session);
}

bool graphs_wait_for_ends(struct session *session)
{
	struct gate_wait wait = gate_wait(GATE_DEFERRED, session);

	while (!deferred_has_made(deferred_n_added() + sweep(session))) {
		deferred_reclaim();
		if (!gate_again(&wait))
			break;
	}
	return gate_waited_ns(&wait) > 0;
}

/* Frees all. Their work has ended, or the context is lost. */
static void graphs_free(struct session *session, bool device_lost)
{
	while (session->graph_list) {
		struct graph *graph = session->graph_list;

		if (!graph->is_closed)
			handle_remove(&session->graphs, graph->id);
		graph_free(session, graph, device_lost);
	}
}

CUresult do_graph_begin(struct session *session, uint32_t id, uint32_t device)
{
	struct graph *graph;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = session_object_new(
			&session->graphs, id, sizeof(*graph), KEPT_EVENT, &graph);
	if (result != CUDA_SUCCESS)
		return result;
	graph->ending = graph_end_new(session->account);
	if (!graph->ending) {
		account_free(handle_remove(&session->graphs, id));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	graph->id = id;
	graph->sdev = sdev;
	graph->error_node = GRAPH_NO_NODE;
	graph->next = session->graph_list;
	if (graph->next)
		graph->next->previous = graph;
	session->graph_list = graph;
	result = cuda.cuGraphCreate(&graph->model, 0);
	if (result != CUDA_SUCCESS)
		graph->model = NULL;
	graph->result = result;
	return CUDA_SUCCESS;
}

/* A node continues the branch of one before it, unless another node does. */
static void graph_join(struct graph *graph, struct graph_node *from, struct graph_node *to)
{
	if (from->is_followed || to->is_joined)
		return;
	from->is_followed = to->is_joined = true;
	graph->n_joined++;
}

/* Only kernels have ports, and programmatic edges to other kernels. A copy may be a kernel here. */
static bool edge_is_ok(const struct graph *graph, const struct graph_edge *edge)
{
	const struct graph_node *from = &graph->nodes[edge->from], *to = &graph->nodes[edge->to];

	if (edge->to_port || edge->pad || edge->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)
		return false;
	if (edge->from_port && from->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return false;
	if (edge->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
		return edge->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
	return edge->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && edge->from_port &&
	       to->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

/* Calls that need a new driver are made only if the edge needs them. */
static CUresult add_edge(struct graph *graph, const struct graph_edge *edge)
{
	const CUgraphEdgeData data = {.from_port = edge->from_port, .type = edge->type};
	CUgraphNode from, to;
	CUgraph body;

	if (edge->from >= graph->n_nodes || edge->to >= graph->n_nodes ||
		graph->nodes[edge->from].body != graph->nodes[edge->to].body ||
		!edge_is_ok(graph, edge))
		return CUDA_ERROR_INVALID_VALUE;
	body = graph_body(graph, graph->nodes[edge->to].body);
	graph_join(graph, &graph->nodes[edge->from], &graph->nodes[edge->to]);
	from = graph->nodes[edge->from].real;
	to = graph->nodes[edge->to].real;
	if (edge->from_port || edge->type)
		return cuda.cuGraphAddDependencies_v2(body, &from, &to, &data, 1);
	return cuda.cuGraphAddDependencies(body, &from, &to, 1);
}

static void add_edges(struct graph *graph, const struct graph_edge *edges, uint32_t n_edges)
{
	if (graph->real || graph->result != CUDA_SUCCESS)
		return;
	if (!account_keep(graph->ending, n_edges * (uint64_t)KEPT_EDGE)) {
		graph->result = CUDA_ERROR_OUT_OF_MEMORY;
		graph->error_node = edges[0].to;
		return;
	}
	graph->kept += n_edges * (uint64_t)KEPT_EDGE;
	for (uint32_t i = 0; i < n_edges && graph->result == CUDA_SUCCESS; i++) {
		graph->result = add_edge(graph, &edges[i]);
		if (graph->result != CUDA_SUCCESS)
			graph->error_node = edges[i].to;
	}
}

CUresult do_graph_edges(struct session *session, struct graph *graph,
	const struct graph_edge *edges, uint32_t n_edges)
{
	add_edges(graph, edges, n_edges);
	if (graph->real || graph->result != CUDA_SUCCESS)
		record_refuse(&session->record);
	return CUDA_SUCCESS;
}

/* Kernels without a priority of their own get the priority of a stream without one. */
static CUresult set_priorities(const struct graph *graph)
{
	const CUlaunchAttributeValue value = {.priority = session_device_priority(graph->sdev, 0)};
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < graph->n_nodes && result == CUDA_SUCCESS; i++) {
		const struct graph_node *node = &graph->nodes[i];

		if ((node->type == CU_GRAPH_NODE_TYPE_KERNEL &&
			    !(node->attr_mask & WIRE_LAUNCH_ATTR_PRIORITY)) ||
			node->is_by_kernel)
			result = cuda.cuGraphKernelNodeSetAttribute(
				node->real, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	}
	return result;
}

static bool take_body_nodes(struct session *session, const struct graph *graph)
{
	struct session_device *sdev = graph->sdev;
	uint64_t size = graph->n_body_nodes * driver_facts()->body_node_memory;

	return graph_end_take_body_nodes(graph->ending, sdev->memory, graph->n_body_nodes) ||
	       (lease_extend(session, sdev->device->ordinal, size) &&
		       graph_end_take_body_nodes(graph->ending, sdev->memory, graph->n_body_nodes));
}

CUresult do_graph_instantiate(struct session *session, struct graph *graph, uint32_t n_nodes,
	uint32_t by_node_priority, uint32_t *ret_error_node)
{
	CUresult result = graph->result;
	struct channel_part part;
	unsigned round = 0;

	*ret_error_node = graph->error_node;
	if (graph->real || (result == CUDA_SUCCESS && graph->n_nodes != n_nodes))
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = session_device_enter(session, graph->sdev);
	if (result == CUDA_SUCCESS && by_node_priority)
		result = set_priorities(graph);
	if (result == CUDA_SUCCESS && !take_body_nodes(session, graph) &&
		!(graphs_wait_for_ends(session) && take_body_nodes(session, graph)))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		return result;
	part = (struct channel_part){
		.n_channels = graph->n_nodes - graph->n_joined, .n_nodes = graph->n_nodes};
	graph->flags = by_node_priority ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
	do
		result = graph_end_make(graph->ending, session, graph->sdev->device, &part, 0,
			graph->model, graph->flags, &graph->real);
	while (space_make_for_driver(session, graph->sdev, result, round++));
	graph->n_freed = session->n_freed;
	return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_MPS_RPC_FAILURE : result;
}

CUresult do_graph_update_result(
	_unused_ struct session *session, struct graph *graph, uint32_t *ret_error_node)
{
	CUresult result = graph->result;

	*ret_error_node = graph->error_node;
	graph->result = CUDA_SUCCESS;
	graph->error_node = GRAPH_NO_NODE;
	return result;
}

/* While it runs it is kept, with what its nodes refer to. */
CUresult do_graph_destroy(struct session *session, struct graph *graph)
{
	CUstream stream = graph_running_on(session, graph);

	handle_remove(&session->graphs, graph->id);
	graph->is_closed = true;
	if (stream && session_device_enter(session, graph->sdev) == CUDA_SUCCESS) {
		if (cuda.cuEventCreate(&graph->end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
			graph->end = NULL;
		if (graph->end && cuda.cuEventRecord(graph->end, stream) != CUDA_SUCCESS) {
			cuda.cuEventDestroy_v2(graph->end);
			graph->end = NULL;
		}
	}
	graphs_sweep(session);
	return CUDA_SUCCESS;
}

/* Memory that was freed meanwhile may belong to another client. */
static CUresult check_spans(struct session *session, struct graph *graph)
{
	if (likely(graph->n_freed == session->n_freed))
		return CUDA_SUCCESS;
	if (!graph_spans_ok(session, graph))
		return CUDA_ERROR_INVALID_VALUE;
	graph->n_freed = session->n_freed;
	return CUDA_SUCCESS;
}

/* Whether the graph can be launched into the stream. */
static CUresult graph_check(
	struct session *session, const struct stream *stream, struct graph *graph)
{
	CUresult result;

	if (!graph->real)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->sdev != graph->sdev)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->former && !graph_running_on(session, graph))
		graph_formers_free(graph);
	/* A change failed, and the client has not asked for its result. */
	result = graph->result;
	graph->result = CUDA_SUCCESS;
	return result == CUDA_SUCCESS ? check_spans(session, graph) : result;
}

/* Whether a launch may wait on the GPU for the program. */
static bool may_block(const struct graph *graph)
{
	return graph->has_calls || graph->n_waits > 0;
}

static CUresult take_print_turn(
	struct session *session, struct stream *stream, struct graph *graph, CUstream *ret_real)
{
	if (!graph->prints || printf_capture_begin(session, &graph->print_history))
		return CUDA_SUCCESS;
	printf_capture_wait(session, &graph->print_history);
	return stream_begin_light(session, stream, ret_real);
}

/* A launch that may block is placed already (blocked_streams.h), and must not sleep. */
static CUresult graph_launch_real(
	struct session *session, const struct graph *graph, CUgraphExec exec, CUstream real)
{
	if (may_block(graph))
		return cuda.cuGraphLaunch(exec, real);
	return LAUNCHING(session, graph->sdev->device, cuda.cuGraphLaunch(exec, real));
}

/* `twin' NULL: the graph itself. */
static CUresult graph_launch(struct session *session, struct stream *stream, struct graph *graph,
	const struct graph_twin *twin, CUstream real)
{
	const CUgraphExec exec = twin ? twin->exec : graph->real;
	CUresult result;

	if (may_block(graph) && !pending_waits_begin(session, stream))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	graph->last = stream->home;
	last_launch_note(&session->last_launch, LAST_LAUNCH_GRAPH);
	counter_add(session, COUNTER_GRAPH_LAUNCHES, 1);
	result = OBSERVED(session, stream, graph_launch_real(session, graph, exec, real),
		{.kind = TRACE_GRAPH, .count = 1, .size = graph->n_nodes, .shape = graph->id});
	if (may_block(graph))
		pending_waits_end(session, stream, real);
	return result;
}

/*
 * Beside other clients. A program with a blocked stream gets what the driver does, because the
 * stream may wait for what the program sends after the loop.
 */
static bool has_to_be_alone(const struct session *session, const struct graph *graph)
{
	return atomic_load(&graph->sdev->device->n_sessions) > 1 && !may_block(graph) &&
	       !blocked_has(session);
}

static CUresult launch_lone(
	struct session *session, struct stream *stream, struct graph *graph, CUstream real)
{
	struct device *device = stream->device;
	CUresult result;

	if (!quiet_lone_begin(session, device))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = graph_launch(session, stream, graph, NULL, real);
	quiet_lone_end(session, device);
	return result;
}

static CUresult loops_launch(
	struct session *session, struct stream *stream, struct graph *graph, CUstream real)
{
	struct loop_turn turn;
	CUevent before;
	CUresult result = loop_turn_take(session, stream, &turn, &before);

	if (result != CUDA_SUCCESS)
		return result;
	if (before)
		result = stream_wait_event(session, stream, before, blocked_has(session));
	if (result == CUDA_SUCCESS)
		result = has_to_be_alone(session, graph)
				 ? launch_lone(session, stream, graph, real)
				 : graph_launch(session, stream, graph, NULL, real);
	loop_turn_give(session, stream, &turn, result == CUDA_SUCCESS);
	return result;
}

static CUresult graph_begin(
	struct session *session, struct stream *stream, struct graph *graph, CUstream *ret_real)
{
	CUresult result = stream_begin_light(session, stream, ret_real);

	return result == CUDA_SUCCESS ? take_print_turn(session, stream, graph, ret_real) : result;
}

static CUresult graph_launch_once(struct session *session, struct stream *stream,
	struct graph *graph, struct graph_twin **twin)
{
	CUstream real;
	CUresult result = graph_begin(session, stream, graph, &real);

	if (unlikely(graph->twins) && result == CUDA_SUCCESS)
		result = graph_twin_order(session, stream, graph, twin);
	if (result != CUDA_SUCCESS)
		return result;
	return graph->has_loops ? loops_launch(session, stream, graph, real)
				: graph_launch(session, stream, graph, *twin, real);
}

/* Of a session that may be in the background. */
static CUresult graph_launch_elastic(
	struct session *session, struct stream *stream, struct graph *graph)
{
	struct graph_twin *twin = graph_twin_choose(session, stream, graph);
	CUresult result = graph_launch_once(session, stream, graph, &twin);

	if (twin && result != CUDA_SUCCESS && !result_is_fault(result)) {
		graph_twin_refuse(graph, twin);
		twin = NULL;
		result = graph_launch_once(session, stream, graph, &twin);
	}
	graph_twin_launched(session, stream, graph, twin, result);
	if (result == CUDA_SUCCESS)
		elastic_stream_note_graph(session, stream, MAX(graph->n_nodes, 1u),
			twin ? twin->share : elastic_shares_own(&stream->sdev->elastic));
	return result;
}

CUresult do_graph_launch(struct session *session, struct stream *stream, struct graph *graph)
{
	struct graph_twin *twin = NULL;
	CUresult result = graph_check(session, stream, graph);

	if (result != CUDA_SUCCESS)
		return result;
	return classes_are_several(session) ? graph_launch_elastic(session, stream, graph)
					    : graph_launch_once(session, stream, graph, &twin);
}

CUresult do_graph_launch_calls(struct session *session, struct stream *stream, struct graph *graph)
{
	return do_graph_launch(session, stream, graph);
}

CUresult do_graph_upload(struct session *session, struct stream *stream, struct graph *graph)
{
	CUstream real;
	CUresult result = graph_check(session, stream, graph);

	if (result == CUDA_SUCCESS)
		result = stream_begin_light(session, stream, &real);
	return result == CUDA_SUCCESS ? cuda.cuGraphUpload(graph->real, real) : result;
}

/* A replay would not find the library, of which the variables lie there, by its ID. */
static bool uses_ended_variables(struct session *session, const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		struct library *library = graph->nodes[i].library;

		if (library && library->is_ended &&
			(library->placements || library->has_constants ||
				library_stays_with(session, library)))
			return true;
	}
	return false;
}

static const char *graphs_obstacle(struct session *session)
{
	for (const struct graph *graph = session->graph_list; graph; graph = graph->next) {
		if (graph->is_closed)
			return "a graph that it has destroyed still runs";
		if (!graph->real)
			return "it makes a graph";
		if (graph->result != CUDA_SUCCESS)
			return "the change of a graph has failed";
		if (uses_ended_variables(session, graph))
			return "a graph uses variables of code that was unloaded";
		if (!graph_spans_ok(session, graph))
			return "a graph uses memory that was freed";
	}
	return NULL;
}

const struct session_part graphs_part = {
	.obstacle = graphs_obstacle,
	.is_recorded = true,
	.rest = graphs_sweep,
	.release = graphs_release,
	.end = graphs_free,
};
