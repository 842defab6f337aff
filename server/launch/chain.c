/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chain graphs. A graph is made only after it was needed a few times. A worker.
 *
 * Invariant: before the graph is launched, every node has been set, or is known to be
 * correct. So nothing of an earlier run can run again.
 */

#include "chain.h"

#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/schedule/closed_gpu.h"
#include "server/share/graph_end.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/stream.h"

/* The cost of making a graph equals what this many runs save. */
#define WANTED_MIN 4

/* Without memory or a channel, an attempt to make a graph may take a millisecond. */
#define RUNS_BEFORE_RETRY 1000

CUresult launch_alone(const struct queued_launch *queued, CUstream real)
{
	struct kernel_extra extra;

	return cuda.cuLaunchKernel(queued->function, queued->grid[0], queued->grid[1],
		queued->grid[2], queued->block[0], queued->block[1], queued->block[2],
		queued->shared_bytes, real, NULL,
		kernel_extra(&extra, queued->params, queued->params_size));
}

CUresult launch_in(
	struct session *session, struct stream *stream, const struct queued_launch *queued)
{
	CUresult result = LAUNCHING(session, stream->device, launch_alone(queued, stream->real));

	return elastic_stream_has_to_retry(session, stream, result)
		       ? LAUNCHING(session, stream->device, launch_alone(queued, stream->real))
		       : result;
}

static CUDA_KERNEL_NODE_PARAMS node_params(
	const struct queued_launch *queued, struct kernel_extra *extra)
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
		.extra = kernel_extra(extra, queued->params, queued->params_size),
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

/* `op' is space for the parameters. */
static CUDA_BATCH_MEM_OP_NODE_PARAMS seqno_params(const struct seqno_write *seqno,
	const struct session_device *sdev, CUstreamBatchMemOpParams *op)
{
	*op = (CUstreamBatchMemOpParams){.writeValue = {
						 .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
						 .address = seqno->word,
						 .value64 = seqno->value,
					 }};
	return (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		.ctx = sdev->device->context, .count = 1, .paramArray = op};
}

static CUresult add_kernels(struct chain *chain, const struct queued_launch *launches, unsigned n)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct kernel_extra extra;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&launches[i], &extra);

		if (!chain_pay(chain, n, launches[i].params_size))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			result = cuda.cuGraphAddKernelNode_v2(&chain->nodes[i], chain->graph,
				i > 0 ? &chain->nodes[i - 1] : NULL, i > 0, &params);
	}
	return result;
}

static CUresult add_seqno(struct chain *chain, const struct session_device *sdev, unsigned n,
	const struct seqno_write *seqno)
{
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = seqno_params(seqno, sdev, &op);

	return account_keep(chain->ending, KEPT_NODE + KEPT_EDGE + KEPT_MEMORY_OP)
		       ? cuda.cuGraphAddBatchMemOpNode(
				 &chain->seqno_node, chain->graph, &chain->nodes[n - 1], 1, &params)
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Does not wait for channels. */
static CUresult chain_make(struct session *session, struct chain *chain,
	const struct session_device *sdev, const struct queued_launch *launches, unsigned n,
	const struct seqno_write *seqno)
{
	struct channel_part part = {.n_channels = 1, .n_nodes = n + !!seqno};
	CUresult result;

	chain->ending = graph_end_new(session->account);
	if (!chain->ending)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = account_keep(chain->ending, n * (uint64_t)(KEPT_NODE + KEPT_EDGE)) &&
				 graph_end_take_nodes(chain->ending, part.n_nodes)
			 ? cuda.cuGraphCreate(&chain->graph, 0)
			 : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		result = add_kernels(chain, launches, n);
	if (result == CUDA_SUCCESS && seqno)
		result = add_seqno(chain, sdev, n, seqno);
	if (result == CUDA_SUCCESS)
		result = graph_end_make(chain->ending, session, sdev->device, &part, 1,
			chain->graph, 0, &chain->exec);
	if (result != CUDA_SUCCESS) {
		chain_fini(chain, sdev, result_is_fault(result));
		chain->n_wanted = -RUNS_BEFORE_RETRY;
		return result;
	}
	chain->keeps_stack = graph_end_keeps_stack(chain->ending);
	return CUDA_SUCCESS;
}

static CUresult set_seqno(
	struct chain *chain, const struct session_device *sdev, const struct seqno_write *seqno)
{
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = seqno_params(seqno, sdev, &op);

	return cuda.cuGraphExecBatchMemOpNodeSetParams(chain->exec, chain->seqno_node, &params);
}

static CUresult set_kernels(struct chain *chain, const struct queued_launch *launches, unsigned n)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct kernel_extra extra;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&launches[i], &extra);

		if (unlikely(!chain_pay(chain, n, launches[i].params_size)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = cuda.cuGraphExecKernelNodeSetParams_v2(
			chain->exec, chain->nodes[i], &params);
	}
	return result;
}

/* Sets each node. The context of the nodes' SMs is current. */
static CUresult chain_set(struct session *session, struct chain *chain,
	const struct session_device *sdev, const struct queued_launch *launches, unsigned n,
	const struct seqno_write *seqno)
{
	CUresult result;

	if (!chain->exec)
		return chain_make(session, chain, sdev, launches, n, seqno);
	result = set_kernels(chain, launches, n);
	return result == CUDA_SUCCESS && seqno ? set_seqno(chain, sdev, seqno) : result;
}

CUresult chain_run(struct session *session, struct chain *chain, const struct stream *stream,
	const struct queued_launch *launches, unsigned n, const struct seqno_write *seqno)
{
	const bool is_in_share = elastic_stream_context(stream) != NULL;
	CUresult result = CUDA_SUCCESS, left;

	if (!chain->exec && ++chain->n_wanted < WANTED_MIN)
		return CUDA_ERROR_NOT_READY;
	if (unlikely(is_in_share))
		result = elastic_stream_enter_share(session, stream);
	if (result == CUDA_SUCCESS)
		result = chain_set(session, chain, stream->sdev, launches, n, seqno);
	if (unlikely(is_in_share)) {
		left = session_device_enter(session, stream->sdev);
		result = result == CUDA_SUCCESS ? left : result;
	}
	if (result != CUDA_SUCCESS)
		return result;
	return LAUNCHING(session, stream->device, cuda.cuGraphLaunch(chain->exec, stream->real));
}
