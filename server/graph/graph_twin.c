/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Twins of executable graphs: made, chosen for a launch, ended. A worker.
 *
 * Invariant: launches of a graph run one after another, whichever twin each one launches. So when
 * the last launch has ended, no twin runs.
 */

#include "graph_twin.h"

#include "clock.h"
#include "graph_switch.h"
#include "graph_wait.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/graph_end.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/stream.h"

/* Without memory or a channel, an attempt to make a twin may take a millisecond. */
#define RETRY_NS 100000000u

bool graph_twins_may_be(const struct graph *graph)
{
	return graph->sdev->elastic.n > 1 && graph->n_conditions == 0;
}

/* ---- ends */

static void twin_free(struct graph *graph, struct graph_twin *twin, bool device_lost)
{
	if (!twin->ending)
		return;
	if (twin->end && !device_lost)
		cuda.cuEventDestroy_v2(twin->end);
	graph_end(twin->ending, twin->exec, twin->model, graph->sdev->device->context, device_lost);
	if (graph->twins->last == twin)
		graph->twins->last = NULL;
	*twin = (struct graph_twin){0};
}

void graph_twins_free(struct graph *graph, bool device_lost)
{
	struct graph_twins *twins = graph->twins;

	for (unsigned i = 0; twins && i < GRAPH_TWINS_MAX; i++)
		twin_free(graph, &twins->list[i], device_lost);
	if (twins && twins->end && !device_lost)
		cuda.cuEventDestroy_v2(twins->end);
	account_free(twins);
	graph->twins = NULL;
}

static bool twin_runs(
	const struct session *session, const struct graph *graph, const struct graph_twin *twin)
{
	if (twin->launched == 0 || !graph_last_stream(session, graph))
		return false;
	return !twin->end || cuda.cuEventQuery(twin->end) != CUDA_SUCCESS;
}

static bool twin_may_end(
	const struct session *session, const struct graph *graph, const struct graph_twin *twin)
{
	return twin->exec && twin != graph->twins->chosen && !twin_runs(session, graph, twin);
}

bool graph_twins_reclaim(struct session *session)
{
	bool has_ended = false;

	for (struct graph *graph = session->graph_list; graph; graph = graph->next)
		for (unsigned i = 0; graph->twins && i < GRAPH_TWINS_MAX; i++)
			if (twin_may_end(session, graph, &graph->twins->list[i])) {
				twin_free(graph, &graph->twins->list[i], false);
				has_ended = true;
			}
	return has_ended;
}

/* ---- making */

/* The clone's node gets the SMs of the current context; the parameters stay. */
static CUresult twin_set_kernel(const struct graph_twin *twin, const struct graph_node *node)
{
	CUDA_KERNEL_NODE_PARAMS_v2 params;
	CUgraphNode in_twin;
	CUresult result = cuda.cuGraphNodeFindInClone(&in_twin, node->real, twin->model);

	/* The parameters belong to the original, so that they outlive the change. */
	if (result == CUDA_SUCCESS)
		result = cuda.cuGraphKernelNodeGetParams_v2(node->real, &params);
	if (result != CUDA_SUCCESS)
		return result;
	params.kern = NULL;
	params.ctx = NULL;
	return cuda.cuGraphKernelNodeSetParams_v2(in_twin, &params);
}

CUresult graph_twin_enable(const struct graph *graph, const struct graph_twin *twin,
	const struct graph_node *node, bool is_enabled)
{
	CUgraphNode in_twin;
	CUresult result = cuda.cuGraphNodeFindInClone(&in_twin, node->real, twin->model);

	return result == CUDA_SUCCESS ? graph_switch(graph, twin->exec, in_twin, node, is_enabled)
				      : result;
}

static CUresult twin_disable_nodes(const struct graph *graph, const struct graph_twin *twin)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < graph->n_nodes && result == CUDA_SUCCESS; i++)
		if (graph->nodes[i].is_disabled)
			result = graph_twin_enable(graph, twin, &graph->nodes[i], false);
	return result;
}

