/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_SWITCH_H
#define GRAPH_SWITCH_H

/*
 * Disabled nodes of executable graphs, which launches skip.
 *
 * With driver 580, work does not wait for what precedes a disabled fill (driver_facts.h). So the
 * driver does not disable a fill of one row: the fill writes one element to device::scratch
 * instead.
 *
 * The session's worker only.
 */

#include "graph.h"

/*
 * Disables or enables the node in an executable graph or a twin, where its name is `in_exec'. The
 * context of the graph is current.
 */
CUresult graph_switch(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node, bool is_enabled);

/* The parameters of a node were set in `exec'. If the node is disabled, it stays so. */
CUresult graph_switch_again(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node);

#endif
