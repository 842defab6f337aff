/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Beginning and ending captures, and queries about them. Any thread of the
 * application.
 *
 * Invariant: none of these calls asks the server or waits.
 */

#include <stdatomic.h>
#include <string.h>

#include "calls_graph.h"
#include "node_calls.h"
#include "recording.h"
#include "client/transport/route.h"
#include "client/stream/recorder.h"

static uint64_t last_id;

/* Whether the next node of a stream can depend on them by such edges. */
static bool nodes_are_of(
	const struct graph *graph, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct graph_node *node = nodes ? node_find(nodes[i]) : NULL;

		if (!node || node->graph != graph ||
			(data && !edge_data_ok(node, CU_GRAPH_NODE_TYPE_KERNEL, &data[i])))
			return false;
	}
	return true;
}

/* Takes ownership of `recording', which has its graph, on failure too. */
static CUresult capture_begin(struct stream *stream, struct recording *recording,
	const CUgraphNode *tips, const CUgraphEdgeData *data, size_t n_tips)
{
	struct capture_point *point;
	CUresult result;

	recording->id = ++last_id;
	recording->origin = stream;
	recording->thread = pthread_self();
	recording->refs = 1;
	result = point_new(recording, tips, data, n_tips, &point);
	if (result == CUDA_SUCCESS)
		capture_start(stream, point);
	else if (!recording->is_borrowed)
		graph_free(recording->graph);
	recording_unref(recording);
	return result;
}

static CUresult begin_check(CUstream handle, CUstreamCaptureMode mode, struct stream **ret_stream)
{
	bool captures;
	CUresult result;

	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_enter(handle, ret_stream);
	if (result == CUDA_SUCCESS)
		result = recorder_look(*ret_stream, &captures);
	if (result != CUDA_SUCCESS)
		return result;
	if ((*ret_stream)->green)
		return refuse("cuStreamBeginCapture",
			"green-context streams cannot capture: kernels in graphs use all SMs");
	return stream_is_null(*ret_stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult local_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	struct stream *stream;
	struct recording *recording;
	CUresult result = begin_check(hStream, mode, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	GRAPHS_LOCKED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	recording = calloc(1, sizeof(*recording));
	if (!recording || graph_new(&recording->graph) != CUDA_SUCCESS) {
		free(recording);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	recording->mode = mode;
	return capture_begin(stream, recording, NULL, NULL, 0);
}

CUresult local_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUstreamCaptureMode mode)
{
	struct stream *stream;
	struct recording *recording;
	struct graph *graph;
	CUresult result = hGraph ? begin_check(hStream, mode, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	GRAPHS_LOCKED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	graph = graph_find(hGraph);
	if (!graph || !nodes_are_of(graph, dependencies, dependencyData, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	recording = calloc(1, sizeof(*recording));
	if (!recording)
		return CUDA_ERROR_OUT_OF_MEMORY;
	recording->mode = mode;
	recording->graph = graph;
	recording->is_borrowed = true;
	return capture_begin(stream, recording, dependencies, dependencyData, numDependencies);
}

static bool has_tip(const struct capture_point *point, const struct graph_node *node)
{
	for (size_t i = 0; i < point->n_tips; i++)
		if (point->tips[i] == (CUgraphNode)node)
			return true;
	return false;
}

/* Nodes that the program has added itself, and made a stream continue from, need not be joined. */
static bool is_joined(const struct capture_point *end, const CUgraphNode *tips, size_t n_tips)
{
	for (size_t i = 0; i < n_tips; i++) {
		const struct graph_node *node = (const struct graph_node *)tips[i];

		if (node->is_captured && node->n_after == 0 && !has_tip(end, node))
			return false;
	}
	return true;
}

/* Whether other streams have, or had, work for which the ending stream does not wait. */
static bool is_unjoined(const struct recording *recording, const struct capture_point *end)
{
	unsigned n = streams_ever();

	for (unsigned i = DEVICES_MAX; i < n; i++) {
		const struct capture_point *point = streams[i].capture;

		if (point && point->recording == recording && point != end &&
			!is_joined(end, point->tips, point->n_tips))
			return true;
	}
	return !is_joined(end, recording->ended_tips, recording->n_ended_tips);
}

/* The result of a capture that ends on its stream, whatever the result. */
static CUresult end_result(const struct recording *recording, const struct capture_point *end)
{
	if (recording->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		!pthread_equal(recording->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (recording->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return is_unjoined(recording, end) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS;
}

CUresult local_cuStreamEndCapture(struct stream *stream, CUgraph *phGraph)
{
	struct recording *recording;
	struct graph *graph;
	bool is_borrowed, captures;
	CUresult result = recorder_look(stream, &captures);

	if (result != CUDA_SUCCESS)
		return result;
	if (phGraph)
		*phGraph = NULL;
	GRAPHS_LOCKED;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	recording = stream->capture->recording;
	if (recording->origin != stream) {
		recording->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	is_borrowed = recording->is_borrowed;
	result = end_result(recording, stream->capture);
	graph = recording_end(recording);
	if (result == CUDA_SUCCESS && phGraph)
		*phGraph = (CUgraph)graph;
	/* A caller without phGraph has that graph already, or drops the capture. */
	else if (!is_borrowed)
		graph_free(graph);
	return result;
}

/* Under the lock. */
static CUstreamCaptureStatus status_of(const struct stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->recording->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static bool is_plain(const struct capture_point *point)
{
	static const CUgraphEdgeData plain;

	for (size_t i = 0; i < point->n_tips; i++)
		if (memcmp(&point->data[i], &plain, sizeof(plain)) != 0)
			return false;
	return true;
}

CUresult capture_answer(CUstream handle, const struct capture_question *question)
{
	const struct capture_point *point;
	struct stream *stream;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!question->status)
		return CUDA_ERROR_INVALID_VALUE;
	GRAPHS_LOCKED;
	/* The query does not invalidate the other stream's capture. */
	if (recording_blocking(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*question->status = status_of(stream);
	if (*question->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	point = stream->capture;
	if (question->dependencies && !question->data && !is_plain(point))
		return CUDA_ERROR_LOSSY_QUERY;
	if (question->id)
		*question->id = point->recording->id;
	if (question->graph)
		*question->graph = (CUgraph)point->recording->graph;
	if (question->dependencies)
		*question->dependencies = point->tips;
	if (question->data)
		*question->data = point->data;
	if (question->n)
		*question->n = point->n_tips;
	return CUDA_SUCCESS;
}

CUresult local_cuStreamUpdateCaptureDependencies_v2(struct stream *stream,
	CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies,
	unsigned int flags)
{
	struct capture_point *replaced;
	CUresult result;

	GRAPHS_LOCKED;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capture->recording->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES ||
		!nodes_are_of(stream->capture->recording->graph, dependencies, dependencyData,
			numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		return point_add(stream->capture, dependencies, dependencyData, numDependencies);
	result = point_new(stream->capture->recording, dependencies, dependencyData,
		numDependencies, &replaced);
	if (result != CUDA_SUCCESS)
		return result;
	point_free(stream->capture);
	atomic_store_explicit(&stream->capture, replaced, memory_order_release);
	return CUDA_SUCCESS;
}
