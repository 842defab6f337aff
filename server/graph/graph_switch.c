/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Disabling and enabling nodes of executable graphs. A worker.
 *
 * Invariant: a disabled fill of one row writes to memory that is never read, or the driver has
 * disabled it.
 */

#include "graph_switch.h"

#include "server/session/fault.h"
#include "server/device/device.h"
#include "server/share/session_device.h"

/* Whether the fill is to write elsewhere while it is disabled. */
static bool is_redirected(const struct graph *graph, const struct graph_node *node)
{
	return node->fill_unit > 0 && node->body == 0 && graph->sdev->device->scratch;
}

static CUresult set_fill(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node, bool is_enabled)
{
	const uint64_t size = is_enabled ? node->spans[0].size : node->fill_unit;
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = is_enabled ? node->fill_dst : graph->sdev->device->scratch,
		.pitch = size,
		.value = node->fill_value,
		.elementSize = node->fill_unit,
		.width = size / node->fill_unit,
		.height = 1,
	};
	CUcontext context;
	CUresult result = cuda.cuCtxGetCurrent(&context);

	return result == CUDA_SUCCESS
		       ? cuda.cuGraphExecMemsetNodeSetParams(exec, in_exec, &fill, context)
		       : result;
}

/* If the driver does not redirect the fill, it has to disable the fill itself. */
static CUresult disable_fill(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node)
{
	CUresult result = set_fill(graph, exec, in_exec, node, false);

	return result == CUDA_SUCCESS || result_is_fault(result)
		       ? result
		       : cuda.cuGraphNodeSetEnabled(exec, in_exec, false);
}

static CUresult enable_fill(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node)
{
	CUresult result = cuda.cuGraphNodeSetEnabled(exec, in_exec, true);

	return result == CUDA_SUCCESS ? set_fill(graph, exec, in_exec, node, true) : result;
}

CUresult graph_switch(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node, bool is_enabled)
{
	if (!is_redirected(graph, node))
		return cuda.cuGraphNodeSetEnabled(exec, in_exec, is_enabled);
	return is_enabled ? enable_fill(graph, exec, in_exec, node)
			  : disable_fill(graph, exec, in_exec, node);
}

CUresult graph_switch_again(const struct graph *graph, CUgraphExec exec, CUgraphNode in_exec,
	const struct graph_node *node)
{
	return node->is_disabled && is_redirected(graph, node)
		       ? disable_fill(graph, exec, in_exec, node)
		       : CUDA_SUCCESS;
}
