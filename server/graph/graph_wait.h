/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_WAIT_H
#define GRAPH_WAIT_H

/*
 * What a running graph may wait for. A node can be changed while a launch waits for the
 * semaphore that the node had before: the graph keeps the former operations until it has
 * ended. The session's worker only.
 */

#include "base.h"
#include "server/driver/driver.h"

struct graph;
struct graph_former;
struct graph_node;
struct memory_op;
struct session;
struct stream;

/* The stream of its last launch, unless that is known to be at rest; NULL: it does not run. */
struct stream *graph_last_stream(const struct session *session, const struct graph *graph);
CUstream graph_running_on(const struct session *session, const struct graph *graph);

/*
 * Before a node of an executable graph is changed: makes what graph_former_keep() needs, NULL if
 * no launch can wait for the node. False: out of memory.
 */
bool graph_former_new(struct session *session, const struct graph *graph,
	const struct graph_node *node, struct graph_former **ret_former);

/* The node was changed: takes `former' and the operations of `node', the former one. */
void graph_former_keep(struct graph *graph, struct graph_former *former, struct graph_node *node);

/* The graph does not run. */
void graph_formers_free(struct graph *graph);

/* Whether a graph whose host nodes the client has to answer may run. */
bool graphs_await_host(const struct session *session);

/*
 * The session ends. Releases one semaphore of each running graph at a time, because the server
 * does not know for which one the graph waits.
 */
void graphs_release(struct session *session);

#endif
