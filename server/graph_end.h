/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_END_H
#define GRAPH_END_H

/*
 * The end of graphs that the driver has made executable. It may wait for all
 * that is on the GPU, with the driver's lock held; so it is a deferred call.
 */

#include <stdbool.h>

#include "driver.h"

struct graph_end;

/* Taken when a graph is begun, so that its end needs no memory. NULL: there is none. */
struct graph_end *graph_end_new(void);

/*
 * Takes all three. `exec' and `model' may be NULL; if the context is lost they are
 * forgotten. A worker.
 */
void graph_end(
	struct graph_end *end, CUgraphExec exec, CUgraph model, CUcontext context, bool is_lost);

#endif
