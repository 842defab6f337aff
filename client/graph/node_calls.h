/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NODE_CALLS_H
#define NODE_CALLS_H

/*
 * What proto/cuda.spec names as the answers of calls on a node of one type. `params' is
 * the description that the call for that type has, or points to the event, the address or
 * the graph that it has instead. Any thread.
 */

#include "client/util/api.h"

/* NULL: no such node of the program, or of another type. Under the lock of all graphs. */
struct graph_node *node_find_kernel(CUgraphNode handle);

/* Writes an allocation's address into its description. `context' NULL: the call has none. */
CUresult graph_add_node(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
	size_t n, CUgraphNodeType type, const void *params, CUcontext context);

CUresult graph_describe_node(CUgraphNode handle, CUgraphNodeType type, void *ret_params);
CUresult graph_set_node(CUgraphNode handle, CUgraphNodeType type, const void *params);
CUresult graph_exec_set_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
	const void *params, CUcontext context);

/* The results of a query; all but the status may be NULL. */
struct capture_question {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **dependencies;
	const CUgraphEdgeData **data;
	size_t *n;
};

CUresult capture_answer(CUstream handle, const struct capture_question *question);

/* `*n' handles at most, in the order of creation, and their number; NULL `nodes': the number. */
CUresult graph_list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *n, bool roots_only);

/* The older description lacks a CUkernel. NULL for NULL. */
const CUDA_KERNEL_NODE_PARAMS_v2 *widen_kernel_params(
	const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUDA_KERNEL_NODE_PARAMS_v2 *wide);

#endif
