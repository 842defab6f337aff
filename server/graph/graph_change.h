/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_CHANGE_H
#define GRAPH_CHANGE_H

/*
 * Changes of nodes of executable graphs. A change has to reach the executable graph, its twins
 * (graph_twin.h), and the model of which later twins are made. The session's worker only.
 */

#include "graph.h"

/* The new parameters; the type of the node says which. */
struct graph_change {
	CUgraphNodeType type;
	CUcontext context; /* of a copy or a fill */
	union {
		const CUDA_KERNEL_NODE_PARAMS_v2 *kernel;
		const CUDA_MEMCPY3D *copy;
		const CUDA_MEMSET_NODE_PARAMS *fill;
		const CUDA_BATCH_MEM_OP_NODE_PARAMS *ops;
		CUevent event;
	};
};

/*
 * Changes the node. The context of a kernel's node is current, and is again afterwards. The error
 * is that of the executable graph. A twin that cannot be changed is not used any more.
 */
CUresult graph_change(struct session *session, struct graph *graph, const struct graph_node *node,
	const struct graph_change *change);

/* Lets the driver execute the node, or skip it. */
CUresult graph_change_enabled(struct graph *graph, struct graph_node *node, bool is_enabled);

#endif
