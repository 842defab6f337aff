/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Executable graphs: instantiating, launching, ending. Any thread of the
 * application, under the lock of all graphs.
 *
 * Invariant: what launches use of this process (semaphores of calls, bounce memory,
 * references to the program's objects) is released after the last launch has ended.
 * A graph that is destroyed while it runs exists until then; the thread of
 * callback.c ends it.
 */

#include "exec.h"

#include <string.h>

#include "calls_graph.h"
#include "conditional.h"
#include "lock.h"
#include "client/transport/route.h"
#include "client/stream/callback.h"
#include "client/stream/recorder.h"
#include "client/stream/timeline.h"
#include "client/memory/host.h"
#include "client/memory/memory.h"
#include "send_graph.h"

#define FLAGS_MASK                                                                                 \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |    \
		CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |                                        \
		CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static struct slab execs = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct exec),
	.n_max = WIRE_GRAPHS_MAX,
};

static struct exec *closing;

/* The server's numbers that are not those of their slots, plus 1: a remade graph swaps two. */
static uint32_t numbers[WIRE_GRAPHS_MAX];

uint32_t exec_id(const struct exec *exec)
{
	uint32_t slot = slab_id(&execs, exec);

	return numbers[slot] ? numbers[slot] - 1 : slot;
}

struct exec *exec_find(CUgraphExec handle)
{
	struct exec *exec = slab_find(&execs, handle);

	return exec && !exec->is_closing ? exec : NULL;
}

struct graph_node *exec_node(const struct exec *exec, CUgraphNode handle)
{
	const struct graph_node *node = node_find(handle);
	size_t low = 0, high = exec->n_names;

	while (node && low < high) {
		size_t middle = low + (high - low) / 2;

		if (exec->names[middle].original < node->unique)
			low = middle + 1;
		else
			high = middle;
	}
	return node && low < exec->n_names && exec->names[low].original == node->unique
		       ? exec->names[low].node
		       : NULL;
}

bool exec_is_of(uint64_t graph, const struct exec *but)
{
	for (unsigned i = 0; i < execs.n_ever; i++) {
		const struct exec *exec =
			exec_find((CUgraphExec)(execs.base + i * sizeof(struct exec)));

		if (exec && exec != but && exec->source == graph)
			return true;
	}
	return false;
}

static int compare_names(const void *a, const void *b)
{
	const struct exec_name *one = a, *other = b;

	return (one->original > other->original) - (one->original < other->original);
}

static CUresult name_nodes(struct exec *exec)
{
	struct graph *image = exec->image;
	size_t n = 0;

	for (struct graph_node *node = image->first; node; node = graph_next(image, node))
		n++;
	exec->names = calloc(n + 1, sizeof(*exec->names));
	if (!exec->names)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct graph_node *node = image->first; node; node = graph_next(image, node)) {
		exec->names[exec->n_names++] = (struct exec_name){node->original, node};
		exec->records |= node->op.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
		exec->awaits_host |= node->op.type == CU_GRAPH_NODE_TYPE_HOST ||
				     node->op.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	}
	qsort(exec->names, n, sizeof(*exec->names), compare_names);
	return CUDA_SUCCESS;
}

/* Called when no launch of it is running. */
static void exec_free(struct exec *exec)
{
	struct memory_range range;

	for (uint32_t i = 0; i < exec->n_calls; i++)
		call_give(exec->calls[i].call);
	for (uint32_t i = 0; i < exec->n_bounces; i++)
		if (memory_remove(exec->bounces[i].allocated, MEMORY_KIND(MEMORY_PINNED), &range))
			(void)host_free(exec->bounces[i].allocated);
	graph_launch_fini(&exec->memory);
	if (exec->image)
		graph_release_references(exec->image, exec->stream);
	graph_free(exec->image);
	free(exec->names);
	free(exec->calls);
	free(exec->bounces);
	slab_give(&execs, exec);
}