/* The context of the share is current. */
static CUresult twin_make_exec(
	struct session *session, const struct graph *graph, struct graph_twin *twin)
{
	struct channel_part part = {
		.n_channels = graph->n_nodes - graph->n_joined, .n_nodes = graph->n_nodes};
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < graph->n_nodes && result == CUDA_SUCCESS; i++) {
		const struct graph_node *node = &graph->nodes[i];

		if (!node->share && (node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->is_by_kernel))
			result = twin_set_kernel(twin, node);
	}
	if (result == CUDA_SUCCESS)
		result = graph_end_make(twin->ending, session, graph->sdev->device, &part, 1,
			twin->model, graph->flags, &twin->exec);
	return result;
}

static CUresult twin_make_within(
	struct session *session, const struct graph *graph, struct graph_twin *twin)
{
	CUresult result;

	twin->ending = graph_end_new(session->account);
	if (!twin->ending || !graph_end_take_nodes(twin->ending, graph->n_nodes) ||
		!account_keep(twin->ending, graph->kept + KEPT_EVENT))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuGraphClone(&twin->model, graph->model);
	if (result != CUDA_SUCCESS) {
		twin->model = NULL;
		return result;
	}
	result = elastic_shares_enter(session, graph->sdev, twin->share);
	if (result == CUDA_SUCCESS)
		result = twin_make_exec(session, graph, twin);
	if (session_device_enter(session, graph->sdev) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return result == CUDA_SUCCESS ? twin_disable_nodes(graph, twin) : result;
}

static CUresult twin_make(
	struct session *session, struct graph *graph, struct graph_twin *twin, unsigned share)
{
	CUresult result;

	*twin = (struct graph_twin){.share = share};
	session->can_do_without = true;
	result = twin_make_within(session, graph, twin);
	session->can_do_without = false;
	if (result != CUDA_SUCCESS)
		twin_free(graph, twin, result_is_fault(result));
	return result;
}

void graph_twins_keep(struct session *session, struct graph *graph, uint64_t more)
{
	session->can_do_without = true;
	for (unsigned i = 0; graph->twins && i < GRAPH_TWINS_MAX; i++) {
		struct graph_twin *twin = &graph->twins->list[i];

		if (twin->exec && !account_keep(twin->ending, more))
			twin->is_old = true;
	}
	session->can_do_without = false;
}

/* ---- space */

static uint64_t count_nodes(const struct session *session)
{
	uint64_t n = 0;

	for (const struct graph *graph = session->graph_list; graph; graph = graph->next)
		for (unsigned i = 0; graph->twins && i < GRAPH_TWINS_MAX; i++)
			n += graph->twins->list[i].ending ? graph->n_nodes : 0;
	return n;
}

/* Those that are not launched any more first, then the one that was launched least recently. */
static bool ends_before(const struct graph_twin *one, const struct graph_twin *other)
{
	return one->is_old != other->is_old ? one->is_old : one->launched < other->launched;
}

static struct graph_twin *twin_end_one(struct session *session, struct graph *graph)
{
	struct graph_twin *first = NULL;

	for (unsigned i = 0; i < GRAPH_TWINS_MAX; i++) {
		struct graph_twin *twin = &graph->twins->list[i];

		if (twin->exec && (!first || ends_before(twin, first)))
			first = twin;
	}
	if (!first || !twin_may_end(session, graph, first))
		return NULL;
	twin_free(graph, first, false);
	return first;
}

static struct graph_twin *find_free(struct graph_twins *twins)
{
	for (unsigned i = 0; i < GRAPH_TWINS_MAX; i++)
		if (!twins->list[i].ending)
			return &twins->list[i];
	return NULL;
}

/* Space for one more twin, perhaps of another twin of the graph that ends. NULL: there is none. */
static struct graph_twin *make_space(struct session *session, struct graph *graph)
{
	struct graph_twin *twin = find_free(graph->twins);

