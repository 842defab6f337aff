/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Captures: how streams and events take part in them. Any thread of the
 * application; the state of captures is under the lock of all graphs.
 *
 * Invariant: a stream that captures has a point whose recording has its graph. An
 * event may have a point of a recording that has ended.
 */

#include <stdatomic.h>
#include <string.h>

#include "calls_graph.h"
#include "graph_memory.h"
#include "recording.h"
#include "client/util/compat.h"
#include "client/stream/recorder.h"

_Atomic uint32_t captures_running;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Of two edges from one node, the stronger counts: from its end, then from its trigger. */
CUresult point_add(struct capture_point *point, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips)
{
	static const CUgraphEdgeData plain;
	size_t n_max = point->n_tips + n_tips + 1;
	CUgraphEdgeData *more_data;
	CUgraphNode *more;

	more = array_resize(point->tips, n_max, sizeof(CUgraphNode));
	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	point->tips = more;
	more_data = array_resize(point->data, n_max, sizeof(*more_data));
	if (!more_data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	point->data = more_data;
	for (size_t i = 0; i < n_tips; i++) {
		const CUgraphEdgeData *one = data ? &data[i] : &plain;
		size_t k = 0;

		while (k < point->n_tips && point->tips[k] != tips[i])
			k++;
		if (k < point->n_tips && point->data[k].from_port <= one->from_port)
			continue;
		point->n_tips += k == point->n_tips;
		point->tips[k] = tips[i];
		point->data[k] = *one;
	}
	return CUDA_SUCCESS;
}

void recording_unref(struct recording *recording)
{
	if (--recording->refs > 0)
		return;
	free(recording->ended_tips);
	free(recording);
}

void point_free(struct capture_point *point)
{
	if (!point)
		return;
	recording_unref(point->recording);
	free(point->tips);
	free(point->data);
	free(point);
}

CUresult point_new(struct recording *recording, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips, struct capture_point **ret_point)
{
	struct capture_point *point = calloc(1, sizeof(*point));

	if (!point)
		return CUDA_ERROR_OUT_OF_MEMORY;
	point->recording = recording;
	recording->refs++;
	if (point_add(point, tips, data, n_tips) != CUDA_SUCCESS) {
		point_free(point);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_point = point;
	return CUDA_SUCCESS;
}

void capture_start(struct stream *stream, struct capture_point *point)
{
	atomic_store_explicit(&stream->capture, point, memory_order_release);
	atomic_fetch_add_explicit(&captures_running, 1, memory_order_acq_rel);
}

void capture_stop(struct stream *stream)
{
	point_free(stream->capture);
	atomic_store_explicit(&stream->capture, NULL, memory_order_release);
	atomic_fetch_sub_explicit(&captures_running, 1, memory_order_acq_rel);
}

struct graph *recording_end(struct recording *recording)
{
	struct graph *graph = recording->graph;
	unsigned n = streams_ever();

	recording->graph = NULL;
	recording->refs++;
	for (unsigned i = DEVICES_MAX; i < n; i++)
		if (streams[i].capture && streams[i].capture->recording == recording)
			capture_stop(&streams[i]);
	recording_unref(recording);
	return graph;
}

/*
 * The capture continues without the stream. An event may have recorded the stream's
 * work so far, so its tips are kept.
 */
static void capture_leave(struct stream *stream)
{
	const struct capture_point *point = stream->capture;
	struct recording *recording = point->recording;
	CUgraphNode *more;

	more = array_resize(recording->ended_tips, recording->n_ended_tips + point->n_tips + 1,
		sizeof(CUgraphNode));
	if (more) {
		recording->ended_tips = more;
		for (size_t i = 0; i < point->n_tips; i++)
			more[recording->n_ended_tips++] = point->tips[i];
	} else {
		recording->is_invalid = true;
	}
	capture_stop(stream);
}

static void capture_abandon(struct stream *stream)
{
	struct recording *recording;
	bool is_borrowed;
	struct graph *graph;

	if (!capture_is_running())
		return;
	GRAPHS_LOCKED;
	if (!stream->capture)
		return;
	recording = stream->capture->recording;
	if (recording->origin != stream) {
		capture_leave(stream);
		return;
	}
	recording->is_invalid = true;
	is_borrowed = recording->is_borrowed;
	graph = recording_end(recording);
	if (!is_borrowed)
		graph_free(graph);
}

struct recording *recording_blocking(const struct stream *null)
{
	unsigned n = streams_ever();

	for (unsigned i = DEVICES_MAX; i < n && stream_is_null(null); i++)
		if (streams[i].capture && streams[i].null == null)
			return streams[i].capture->recording;
	return NULL;
}

/* Under the lock. */
static CUresult capture_look_locked(struct stream *stream, bool *ret_captures)
{
	struct recording *recording = recording_blocking(stream);

	*ret_captures = stream->capture != NULL;
	if (!recording)
		return CUDA_SUCCESS;
	recording->is_invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static CUresult capture_look(struct stream *stream, bool *ret_captures)
{
	GRAPHS_LOCKED;
	return capture_look_locked(stream, ret_captures);
}

static CUresult capture_look_wait(struct stream *stream, struct event *event, bool *ret_captures)
{
	CUresult result;

	GRAPHS_LOCKED;
	result = capture_look_locked(stream, ret_captures);
	if (event->captured)
		*ret_captures = true;
	return *ret_captures ? CUDA_SUCCESS : result;
}

/*
 * Under the lock. Takes ownership of `op', on failure too. Afterwards the stream's only tip is the
 * new node.
 */
static CUresult add_op(struct stream *stream, struct node_op *op)
{
	struct capture_point *point = stream->capture;
	struct graph_node *node;
	CUresult result;

	if (!point || point->recording->is_invalid) {
		node_op_fini(op);
		return point ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_ILLEGAL_STATE;
	}
	result = node_add(point->recording->graph, op, point->tips, NULL, point->n_tips, &node);
	if (result != CUDA_SUCCESS)
		return result;
	/* As in driver 580, also edges that a program cannot add. */
	for (size_t i = 0; i < point->n_tips; i++)
		node->before[i].data = point->data[i];
	node->is_captured = true;
	point->tips[0] = (CUgraphNode)node; /* a point always has space for one tip */
	point->data[0] = (CUgraphEdgeData){0};
	point->n_tips = 1;
	return CUDA_SUCCESS;
}

static CUresult capture_op(struct stream *stream, struct node_op *op)
{
	GRAPHS_LOCKED;
	return add_op(stream, op);
}

static CUresult capture_alloc(
	struct stream *stream, CUdevice ordinal, uint64_t size, uint64_t *ret_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = size};
	struct node_op op;
	CUresult result;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = ordinal;
	GRAPHS_LOCKED;
	result = node_op_memory_alloc(&params, &op);
	if (result == CUDA_SUCCESS)
		result = add_op(stream, &op);
	if (result == CUDA_SUCCESS)
		*ret_address = graph_memory_address(op.memory);
	return result;
}

static CUresult capture_free(struct stream *stream, uint64_t address)
{
	struct node_op op;
	CUresult result;

	GRAPHS_LOCKED;
	result = node_op_memory_free(address, &op);
	return result == CUDA_SUCCESS ? add_op(stream, &op) : result;
}

/* Under the lock. The event stands for these nodes from now on. */
static CUresult event_capture(struct event *event, struct recording *recording,
	const CUgraphNode *tips, const CUgraphEdgeData *data, size_t n_tips)
{
	struct capture_point *captured, *before = event->captured;
	CUresult result = point_new(recording, tips, data, n_tips, &captured);

	if (result != CUDA_SUCCESS)
		return result;
	atomic_store_explicit(&event->captured, captured, memory_order_release);
	point_free(before);
	return CUDA_SUCCESS;
}

/* Programmatic stream serialization: a kernel waits for the kernels before it by its own means. */
static void serialize(const struct graph_node *node)
{
	for (uint32_t i = 0; i < node->n_before; i++) {
		struct edge *edge = &node->before[i];

		if (edge->node->op.type == CU_GRAPH_NODE_TYPE_KERNEL)
			edge->data = (CUgraphEdgeData){
				.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
				.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
	}
}

/* Nodes that wait for the event get an edge from the port of the kernel that records it. */
static CUresult capture_event_of(const struct stream *stream, struct event *event,
	unsigned char port, CUgraphDependencyType type)
{
	const struct capture_point *point = stream->capture;
	const CUgraphEdgeData data = {.from_port = port, .type = (unsigned char)type};

	return event ? event_capture(event, point->recording, point->tips, &data, 1) : CUDA_SUCCESS;
}

static CUresult capture_events_of(const struct stream *stream, const struct launch *launch)
{
	const bool is_at_start = launch->attrs.attr_mask & WIRE_LAUNCH_ATTR_TRIGGER_AT_START;
	CUresult result = capture_event_of(stream, launch->events->programmatic,
		is_at_start ? CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
			    : CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
		CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);

	return result == CUDA_SUCCESS ? capture_event_of(stream, launch->events->completion,
						CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER,
						CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
				      : result;
}

static CUresult capture_kernel(struct stream *stream, const struct launch *launch,
	struct kernel *kernel, const uint8_t *params)
{
	struct node_op op;
	CUresult result = node_op_of_kernel(stream->context, launch, kernel, params, &op);

	if (result != CUDA_SUCCESS)
		return result;
	/* Like the driver, the node has the priority of the stream. */
	if (stream->priority != 0 && !(launch->attrs.attr_mask & WIRE_LAUNCH_ATTR_PRIORITY)) {
		op.kernel.launch.attrs.attr_mask |= WIRE_LAUNCH_ATTR_PRIORITY;
		op.kernel.launch.attrs.priority = stream->priority;
	}
	GRAPHS_LOCKED;
	result = add_op(stream, &op);
	if (result != CUDA_SUCCESS)
		return result;
	if (launch->attrs.attr_mask & WIRE_LAUNCH_ATTR_SERIALIZATION)
		serialize((const struct graph_node *)stream->capture->tips[0]);
	return launch->events ? capture_events_of(stream, launch) : CUDA_SUCCESS;
}

static CUresult capture_copy(
	struct stream *stream, const struct box *box, const CUDA_MEMCPY3D *desc)
{
	struct node_op op = {
		.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = {.box = *box, .desc = *desc}};

	return capture_op(stream, &op);
}

static CUresult capture_fill(struct stream *stream, const struct fill *fill)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .fill = *fill};

	return capture_op(stream, &op);
}

static CUresult capture_memory_ops(
	struct stream *stream, const struct memory_op *ops, uint32_t n_ops)
{
	struct node_op op;
	CUresult result = node_op_of_memory_ops(ops, n_ops, &op);

	return result == CUDA_SUCCESS ? capture_op(stream, &op) : result;
}

static CUresult capture_host(struct stream *stream, CUhostFn function, void *data)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {function, data}};

	return capture_op(stream, &op);
}

