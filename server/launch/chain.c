/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chain graphs. A graph is made only after it was needed a few times. A worker.
 *
 * Invariant: before the graph is launched, every node has been set, or is known to be
 * correct. So nothing of an earlier run can run again.
 */

#include "server/driver/graph_end.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/driver/session_device.h"
#include "server/stream/stream.h"
#include "chain.h"

/* The cost of making a graph equals what this many runs save. */
#define WANTED_MIN 4

/* Space for the parameter list that the driver takes. */
struct buffer_params {
	size_t size;
	void *extra[5];
};

static void **launch_extra(const struct queued_launch *queued, struct buffer_params *params)
{
	*params = (struct buffer_params){
		.size = queued->params_size,
		.extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)queued->params,
			CU_LAUNCH_PARAM_BUFFER_SIZE, &params->size, CU_LAUNCH_PARAM_END},
	};
	return queued->params_size > 0 ? params->extra : NULL;
}

CUresult launch_alone(const struct queued_launch *queued, CUstream real)
{
	struct buffer_params params;

	return cuda.cuLaunchKernel(queued->function, queued->grid[0], queued->grid[1],
		queued->grid[2], queued->block[0], queued->block[1], queued->block[2],
		queued->shared_bytes, real, NULL, launch_extra(queued, &params));
}

static CUDA_KERNEL_NODE_PARAMS node_params(
	const struct queued_launch *queued, struct buffer_params *params)
{
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = queued->function,
		.gridDimX = queued->grid[0],
		.gridDimY = queued->grid[1],
		.gridDimZ = queued->grid[2],
		.blockDimX = queued->block[0],
		.blockDimY = queued->block[1],
		.blockDimZ = queued->block[2],
		.sharedMemBytes = queued->shared_bytes,
		.extra = launch_extra(queued, params),
	};
}

void chain_fini(struct chain *chain, const struct session_device *sdev, bool device_lost)
{
	if (chain->ending)
		graph_end(chain->ending, chain->exec, chain->graph, sdev->device->context,
			device_lost);
	*chain = (struct chain){0};
}

/* Charges for `n' nodes with parameters of that size. False: there is no memory. */
static bool chain_pay(struct chain *chain, unsigned n, size_t params_size)
{
	if (likely(params_size <= chain->params_max))
		return true;
	if (!account_keep(chain->ending, n * KEPT_PARAMS(params_size - chain->params_max)))
		return false;
	chain->params_max = params_size;
	return true;
}

/* Does not wait for channels. */
static CUresult chain_make(struct session *session, struct chain *chain,
	const struct session_device *sdev, const struct queued_launch *launches, unsigned n)
{
	struct channel_part part = {.n_channels = 1, .n_nodes = n};
	CUresult result;

	chain->ending = graph_end_new(session->account);
	if (!chain->ending)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = account_keep(chain->ending, n * (uint64_t)(KEPT_NODE + KEPT_EDGE))
			 ? cuda.cuGraphCreate(&chain->graph, 0)
			 : CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct buffer_params room;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&launches[i], &room);

		if (!chain_pay(chain, n, launches[i].params_size))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			result = cuda.cuGraphAddKernelNode_v2(&chain->nodes[i], chain->graph,
				i > 0 ? &chain->nodes[i - 1] : NULL, i > 0, &params);
	}
	if (result == CUDA_SUCCESS)
		result = graph_end_make(chain->ending, session, sdev->device, &part, 1,
			chain->graph, 0, &chain->exec);
	if (result != CUDA_SUCCESS)
		chain_fini(chain, sdev, result_is_fault(result));
	return result;
}

static CUresult chain_set(struct chain *chain, const struct queued_launch *launches, unsigned n)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct buffer_params room;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&launches[i], &room);

		if (unlikely(!chain_pay(chain, n, launches[i].params_size)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = cuda.cuGraphExecKernelNodeSetParams_v2(
			chain->exec, chain->nodes[i], &params);
	}
	return result;
}

CUresult chain_run(struct session *session, struct chain *chain, const struct stream *stream,
	const struct queued_launch *launches, unsigned n)
{
	CUresult result;

	if (!chain->exec && ++chain->n_wanted < WANTED_MIN)
		return CUDA_ERROR_NOT_READY;
	result = chain->exec ? chain_set(chain, launches, n)
			     : chain_make(session, chain, stream->sdev, launches, n);
	return result == CUDA_SUCCESS ? cuda.cuGraphLaunch(chain->exec, stream->real) : result;
}