static bool exec_is_closed(struct exec *exec)
{
	uint64_t seqno;

	/* The seqno may not have been posted yet. After a fault no launch continues. */
	return !exec->stream || timeline_reached(exec->stream, exec->seqno) ||
	       timeline_post(exec->stream, &seqno) != CUDA_SUCCESS ||
	       timeline_reached(exec->stream, exec->seqno);
}

static void free_closed_execs(void)
{
	for (struct exec **link = &closing; *link;) {
		struct exec *exec = *link;

		if (exec_is_closed(exec)) {
			*link = exec->next;
			exec_free(exec);
		} else {
			link = &exec->next;
		}
	}
}

void execs_free_closed(void)
{
	GRAPHS_LOCKED;
	free_closed_execs();
}

bool execs_free_ended(void)
{
	const bool locked = graphs_trylock();
	bool is_waiting = true;

	if (locked) {
		free_closed_execs();
		is_waiting = closing;
		graphs_unlock(&locked);
	}
	return is_waiting;
}

void exec_end(struct exec *exec)
{
	(void)send_graph_destroy(exec_id(exec));
	exec->is_closing = true;
	LIST_PUSH(closing, exec);
	free_closed_execs();
	if (closing)
		callback_expect_ends();
}

void execs_end_context(const struct context *context)
{
	GRAPHS_LOCKED;
	for (unsigned i = 0; i < execs.n_ever; i++) {
		struct exec *exec = exec_find((CUgraphExec)(execs.base + i * sizeof(struct exec)));

		if (exec && exec->context == context)
			exec_end(exec);
	}
}

/* The program's node from which a node of the image was made. */
static CUgraphNode original_of(const struct graph *graph, const struct graph_node *image)
{
	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		if (image && node->unique == image->original)
			return (CUgraphNode)node;
	return NULL;
}

/* Why a graph was not made executable. */
struct failure {
	CUgraphInstantiateResult reason;
	CUgraphNode node; /* of the program; NULL: no specific node */
};

static CUresult exec_make(struct exec *exec, const struct graph *graph, struct failure *failure)
{
	const struct graph_node *error = NULL;
	CUresult result = graph_clone(graph, &exec->image);

	if (result != CUDA_SUCCESS)
		return result;
	graph_set_private(exec->image, true);
	result = name_nodes(exec);
	if (result == CUDA_SUCCESS)
		result = graph_launch_of(exec->image, &exec->memory);
	if (result == CUDA_SUCCESS)
		result = exec_send(exec, &error);
	if (result != CUDA_SUCCESS) {
		failure->node = original_of(graph, error);
		(void)send_graph_destroy(exec_id(exec));
	}
	return result;
}

/* What the program changed by handles of nodes; those handles then name the fresh image. */
static CUresult inherit_nodes(struct exec *fresh, const struct exec *exec)
{
	struct graph_node *node = fresh->image->first, *old = exec->image->first;
	CUresult result = CUDA_SUCCESS;

	for (; node && result == CUDA_SUCCESS;
		node = graph_next(fresh->image, node), old = graph_next(exec->image, old)) {
		node->original = old->original;
		if (old->is_disabled)
			result = exec_enable(fresh, node, false);
	}
	if (result != CUDA_SUCCESS)
		return result;
	graph_release_references(fresh->image, false);
	free(fresh->names);
	fresh->names = NULL;
	fresh->n_names = 0;
	result = graph_copy_references(exec->image, fresh->image);
	return result == CUDA_SUCCESS ? name_nodes(fresh) : result;
}

/* `exec' stays the program's handle; `fresh' takes what launches may still use. */
static void exec_swap(struct exec *exec, struct exec *fresh)
{
	struct exec old = *exec;
	uint32_t old_id = exec_id(exec);

	numbers[slab_id(&execs, exec)] = exec_id(fresh) + 1;
	numbers[slab_id(&execs, fresh)] = old_id + 1;
	*exec = *fresh;
	*fresh = old;
}