static CUresult capture_record(struct stream *stream, struct event *event, bool is_external)
{
	const struct capture_point *point;
	struct node_op op;

	if (is_external) {
		node_op_of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &op);
		return capture_op(stream, &op);
	}
	GRAPHS_LOCKED;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capture->recording->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	point = stream->capture;
	return event_capture(event, point->recording, point->tips, point->data, point->n_tips);
}

/* The stream waits for captured work, and thereby joins the capture. */
static CUresult capture_join(struct stream *stream, const struct capture_point *captured)
{
	struct recording *recording = captured->recording;
	struct capture_point *point;
	CUresult result;

	if (!recording->graph || recording->is_invalid)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_is_null(stream)) {
		recording->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!stream->capture) {
		result = point_new(
			recording, captured->tips, captured->data, captured->n_tips, &point);
		if (result == CUDA_SUCCESS)
			capture_start(stream, point);
		return result;
	}
	if (stream->capture->recording != recording) {
		recording->is_invalid = true;
		stream->capture->recording->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	return point_add(stream->capture, captured->tips, captured->data, captured->n_tips);
}

static CUresult capture_wait(struct stream *stream, struct event *event, bool is_external)
{
	struct node_op op;
	uint64_t seqno;

	if (stream->capture && is_external) {
		node_op_of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &op);
		return capture_op(stream, &op);
	}
	GRAPHS_LOCKED;
	if (stream->capture && stream->capture->recording->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (event->captured)
		return capture_join(stream, event->captured);
	/* An event that was never recorded needs no wait. */
	if (!stream->capture || !event_position(event, &seqno))
		return CUDA_SUCCESS;
	stream->capture->recording->is_invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

static CUresult capture_forbid(struct stream *stream)
{
	GRAPHS_LOCKED;
	if (stream->capture)
		stream->capture->recording->is_invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult capture_check_wait(struct stream *stream)
{
	bool captures;
	CUresult result = recorder_look(stream, &captures);

	return captures ? capture_forbid(stream) : result;
}

static bool is_in_the_way(const struct recording *recording)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
		recording->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	return pthread_equal(recording->thread, pthread_self()) ||
	       (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
		       recording->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static CUresult capture_check_unsafe(void)
{
	CUresult result = CUDA_SUCCESS;
	unsigned n = streams_ever();

	if (likely(!capture_is_running()))
		return CUDA_SUCCESS;
	GRAPHS_LOCKED;
	for (unsigned i = DEVICES_MAX; i < n; i++) {
		if (!streams[i].capture || !is_in_the_way(streams[i].capture->recording))
			continue;
		streams[i].capture->recording->is_invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* Under the lock. */
static CUresult look_event_locked(const struct event *event)
{
	const struct recording *recording;

	if (!event->captured)
		return CUDA_SUCCESS;
	recording = event->captured->recording;
	/* No graph will have it if the capture is over or invalid. */
	return recording->graph && !recording->is_invalid ? CUDA_ERROR_CAPTURED_EVENT
							  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult capture_look_event(const struct event *event)
{
	if (likely(!atomic_load_explicit(&event->captured, memory_order_acquire)))
		return CUDA_SUCCESS;
	GRAPHS_LOCKED;
	return look_event_locked(event);
}

static CUresult capture_check_event(struct event *event)
{
	CUresult result;

	if (likely(!atomic_load_explicit(&event->captured, memory_order_acquire)))
		return capture_is_running() ? capture_check_unsafe() : CUDA_SUCCESS;
	GRAPHS_LOCKED;
	result = look_event_locked(event);
	if (result == CUDA_ERROR_CAPTURED_EVENT)
		event->captured->recording->is_invalid = true;
	return result;
}

/* NULL as a context: all contexts of the GPU. */
static CUresult check_all(unsigned device, const struct context *context)
{
	CUresult result = CUDA_SUCCESS;
	unsigned n = streams_ever();

	if (likely(!capture_is_running()))
		return CUDA_SUCCESS;
	GRAPHS_LOCKED;
	for (unsigned i = DEVICES_MAX; i < n; i++) {
		struct stream *stream = &streams[i];

		if (!stream->capture || stream->device != device)
			continue;
		if (context && context != (context->home ? stream->green : stream->context))
			continue;
		stream->capture->recording->is_invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

static CUresult capture_check_device(unsigned device)
{
	return check_all(device, NULL);
}

static CUresult capture_check_context(const struct context *context)
{
	return check_all(context->device->index, context);
}

CUresult local_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;

	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

static void capture_forget_event(struct event *event)
{
	if (likely(!atomic_load_explicit(&event->captured, memory_order_acquire)))
		return;
	GRAPHS_LOCKED;
	point_free(event->captured);
	atomic_store_explicit(&event->captured, NULL, memory_order_release);
}

const struct recorder recorder = {
	.look = capture_look,
	.look_wait = capture_look_wait,
	.kernel = capture_kernel,
	.copy = capture_copy,
	.fill = capture_fill,
	.memory_ops = capture_memory_ops,
	.alloc = capture_alloc,
	.free = capture_free,
	.host = capture_host,
	.event_record = capture_record,
	.event_wait = capture_wait,
	.forbid = capture_forbid,
	.check_wait = capture_check_wait,
	.look_event = capture_look_event,
	.check_event = capture_check_event,
	.check_device = capture_check_device,
	.check_context = capture_check_context,
	.check_unsafe = capture_check_unsafe,
	.forget_event = capture_forget_event,
	.abandon = capture_abandon,
};
