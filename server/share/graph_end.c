/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes graphs executable, and ends them. A worker, and the deferred thread.
 *
 * Invariant: what kernels of the graph need is freed by a deferred call that is added after
 * graph_end(), and deferred calls keep their order.
 */

#include "graph_end.h"

#include <stdatomic.h>

#include "session_device.h"
#include "server/util/account.h"
#include "server/session/fault.h"
#include "server/driver/driver_facts.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/deferred.h"

struct graph_end {
	struct deferred deferred;
	CUgraphExec exec;
	CUgraph model;
	struct device *device;
	struct session_device *sdev; /* not used after graph_end() */
	bool keeps_stack;            /* of the GPU (cu_limit.h) */
	struct channel_part part;    /* of the channel budget; all 0: none */
	struct device_quota *memory; /* a reference; NULL: no node in a body is charged */
	uint64_t n_nodes;
	uint32_t n_body_nodes;
};

struct graph_end *graph_end_new(struct account *account)
{
	struct graph_end *end = account_alloc(account, sizeof(*end), KEPT_GRAPH);

	if (!end || account_take(end, RESOURCE_GRAPHS, 1))
		return end;
	account_free(end);
	return NULL;
}

bool graph_end_take_nodes(struct graph_end *end, uint32_t n_nodes)
{
	if (!account_take(end, RESOURCE_GRAPH_NODES, n_nodes))
		return false;
	end->n_nodes += n_nodes;
	return true;
}

bool graph_end_take_body_nodes(struct graph_end *end, struct device_quota *memory, uint32_t n_nodes)
{
	if (n_nodes == 0 || end->n_body_nodes > 0)
		return true;
	if (!account_take(end, RESOURCE_BODY_NODES, n_nodes))
		return false;
	if (!device_quota_charge(memory, n_nodes * driver_facts()->body_node_memory)) {
		account_give(end, RESOURCE_BODY_NODES, n_nodes);
		return false;
	}
	end->memory = device_quota_ref(memory);
	end->n_body_nodes = n_nodes;
	return true;
}

static void give_all(struct graph_end *end)
{
	account_give(end, RESOURCE_GRAPHS, 1);
	account_give(end, RESOURCE_GRAPH_NODES, end->n_nodes);
	account_give(end, RESOURCE_BODY_NODES, end->n_body_nodes);
	device_quota_refund(end->memory, end->n_body_nodes * driver_facts()->body_node_memory);
	device_quota_unref(end->memory);
}

/* May wait for all that is on the GPU. */
static void destroy_now(struct session *session, CUgraphExec exec)
{
	bool may = exclusive_call_begin(session, 0);

	cuda.cuGraphExecDestroy(exec);
	if (may)
		exclusive_call_end();
}

/* Again if the stack was lowered meanwhile (cu_limit.h). */
static CUresult instantiate(struct graph_end *end, struct session *session, CUgraph model,
	unsigned flags, CUgraphExec *ret_exec)
{
	const struct device *device = end->sdev->device;
	CUgraphExec exec = NULL;
	unsigned n_lowered;
	CUresult result;

	do {
		if (exec)
			destroy_now(session, exec);
		n_lowered = cu_limit_n_stack_lowered(device);
		result = cuda.cuGraphInstantiateWithFlags(&exec, model, flags);
		if (result == CUDA_SUCCESS)
			cu_limit_keep_stack(end->sdev, &end->keeps_stack);
	} while (result == CUDA_SUCCESS && cu_limit_n_stack_lowered(device) != n_lowered);
	*ret_exec = result == CUDA_SUCCESS ? exec : NULL;
	return result;
}

CUresult graph_end_make(struct graph_end *end, struct session *session, struct device *device,
	struct channel_part *part, unsigned most_ms, CUgraph model, unsigned flags,
	CUgraphExec *ret_exec)
{
	enum channel_way way = channel_budget_take(session, device, part, most_ms);
	CUresult result;

	*ret_exec = NULL;
	if (way == CHANNELS_NONE)
		return CUDA_ERROR_NOT_READY;
	end->sdev = session_device_get(session, device->ordinal);
	result = instantiate(end, session, model, flags, ret_exec);
	channel_budget_taken(device, part, way, result == CUDA_SUCCESS);
	if (result != CUDA_SUCCESS)
		return result;
	end->device = device;
	end->part = *part;
	return CUDA_SUCCESS;
}

CUresult graph_end_set_kernel(struct graph_end *end, CUgraphExec exec, CUgraphNode node,
	const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	unsigned n_lowered;
	CUresult result;

	do {
		n_lowered = cu_limit_n_stack_lowered(end->device);
		result = cuda.cuGraphExecKernelNodeSetParams_v2(exec, node, params);
		if (result == CUDA_SUCCESS)
			cu_limit_keep_stack(end->sdev, &end->keeps_stack);
	} while (result == CUDA_SUCCESS && cu_limit_n_stack_lowered(end->device) != n_lowered);
	return result;
}

bool graph_end_keeps_stack(const struct graph_end *end)
{
	return end->keeps_stack;
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
	give_all(end);
	account_free(end);
}

void graph_end(
	struct graph_end *end, CUgraphExec exec, CUgraph model, CUcontext context, bool device_lost)
{
	if (end->keeps_stack)
		cu_limit_release_stack(end->sdev);
	end->exec = device_lost ? NULL : exec;
	end->model = device_lost ? NULL : model;
	end->deferred.context = context;
	end->deferred.on_done = end_now;
	if (end->exec)
		deferred_add(&end->deferred);
	else
		end_now(&end->deferred);
}
