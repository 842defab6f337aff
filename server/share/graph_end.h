/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_END_H
#define GRAPH_END_H

/*
 * Graphs that the driver has made executable. A graph takes part of the channel budget
 * (channel_budget.h). Its end may wait for all that is on the GPU, with the driver's lock
 * held, so it is a deferred call.
 */

#include <stdbool.h>

#include "server/driver/driver.h"
#include "server/schedule/channel_budget.h"

struct account;
struct device_quota;
struct graph_end;

/*
 * Allocated when a graph is begun, so that its end needs no memory. NULL: no memory, or a
 * bound of graphs is met. It pays for what the driver keeps of the graph until the graph has
 * ended: call account_keep() for each node and edge.
 */
struct graph_end *graph_end_new(struct account *account);

/* Counts nodes of the graph, until it has ended. False: a bound is met. */
bool graph_end_take_nodes(struct graph_end *end, uint32_t n_nodes);

/*
 * Counts the nodes in bodies of conditional nodes, and charges memory of the GPU for them,
 * until the graph has ended. Only the first call does. False: a limit of the memory is met, or
 * a bound, because the driver does not return this memory before the server ends.
 */
bool graph_end_take_body_nodes(
	struct graph_end *end, struct device_quota *memory, uint32_t n_nodes);

/*
 * Makes the executable graph that graph_end() ends. CUDA_ERROR_NOT_READY: the driver needs
 * more channels, and cannot make them within `most_ms' (0: waits until it can, or the
 * session ends). A worker, for a graph that has begun.
 */
CUresult graph_end_make(struct graph_end *end, struct session *session, struct device *device,
	struct channel_part *part, unsigned most_ms, CUgraph model, unsigned flags,
	CUgraphExec *ret_exec);

/* Sets a kernel of a graph that graph_end_make() has made, and that may be launched later. */
CUresult graph_end_set_kernel(struct graph_end *end, CUgraphExec exec, CUgraphNode node,
	const CUDA_KERNEL_NODE_PARAMS_v2 *params);

/* Whether the stack of the GPU stays large because of the graph (cu_limit.h). */
bool graph_end_keeps_stack(const struct graph_end *end);

/*
 * Takes all three. `exec' and `model' may be NULL; if the context is lost they are dropped.
 * A worker.
 */
void graph_end(struct graph_end *end, CUgraphExec exec, CUgraph model, CUcontext context,
	bool device_lost);

#endif
