/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ends graphs. A worker, and the deferred thread.
 *
 * Invariant: what kernels of the graph need is given back after graph_end(),
 * and deferred calls are made in their order.
 */

#include <stdlib.h>

#include "deferred.h"
#include "fault.h"
#include "graph_end.h"

struct graph_end {
	struct deferred deferred;
	CUgraphExec exec;
	CUgraph model;
};

struct graph_end *graph_end_new(void)
{
	/* Where nothing ends any more, nobody may begin. */
	return deferred_is_full() ? NULL : calloc(1, sizeof(struct graph_end));
}

static void end_now(struct deferred *deferred)
{
	struct graph_end *end = container_of(deferred, struct graph_end, deferred);
	bool is_lost = fault_get() != CUDA_SUCCESS;

	if (end->exec && !is_lost)
		cuda.cuGraphExecDestroy(end->exec);
	if (end->model && !is_lost)
		cuda.cuGraphDestroy(end->model);
	free(end);
}

void graph_end(
	struct graph_end *end, CUgraphExec exec, CUgraph model, CUcontext context, bool is_lost)
{
	*end = (struct graph_end){.exec = is_lost ? NULL : exec, .model = is_lost ? NULL : model};
	end->deferred.context = context;
	end->deferred.on_done = end_now;
	if (end->exec)
		deferred_add(&end->deferred);
	else
		end_now(&end->deferred);
}
