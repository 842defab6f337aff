/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_NODE_H
#define GRAPH_NODE_H

/*
 * What the messages about nodes have in common. Each message calls graph_node_find() first
 * and graph_node_put() last. A conditional node has a graph of its own (conditional.h), so the
 * two files call each other. The session's worker only.
 */

#include "graph.h"

/*
 * The node that the message adds, or changes in an executable graph, where each keeps its
 * kind. Nodes are numbered in the order of their messages. The driver keeps `more' bytes
 * besides the node itself. Enters the graph's context.
 */
CUresult graph_node_find(struct session *session, struct graph *graph, uint32_t number,
	CUgraphNodeType type, uint64_t more, struct graph_node *ret_node);

/* Takes what the node refers to. Notes an error for a later query, and returns CUDA_SUCCESS. */
CUresult graph_node_put(struct session *session, struct graph *graph, uint32_t number,
	struct graph_node *node, CUresult result);

#endif