static CUresult exec_make_like(struct exec *fresh, const struct exec *exec,
	const struct graph *graph, struct failure *failure)
{
	CUresult result;

	fresh->context = exec->context;
	fresh->source = exec->source;
	fresh->flags = exec->flags;
	fresh->stream = exec->stream;
	fresh->seqno = exec->seqno;
	fresh->is_remade = exec->stream;
	result = exec_make(fresh, graph, failure);
	if (result != CUDA_SUCCESS)
		return result;
	result = inherit_nodes(fresh, exec);
	if (result != CUDA_SUCCESS)
		(void)send_graph_destroy(exec_id(fresh));
	return result;
}

CUresult exec_remake(
	struct exec *exec, const struct graph *graph, const struct graph_node **ret_error)
{
	struct failure failure = {0};
	struct exec *fresh = slab_take(&execs);
	CUresult result;

	*ret_error = NULL;
	if (!fresh)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = exec_make_like(fresh, exec, graph, &failure);
	if (result != CUDA_SUCCESS) {
		*ret_error = node_find(failure.node);
		exec_free(fresh);
		return result;
	}
	exec_swap(exec, fresh);
	exec_end(fresh);
	return CUDA_SUCCESS;
}

/* Whether the driver would make the graph executable. */
static CUresult exec_check(const struct graph *graph, cuuint64_t flags, struct failure *failure)
{
	bool is_conditional = graph_is_conditional(graph);
	const struct graph_node *node;

	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return is_conditional
			       ? CUDA_ERROR_INVALID_VALUE
			       : refuse("cuGraphInstantiate", "kernels cannot launch graphs");
	if (is_conditional && (graph->parent || exec_is_of(graph->unique, NULL)))
		return CUDA_ERROR_NOT_SUPPORTED;
	/* The memory of its allocation nodes can be used by only one executable graph. */
	if (graph->is_moved || (graph->has_memory && exec_is_of(graph->unique, NULL)))
		return CUDA_ERROR_INVALID_VALUE;
	failure->reason = graph_conditional_check(graph, &node);
	failure->node = (CUgraphNode)node;
	return failure->reason == CUDA_GRAPH_INSTANTIATE_SUCCESS ? CUDA_SUCCESS
								 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult exec_instantiate(
	CUgraphExec *ret_exec, CUgraph handle, cuuint64_t flags, struct failure *failure)
{
	struct context *context;
	struct graph *graph;
	struct exec *exec;
	CUresult result = context_enter(&context);

	*failure = (struct failure){.reason = CUDA_GRAPH_INSTANTIATE_SUCCESS};
	if (result != CUDA_SUCCESS)
		return result;
	GRAPHS_LOCKED;
	free_closed_execs();
	graph = graph_find(handle);
	if (!ret_exec || !graph || (flags & ~(cuuint64_t)FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	result = exec_check(graph, flags, failure);
	if (result != CUDA_SUCCESS)
		return result;
	exec = slab_take(&execs);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->context = context;
	exec->source = graph->unique;
	exec->flags = flags;
	result = exec_make(exec, graph, failure);
	if (result != CUDA_SUCCESS) {
		exec_free(exec);
		return result;
	}
	*ret_exec = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult local_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	struct failure failure;
	CUresult result = exec_instantiate(phGraphExec, hGraph, 0, &failure);

	if (phErrorNode)
		*phErrorNode = failure.node;
	if (logBuffer && bufferSize > 0)
		*logBuffer = '\0';
	return result;
}

CUresult local_cuGraphInstantiateWithFlags(
	CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	struct failure failure;

	return exec_instantiate(phGraphExec, hGraph, flags, &failure);
}

CUresult local_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams, CUstream implicit)
{
	struct failure failure;
	CUresult result = exec_instantiate(phGraphExec, hGraph, instantiateParams->flags, &failure);

	if (result != CUDA_SUCCESS && failure.reason == CUDA_GRAPH_INSTANTIATE_SUCCESS)
		failure.reason = CUDA_GRAPH_INSTANTIATE_ERROR;
	instantiateParams->hErrNode_out = failure.node;
	instantiateParams->result_out = failure.reason;
	if (result != CUDA_SUCCESS ||
		!(instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		return result;
	return local_cuGraphUpload(*phGraphExec,
		instantiateParams->hUploadStream ? instantiateParams->hUploadStream : implicit);
}

/* Events that a launch records are done when the whole launch is done. */
static CUresult note_events(const struct exec *exec, struct stream *stream)
{
	struct graph *image = exec->image;
	CUresult result = CUDA_SUCCESS;
	bool has_seqno = false;
	uint64_t seqno = 0;

	for (struct graph_node *node = image->first; node; node = graph_next(image, node)) {
		if (node->op.type != CU_GRAPH_NODE_TYPE_EVENT_RECORD)
			continue;
		if (!has_seqno)
			result = timeline_post(stream, &seqno);
		if (result != CUDA_SUCCESS)
			return result;
		has_seqno = true;
		event_recorded(node->op.event.event, node->op.event.serial, stream, seqno);
	}
	return CUDA_SUCCESS;
}

/* The driver orders the launches of one executable graph, but this is a new one for it. */
static CUresult wait_for_earlier(struct exec *exec, struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	if (exec->stream != stream && !timeline_reached(exec->stream, exec->seqno))
		result = event_between(exec->stream, stream);
	exec->is_remade = result != CUDA_SUCCESS;
	return result;
}

static CUresult exec_post_launch(struct exec *exec, struct stream *stream)
{
	CUresult result = exec->is_remade ? wait_for_earlier(exec, stream) : CUDA_SUCCESS;
	uint64_t launch;

	if (result != CUDA_SUCCESS)
		return result;
	if (exec->n_calls == 0)
		return send_graph_launch(stream_id(stream), exec_id(exec));
	result = calls_expect(exec, &launch);
	if (result != CUDA_SUCCESS)
		return result;
	result = send_graph_launch_calls(stream_id(stream), exec_id(exec));
	if (result != CUDA_SUCCESS)
		calls_forget(launch);
	return result;
}

static CUresult exec_launch(CUgraphExec handle, struct stream *stream)
{
	struct exec *exec;
	CUresult result;

	GRAPHS_LOCKED;
	if (unlikely(closing != NULL))
		free_closed_execs();
	exec = exec_find(handle);
	if (!exec || stream->device != exec->context->device->index)
		return CUDA_ERROR_INVALID_VALUE;
	result = graph_launch_check(&exec->memory, stream,
		exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	if (result == CUDA_SUCCESS)
		result = exec_post_launch(exec, stream);
	if (result != CUDA_SUCCESS)
		return result;
	timeline_note(stream, &exec->seqno);
	if (exec->awaits_host)
		stream_awaits_host(stream);
	if (exec->prints)
		printf_output_expect();
	exec->stream = stream;
	graph_launch_done(&exec->memory, stream, exec->seqno);
	return exec->records ? note_events(exec, stream) : CUDA_SUCCESS;
}

CUresult local_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	struct stream *stream = NULL;
	bool captures = false;
	CUresult result = stream_enter(hStream, &stream);

	if (result == CUDA_SUCCESS)
		result = recorder_look(stream, &captures);
	/* The driver does not add it as a child graph either. */
	if (unlikely(captures))
		return recorder.forbid(stream);
	return result == CUDA_SUCCESS ? exec_launch(hGraphExec, stream) : result;
}

CUresult local_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	struct stream *stream = NULL;
	struct exec *exec;
	CUresult result = stream_enter(hStream, &stream);

	if (result == CUDA_SUCCESS)
		result = recorder.check_wait(stream);
	if (result != CUDA_SUCCESS)
		return result;
	GRAPHS_LOCKED;
	exec = exec_find(hGraphExec);
	if (!exec || stream->device != exec->context->device->index)
		return CUDA_ERROR_INVALID_VALUE;
	result = send_graph_upload(stream_id(stream), exec_id(exec));
	if (result == CUDA_SUCCESS)
		timeline_note(stream, &exec->seqno);
	exec->stream = stream;
	return result;
}
