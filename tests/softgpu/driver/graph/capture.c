/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture.
 *
 * Runs in any thread, under the driver's lock. The tips of a stream in a capture
 * are the nodes on which its next node depends.
 */

#include "capture.h"

#include <string.h>

#include "graph.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/event.h"
#include "tests/softgpu/driver/stream/stream.h"

/* State that all streams of a capture share. */
struct recording {
	uint32_t refs;
	uint64_t id;
	struct graph *graph; /* owned until the capture ends; NULL afterwards */
	bool is_borrowed;    /* the graph existed before; the capture does not free it */
	bool is_invalidated;
	struct stream *origin; /* not owned: the capture ends with it */
	CUstreamCaptureMode mode;
	pthread_t thread;   /* the thread that began it */
	struct node **left; /* owned: tips of streams that were destroyed */
	size_t n_left;
};

/* Nodes of a recording. */
struct graph_point {
	uint32_t refs;
	struct recording *recording; /* owns a reference */
	struct node **tips;
	CUgraphEdgeData *data; /* of the edge from each tip */
	size_t n_tips;
};

struct capture {
	struct graph_point *point; /* owns the only reference */
};

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void recording_unref(struct recording *recording)
{
	if (--recording->refs > 0)
		return;
	free(recording->left);
	free(recording);
}

void capture_point_unref(struct graph_point *point)
{
	if (!point || --point->refs > 0)
		return;
	recording_unref(point->recording);
	free(point->tips);
	free(point->data);
	free(point);
}

/* `data' NULL: plain edges. */
static CUresult point_new(struct recording *recording, struct node *const *tips,
	const CUgraphEdgeData *data, size_t n, struct graph_point **ret_point)
{
	struct graph_point *point = calloc(1, sizeof(*point));
	struct node **copy = calloc(n + 1, sizeof(struct node *));
	CUgraphEdgeData *copied = calloc(n + 1, sizeof(*copied));

	if (!point || !copy || !copied) {
		free(point);
		free(copy);
		free(copied);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n > 0)
		memcpy(copy, tips, n * sizeof(struct node *));
	if (n > 0 && data)
		memcpy(copied, data, n * sizeof(*copied));
	*point = (struct graph_point){1, recording, copy, copied, n};
	recording->refs++;
	*ret_point = point;
	return CUDA_SUCCESS;
}

static CUresult capture_start(struct stream *stream, struct recording *recording,
	struct node *const *tips, const CUgraphEdgeData *data, size_t n)
{
	struct capture *capture = calloc(1, sizeof(*capture));

	if (!capture || point_new(recording, tips, data, n, &capture->point) != CUDA_SUCCESS) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->capture = capture;
	return CUDA_SUCCESS;
}

static void capture_stop(struct stream *stream)
{
	capture_point_unref(stream->capture->point);
	free(stream->capture);
	stream->capture = NULL;
}

/* Removes every stream from the capture; the graph goes to the caller or is freed. */
static struct graph *recording_end(struct recording *recording)
{
	struct graph *graph = recording->graph;

	recording->graph = NULL;
	for (struct context *context = driver.contexts; context; context = context->next)
		for (struct stream *stream = context->streams; stream; stream = stream->next)
			if (stream->capture && stream->capture->point->recording == recording)
				capture_stop(stream);
	return graph;
}

/* Ends a capture without a graph. */
static void recording_discard(struct recording *recording)
{
	struct graph *graph = recording_end(recording);

	if (!recording->is_borrowed)
		graph_unref(graph);
}

/* The capture continues; an event may have recorded the stream's tips. */
static void leave(struct stream *stream)
{
	const struct graph_point *point = stream->capture->point;
	struct recording *recording = point->recording;
	struct node **grown = realloc(
		recording->left, (recording->n_left + point->n_tips + 1) * sizeof(struct node *));

	if (grown) {
		recording->left = grown;
		for (size_t i = 0; i < point->n_tips; i++)
			grown[recording->n_left++] = point->tips[i];
	} else {
		recording->is_invalidated = true;
	}
	capture_stop(stream);
}

void capture_abandon(struct stream *stream)
{
	struct recording *recording;

	if (!stream->capture)
		return;
	recording = stream->capture->point->recording;
	if (recording->origin != stream) {
		leave(stream);
		return;
	}
	recording->is_invalidated = true;
	recording->refs++;
	recording_discard(recording);
	recording_unref(recording);
}

