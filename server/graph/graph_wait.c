/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Semaphores that running graphs wait for, released at the end of their session. A worker.
 *
 * Invariant: graph::n_waits counts the waits of all nodes, and those of changed nodes for which
 * a launch may still wait.
 */

#include "graph_wait.h"

#include "graph.h"
#include "server/session/session.h"
#include "server/stream/pending_wait.h"
#include "server/stream/stream.h"
#include "server/memory/memory_op.h"

/* What a node did before it was changed. */
struct graph_former {
	struct graph_former *next;
	struct memory_op *ops; /* owned */
	uint32_t n_ops;
};

struct stream *graph_last_stream(const struct session *session, const struct graph *graph)
{
	struct stream *stream = session->busy;

	while (stream && stream->home != graph->last)
		stream = stream->next_busy;
	return graph->last ? stream : NULL;
}

CUstream graph_running_on(const struct session *session, const struct graph *graph)
{
	const struct stream *stream = graph_last_stream(session, graph);

	return stream ? stream->real : NULL;
}

bool graphs_await_host(const struct session *session)
{
	const struct graph *graph = session->graph_list;

	while (graph && !(graph->has_calls && graph_last_stream(session, graph)))
		graph = graph->next;
	return graph != NULL;
}

/* ---- waits of changed nodes */

bool graph_former_new(struct session *session, const struct graph *graph,
	const struct graph_node *node, struct graph_former **ret_former)
{
	*ret_former = NULL;
	if (memory_ops_count_waits(node->ops, node->n_ops) == 0 ||
		!graph_running_on(session, graph))
		return true;
	*ret_former = account_alloc(session->account, sizeof(**ret_former), 0);
	return *ret_former;
}

void graph_former_keep(struct graph *graph, struct graph_former *former, struct graph_node *node)
{
	former->ops = TAKE_PTR(node->ops);
	former->n_ops = node->n_ops;
	node->n_ops = 0;
	LIST_PUSH(graph->former, former);
}

void graph_formers_free(struct graph *graph)
{
	while (graph->former) {
		struct graph_former *former = LIST_POP(graph->former);

		graph->n_waits -= memory_ops_count_waits(former->ops, former->n_ops);
		account_free(former->ops);
		account_free(former);
	}
}

/* ---- the release */

/* Finds the wait behind `*skip' others, of which it counts those that it has passed. */
static bool find_wait(
	const struct memory_op *ops, uint32_t n_ops, uint32_t *skip, struct memory_op *ret_op)
{
	for (uint32_t i = 0; i < n_ops; i++) {
		if (!memory_op_is_wait(&ops[i]) || (*skip)-- > 0)
			continue;
		*ret_op = ops[i];
		return true;
	}
	return false;
}

/*
 * A semaphore that a running graph may wait for, another one at each call. False: the graph
 * does not run, or waits for no semaphore.
 */
static bool graph_next_wait(
	const struct session *session, struct graph *graph, struct memory_op *ret_op)
{
	uint32_t skip;

	if (graph->n_waits == 0 || !graph_running_on(session, graph))
		return false;
	skip = graph->next_wait++ % graph->n_waits;
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (find_wait(graph->nodes[i].ops, graph->nodes[i].n_ops, &skip, ret_op))
			return true;
	for (const struct graph_former *former = graph->former; former; former = former->next)
		if (find_wait(former->ops, former->n_ops, &skip, ret_op))
			return true;
	return false;
}

void graphs_release(struct session *session)
{
	for (struct graph *graph = session->graph_list; graph; graph = graph->next) {
		struct memory_op op;
		struct pending_wait pending_wait;

		if (!graph_next_wait(session, graph, &op))
			continue;
		session->pending_waits->n_released++;
		pending_wait = (struct pending_wait){
			.address = op.address, .sdev = graph->sdev, .is_64 = memory_op_is_64(&op)};
		memory_op_release_value(&op, &pending_wait.value);
		pending_waits_release_one(session, &pending_wait);
	}
}
