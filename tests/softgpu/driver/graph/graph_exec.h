/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_EXEC_H
#define GRAPH_EXEC_H

/*
 * The steps of an executable graph, and of the bodies of its conditional nodes. All
 * under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/driver/stream/work.h"

struct graph;
struct node;

struct step {
	const struct node *node; /* only compared */
	CUgraphNodeType type;
	bool is_disabled;
	struct work work;
};

/* A body of a conditional node. */
struct body {
	struct step *steps;
	size_t n_steps;
};

/* The nodes of a graph, child graphs expanded, in an order that satisfies the dependencies. */
CUresult steps_new(
	struct graph *graph, struct step **ret_steps, size_t *ret_n, size_t *ret_n_branches);
void steps_free(struct step *steps, size_t n);

#endif