CUresult capture_forbid(struct stream *stream)
{
	struct recording *recording = stream->capture->point->recording;

	recording->is_invalidated = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_look_event(const struct event *event)
{
	const struct recording *recording;

	if (!event->captured)
		return CUDA_SUCCESS;
	recording = event->captured->recording;
	/* No graph will have it if the capture is over or invalid. */
	return recording->graph && !recording->is_invalidated ? CUDA_ERROR_CAPTURED_EVENT
							      : CUDA_ERROR_INVALID_VALUE;
}

CUresult capture_forbid_event(struct event *event)
{
	CUresult result = capture_look_event(event);

	if (result == CUDA_ERROR_CAPTURED_EVENT)
		event->captured->recording->is_invalidated = true;
	return result;
}

/* Whether the capture forbids this thread an unsafe call. */
static bool recording_is_in_the_way(const struct recording *recording)
{
	bool is_own = pthread_equal(recording->thread, pthread_self());

	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
		recording->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	return is_own || (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
				 recording->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult capture_check_unsafe(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct context *context = driver.contexts; context; context = context->next)
		for (struct stream *stream = context->streams; stream; stream = stream->next)
			if (stream->capture &&
				recording_is_in_the_way(stream->capture->point->recording))
				result = capture_forbid(stream);
	return result;
}

static struct recording *blocking_capture(const struct context *context)
{
	for (const struct stream *stream = context->streams; stream; stream = stream->next)
		if (stream->capture && !(stream->flags & CU_STREAM_NON_BLOCKING))
			return stream->capture->point->recording;
	return NULL;
}

bool capture_blocks(const struct stream *stream)
{
	struct recording *recording;

	if (!stream_is_null(stream) || stream->is_green)
		return false;
	recording = blocking_capture(stream->context);
	if (recording)
		recording->is_invalidated = true;
	return recording != NULL;
}

/* A kernel with programmatic stream serialization waits for the kernels before it by itself. */
static void serialize(struct node *node)
{
	for (size_t i = 0; i < node->n_dependencies; i++)
		if (node->dependencies[i]->type == CU_GRAPH_NODE_TYPE_KERNEL)
			node->edge_data[i] = (CUgraphEdgeData){
				.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
				.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
}

/* Makes the node the stream's only tip. */
static CUresult capture_node(struct stream *stream, struct work *work)
{
	struct graph_point *point = stream->capture->point;
	struct node *node;
	CUresult result;

	if (point->recording->is_invalidated) {
		work_fini(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	result = node_new(point->recording->graph, point->tips, point->n_tips, node_type_of(work),
		work, &node);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < point->n_tips; i++)
		node->edge_data[i] = point->data[i];
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && node->work.kernel.is_serialized)
		serialize(node);
	/* As in driver 580, a node has the priority of the stream. */
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && node->work.kernel.hints.priority == 0)
		node->work.kernel.hints.priority = stream->priority;
	node->is_captured = true;
	point->tips[0] = node; /* there is always room for one */
	point->data[0] = (CUgraphEdgeData){0};
	point->n_tips = 1;
	return CUDA_SUCCESS;
}

CUresult capture_push(struct stream *stream, struct work *work)
{
	if (work->kind != WORK_CALLBACK && work->kind != WORK_FREE)
		return capture_node(stream, work);
	work_fini(work);
	return capture_forbid(stream);
}

static CUresult event_capture(
	struct event *event, const struct graph_point *point, const CUgraphEdgeData *data)
{
	struct graph_point *captured;
	CUresult result = point_new(point->recording, point->tips, data, point->n_tips, &captured);

	if (result != CUDA_SUCCESS)
		return result;
	capture_point_unref(event->captured);
	event->captured = captured;
	return CUDA_SUCCESS;
}

CUresult capture_launched(struct stream *stream, const struct launch *launch)
{
	const CUgraphEdgeData completion = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER};
	const CUgraphEdgeData programmatic = {
		.from_port = launch->triggers_at_start ? CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
						       : CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
		.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
	const struct graph_point *point = stream->capture->point;
	CUresult result = CUDA_SUCCESS;

	if (launch->programmatic)
		result = event_capture(launch->programmatic, point, &programmatic);
	if (launch->completion && result == CUDA_SUCCESS)
		result = event_capture(launch->completion, point, &completion);
	return result;
}

CUresult capture_record(struct stream *stream, struct event *event, bool is_external)
{
	const struct graph_point *point = stream->capture->point;
	struct work work = {.kind = WORK_RECORD_EVENT, .event = event};

	if (is_external) {
		event->refs++;
		return capture_node(stream, &work);
	}
	if (point->recording->is_invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return event_capture(event, point, point->data);
}

static bool point_has(const struct graph_point *point, const struct node *node)
{
	for (size_t i = 0; i < point->n_tips; i++)
		if (point->tips[i] == node)
			return true;
	return false;
}

/* Of two edges from one node, the stronger counts: the end of the node, then its trigger. */
static void edge_join(CUgraphEdgeData *edge, const CUgraphEdgeData *other)
{
	if (edge->from_port > other->from_port)
		*edge = *other;
}

static CUresult point_join(struct graph_point *point, const struct graph_point *other)
{
	CUgraphEdgeData *grown_data;
	size_t room = point->n_tips + other->n_tips + 1;
	struct node **grown = realloc(point->tips, room * sizeof(struct node *));

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	point->tips = grown;
	grown_data = realloc(point->data, room * sizeof(*grown_data));
	if (!grown_data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	point->data = grown_data;
	for (size_t i = 0; i < other->n_tips; i++) {
		size_t k = 0;

		while (k < point->n_tips && grown[k] != other->tips[i])
			k++;
		if (k < point->n_tips) {
			edge_join(&grown_data[k], &other->data[i]);
			continue;
		}
		grown_data[k] = other->data[i];
		grown[k] = other->tips[i];
		point->n_tips++;
	}
	return CUDA_SUCCESS;
}

CUresult capture_await(struct stream *stream, struct event *event, bool is_external)
{
	struct work work = {.kind = WORK_WAIT_EVENT, .event = event};
	const struct graph_point *captured = event->captured;

	if (stream->capture && is_external) {
		event->refs++;
		return capture_node(stream, &work);
	}
	if (!captured && !event->stream)
		return CUDA_SUCCESS; /* never recorded */
	if (!captured && stream->capture) {
		stream->capture->point->recording->is_invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (!captured)
		return event_await(event, stream);
	if (captured->recording->is_invalidated || !captured->recording->graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->capture)
		return stream_is_null(stream)
			       ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
			       : capture_start(stream, captured->recording, captured->tips,
					 captured->data, captured->n_tips);
	if (stream->capture->point->recording != captured->recording) {
		captured->recording->is_invalidated = true;
		stream->capture->point->recording->is_invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	return point_join(stream->capture->point, captured);
}

static CUresult begin(CUstream handle, struct graph *graph, struct node *const *tips,
	const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode)
{
	struct recording *recording;
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	if (capture_blocks(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (stream_is_null(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	recording = calloc(1, sizeof(*recording));
	if (!recording)
		return CUDA_ERROR_OUT_OF_MEMORY;
	recording->refs = 1;
	recording->id = ++driver.last_id;
	recording->is_borrowed = graph != NULL;
	recording->graph = graph ? graph : graph_new();
	recording->origin = stream;
	recording->mode = mode;
	recording->thread = pthread_self();
	result = recording->graph ? capture_start(stream, recording, tips, data, n)
				  : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS && !graph)
		graph_unref(recording->graph);
	recording_unref(recording);
	return result;
}

ENTER_STREAM(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
	begin(stream, NULL, NULL, NULL, 0, mode))
ENTER_STREAM(cuStreamBeginCapture, (CUstream stream),
	begin(stream, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL))

static CUresult nodes_check(
	const struct graph *graph, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct node *node = nodes ? object_find(OBJECT_NODE, nodes[i]) : NULL;

		if (!node || node->graph != graph || (data && !edge_data_ok(node, NULL, &data[i])))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult begin_to_graph(CUstream stream, CUgraph handle, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode)
{
	struct graph *graph = object_find(OBJECT_GRAPH, handle);

	if (!graph || nodes_check(graph, dependencies, data, n) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	return begin(stream, graph, (struct node *const *)dependencies, data, n, mode);
}

ENTER_STREAM(cuStreamBeginCaptureToGraph,
	(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
		const CUgraphEdgeData *edge_data, size_t n, CUstreamCaptureMode mode),
	begin_to_graph(stream, graph, dependencies, edge_data, n, mode))

static bool node_is_joined(const struct node *node, const struct graph_point *end)
{
	if (!node->is_captured || point_has(end, node))
		return true;
	for (const struct node *other = node->graph->nodes; other; other = other->next)
		for (size_t i = 0; i < other->n_dependencies; i++)
			if (other->dependencies[i] == node)
				return true;
	return false;
}

static bool all_are_joined(struct node *const *tips, size_t n_tips, const struct graph_point *end)
{
	for (size_t i = 0; i < n_tips; i++)
		if (!node_is_joined(tips[i], end))
			return false;
	return true;
}

/* Whether another stream has, or had, work that the origin does not wait for. */
static bool recording_is_unjoined(const struct recording *recording, const struct graph_point *end)
{
	for (const struct context *context = driver.contexts; context; context = context->next)
		for (const struct stream *stream = context->streams; stream;
			stream = stream->next) {
			const struct graph_point *point =
				stream->capture ? stream->capture->point : NULL;

			if (point && point->recording == recording && point != end &&
				!all_are_joined(point->tips, point->n_tips, end))
				return true;
		}
	return !all_are_joined(recording->left, recording->n_left, end);
}

/* The result of a capture that ends on its stream, whatever the result. */
static CUresult end_result(const struct recording *recording, const struct graph_point *end)
{
	if (recording->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		!pthread_equal(recording->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (recording->is_invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return recording_is_unjoined(recording, end) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
						     : CUDA_SUCCESS;
}

static CUresult end(CUstream handle, CUgraph *ret_graph)
{
	struct recording *recording;
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (ret_graph)
		*ret_graph = NULL;
	if (result == CUDA_SUCCESS && capture_blocks(stream))
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (result == CUDA_SUCCESS && !stream->capture)
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (result != CUDA_SUCCESS)
		return result;
	recording = stream->capture->point->recording;
	if (recording->origin != stream) {
		recording->is_invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	recording->refs++;
	result = end_result(recording, stream->capture->point);
	if (result == CUDA_SUCCESS && ret_graph)
		*ret_graph = (CUgraph)recording_end(recording);
	else
		recording_discard(recording);
	recording_unref(recording);
	return result;
}

ENTER_STREAM(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end(stream, graph))

static CUstreamCaptureStatus status_of(const struct stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->point->recording->is_invalidated
		       ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
		       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The results of a query about a capture; all but `status' may be NULL. */
struct question {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **dependencies;
	const CUgraphEdgeData **edge_data;
	size_t *n;
};

static CUresult answer(CUstream handle, const struct question *question)
{
	const struct graph_point *point;
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!question->status)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	/* A query does not change another thread's capture. */
	if (stream_is_null(stream) && !stream->is_green && blocking_capture(stream->context))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*question->status = status_of(stream);
	if (*question->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	point = stream->capture->point;
	for (size_t i = 0; i < point->n_tips; i++)
		if (question->dependencies && !question->edge_data && point->data[i].from_port)
			return CUDA_ERROR_LOSSY_QUERY;
	if (question->id)
		*question->id = point->recording->id;
	if (question->graph)
		*question->graph = (CUgraph)point->recording->graph;
	if (question->dependencies)
		*question->dependencies = (const CUgraphNode *)point->tips;
	if (question->edge_data)
		*question->edge_data = point->data;
	if (question->n)
		*question->n = point->n_tips;
	return CUDA_SUCCESS;
}

ENTER_STREAM(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
	answer(stream, &(struct question){.status = status}))
ENTER_STREAM(cuStreamGetCaptureInfo,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
	answer(stream, &(struct question){.status = status, .id = id}))
ENTER_STREAM(cuStreamGetCaptureInfo_v2,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, size_t *n),
	answer(stream, &(struct question){.status = status,
			       .id = id,
			       .graph = graph,
			       .dependencies = dependencies,
			       .n = n}))
ENTER_STREAM(cuStreamGetCaptureInfo_v3,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, const CUgraphEdgeData **edge_data, size_t *n),
	answer(stream, &(struct question){status, id, graph, dependencies, edge_data, n}))

static CUresult tips_update(
	CUstream handle, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n, unsigned flags)
{
	struct graph_point *point, *replaced = NULL;
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	point = stream->capture->point;
	if (nodes_check(point->recording->graph, nodes, data, n) != CUDA_SUCCESS ||
		flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	result = point_new(point->recording, (struct node *const *)nodes, data, n, &replaced);
	if (result == CUDA_SUCCESS && flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		result = point_join(replaced, point);
	if (result != CUDA_SUCCESS) {
		capture_point_unref(replaced);
		return result;
	}
	capture_point_unref(point);
	stream->capture->point = replaced;
	return CUDA_SUCCESS;
}

ENTER_STREAM(cuStreamUpdateCaptureDependencies,
	(CUstream stream, CUgraphNode *dependencies, size_t n, unsigned flags),
	tips_update(stream, dependencies, NULL, n, flags))
ENTER_STREAM(cuStreamUpdateCaptureDependencies_v2,
	(CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edge_data, size_t n,
		unsigned flags),
	tips_update(stream, dependencies, edge_data, n, flags))

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;

	ENTER(CALL_INIT);
	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
