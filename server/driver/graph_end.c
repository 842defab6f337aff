/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes graphs executable, and ends them. A worker, and the deferred thread.
 *
 * Invariant: what kernels of the graph need is freed by a deferred call that is added after
 * graph_end(), and deferred calls keep their order.
 */

#include "server/util/account.h"
#include "deferred.h"
#include "device.h"
#include "server/session/fault.h"
#include "graph_end.h"

struct graph_end {
	struct deferred deferred;
	CUgraphExec exec;
	CUgraph model;
	struct device *device;
	struct channel_part part; /* of the channel budget; all 0: none */
};

struct graph_end *graph_end_new(struct account *account)
{
	/* While too many objects wait for their end, no new one may begin. */
	return deferred_is_full() ? NULL
				  : account_alloc(account, sizeof(struct graph_end), KEPT_GRAPH);
}

CUresult graph_end_make(struct graph_end *end, struct session *session, struct device *device,
	const struct channel_part *part, unsigned most_ms, CUgraph model, unsigned flags,
	CUgraphExec *ret_exec)
{
	enum channel_way way = channel_budget_take(session, device, part, most_ms);
	CUresult result;

	*ret_exec = NULL;
	if (way == CHANNELS_NONE)
		return CUDA_ERROR_NOT_READY;
	result = cuda.cuGraphInstantiateWithFlags(ret_exec, model, flags);
	channel_budget_taken(way);
	if (result != CUDA_SUCCESS) {
		*ret_exec = NULL;
		channel_budget_release(device, part);
		return result;
	}
	end->device = device;
	end->part = *part;
	return CUDA_SUCCESS;
}

static void end_now(struct deferred *deferred)
{
	struct graph_end *end = container_of(deferred, struct graph_end, deferred);
	bool device_lost = fault_get() != CUDA_SUCCESS;

	if (end->exec && !device_lost)
		cuda.cuGraphExecDestroy(end->exec);
	if (end->device)
		channel_budget_release(end->device, &end->part);
	if (end->model && !device_lost)
		cuda.cuGraphDestroy(end->model);
	account_free(end);
}

void graph_end(
	struct graph_end *end, CUgraphExec exec, CUgraph model, CUcontext context, bool device_lost)
{
	end->exec = device_lost ? NULL : exec;
	end->model = device_lost ? NULL : model;
	end->deferred.context = context;
	end->deferred.on_done = end_now;
	if (end->exec)
		deferred_add(&end->deferred);
	else
		end_now(&end->deferred);
}
