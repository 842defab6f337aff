/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONDITIONAL_H
#define CONDITIONAL_H

/*
 * Conditional nodes, whose bodies are graphs that run if a condition holds. A condition is
 * known by its number in the outermost graph, from 1 on, as the driver numbers it: the
 * program passes the number to kernels. Under the lock of all graphs.
 */

#include "graph.h"

/* Makes the node's op, with empty bodies. `graph' may be NULL: CUDA_ERROR_INVALID_VALUE. */
CUresult node_op_conditional(
	struct graph *graph, const CUDA_CONDITIONAL_NODE_PARAMS *params, struct node_op *ret_op);

/*
 * Whether the graph has conditions or a conditional node, or is in one. Such a graph cannot be
 * copied, and there is at most one executable graph of it.
 */
bool graph_is_conditional(const struct graph *graph);

/* Whether it is a body, or within one. */
bool graph_is_in_body(const struct graph *graph);

/*
 * Whether the driver would make the graph executable, as far as conditions and bodies decide
 * that. `*ret_node': the node that prevents it; NULL: no specific node.
 */
CUgraphInstantiateResult graph_conditional_check(
	const struct graph *graph, const struct graph_node **ret_node);

#endif