	if (!twin || count_nodes(session) + graph->n_nodes > GRAPH_TWIN_NODES_MAX)
		twin = twin_end_one(session, graph);
	return count_nodes(session) + graph->n_nodes > GRAPH_TWIN_NODES_MAX ? NULL : twin;
}

/* ---- launches */

static struct graph_twin *find_twin(struct graph_twins *twins, unsigned share)
{
	for (unsigned i = 0; i < GRAPH_TWINS_MAX; i++)
		if (twins->list[i].exec && twins->list[i].share == share && !twins->list[i].is_old)
			return &twins->list[i];
	return NULL;
}

static bool twins_begin(struct session *session, struct graph *graph)
{
	if (graph->twins)
		return true;
	session->can_do_without = true;
	graph->twins = account_alloc(session->account, sizeof(*graph->twins), KEPT_EVENT);
	session->can_do_without = false;
	return graph->twins;
}

/* An error is of the share, unless there is no memory. */
static struct graph_twin *twin_try(struct session *session, struct graph *graph, unsigned share)
{
	struct graph_twin *twin = make_space(session, graph);
	CUresult result = twin ? twin_make(session, graph, twin, share) : CUDA_ERROR_NOT_READY;

	if (result == CUDA_SUCCESS)
		return twin;
	if (result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_NOT_READY)
		graph->twins->retry_ns = now_ns() + RETRY_NS;
	else
		graph->twins->unfit |= 1u << share;
	return NULL;
}

/* To make one may wait for all that is on the GPU. */
static struct graph_twin *twin_get(struct session *session, struct graph *graph, unsigned share)
{
	struct graph_twin *twin;

	if (!graph_twins_may_be(graph) || share == elastic_shares_own(&graph->sdev->elastic) ||
		!twins_begin(session, graph))
		return NULL;
	twin = find_twin(graph->twins, share);
	if (twin || graph->is_model_old || blocked_any() || (graph->twins->unfit >> share & 1) ||
		now_ns() < graph->twins->retry_ns ||
		session_device_enter(session, graph->sdev) != CUDA_SUCCESS)
		return twin;
	return twin_try(session, graph, share);
}

struct graph_twin *graph_twin_choose(
	struct session *session, struct stream *stream, struct graph *graph)
{
	unsigned share = elastic_stream_wait_graph(session, stream, MAX(graph->n_nodes, 1u));
	struct graph_twin *twin = twin_get(session, graph, share);

	if (graph->twins)
		graph->twins->chosen = twin;
	elastic_stream_change(
		session, stream, twin ? share : elastic_shares_own(&stream->sdev->elastic));
	return twin;
}

static CUevent last_end(const struct graph_twins *twins)
{
	return twins->last ? twins->last->end : twins->end;
}

CUresult graph_twin_order(struct session *session, struct stream *stream, struct graph *graph,
	struct graph_twin **twin)
{
	const struct stream *last;
	bool may_repeat;

	if (!graph->twins || graph->twins->last == *twin)
		return CUDA_SUCCESS;
	last = graph_last_stream(session, graph);
	if (!last || last == stream)
		return CUDA_SUCCESS;
	may_repeat = !graph->twins->last || !graph->twins->last->is_old;
	if (last_end(graph->twins) && (!blocked_any() || !may_repeat))
		return stream_wait_event(session, stream, last_end(graph->twins),
			blocked_contains(session, last->id));
	if (!may_repeat)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*twin = graph->twins->chosen = graph->twins->last;
	return CUDA_SUCCESS;
}

/* Behind the launch. Without memory for the event, the end of the launch is not known. */
static void mark_end(struct session *session, struct stream *stream, CUevent *end)
{
	blocked_count_call(session, stream);
	blocked_evade_write(session, stream);
	if (!*end && cuda.cuEventCreate(end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		*end = NULL;
	if (*end && cuda.cuEventRecord(*end, stream->real) != CUDA_SUCCESS) {
		cuda.cuEventDestroy_v2(*end);
		*end = NULL;
	}
}

void graph_twin_launched(struct session *session, struct stream *stream, struct graph *graph,
	struct graph_twin *twin, CUresult result)
{
	struct graph_twins *twins = graph->twins;

	if (!twins)
		return;
	twins->chosen = NULL;
	if (result != CUDA_SUCCESS)
		return;
	twins->last = twin;
	twins->n_launches++;
	if (twin)
		twin->launched = twins->n_launches;
	mark_end(session, stream, twin ? &twin->end : &twins->end);
}

void graph_twin_refuse(struct graph *graph, struct graph_twin *twin)
{
	twin->is_old = true;
	graph->twins->unfit |= 1u << twin->share;
}
