/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changes of nodes in every form of an executable graph. A worker.
 *
 * Invariant: a twin that is launched, and a model of which twins are made, have the same
 * parameters as the executable graph.
 */

#include "graph_change.h"

#include "graph_switch.h"
#include "graph_twin.h"
#include "server/session/session.h"
#include "server/share/graph_end.h"
#include "server/share/session_device.h"

static CUresult change_exec(struct graph_end *ending, CUgraphExec exec, CUgraphNode node,
	const struct graph_change *change)
{
	switch (change->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return graph_end_set_kernel(ending, exec, node, change->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuda.cuGraphExecMemcpyNodeSetParams(
			exec, node, change->copy, change->context);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuda.cuGraphExecMemsetNodeSetParams(
			exec, node, change->fill, change->context);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return cuda.cuGraphExecBatchMemOpNodeSetParams(exec, node, change->ops);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuda.cuGraphExecEventWaitNodeSetEvent(exec, node, change->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuda.cuGraphExecEventRecordNodeSetEvent(exec, node, change->event);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult change_model(CUgraphNode node, const struct graph_change *change)
{
	switch (change->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return cuda.cuGraphKernelNodeSetParams_v2(node, change->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuda.cuGraphMemcpyNodeSetParams(node, change->copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuda.cuGraphMemsetNodeSetParams(node, change->fill);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return cuda.cuGraphBatchMemOpNodeSetParams(node, change->ops);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuda.cuGraphEventWaitNodeSetEvent(node, change->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuda.cuGraphEventRecordNodeSetEvent(node, change->event);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult change_twin(struct session *session, const struct graph *graph,
	const struct graph_twin *twin, const struct graph_node *node,
	const struct graph_change *change)
{
	const bool has_sms_of_twin = change->type == CU_GRAPH_NODE_TYPE_KERNEL && !node->share;
	CUgraphNode in_twin;
	CUresult result = cuda.cuGraphNodeFindInClone(&in_twin, node->real, twin->model);

	if (result == CUDA_SUCCESS && has_sms_of_twin)
		result = elastic_shares_enter(session, graph->sdev, twin->share);
	if (result == CUDA_SUCCESS)
		result = change_exec(twin->ending, twin->exec, in_twin, change);
	if (result == CUDA_SUCCESS)
		result = graph_switch_again(graph, twin->exec, in_twin, node);
	if (has_sms_of_twin && session_device_enter(session, graph->sdev) != CUDA_SUCCESS)
		result = CUDA_ERROR_INVALID_CONTEXT;
	return result;
}

static void change_twins(struct session *session, struct graph *graph,
	const struct graph_node *node, const struct graph_change *change)
{
	for (unsigned i = 0; i < GRAPH_TWINS_MAX; i++) {
		struct graph_twin *twin = &graph->twins->list[i];

		if (twin->exec && !twin->is_old &&
			change_twin(session, graph, twin, node, change) != CUDA_SUCCESS)
			twin->is_old = true;
	}
	graph->twins->unfit = 0;
}

CUresult graph_change(struct session *session, struct graph *graph, const struct graph_node *node,
	const struct graph_change *change)
{
	CUresult result = change_exec(graph->ending, graph->real, node->real, change);

	if (result == CUDA_SUCCESS)
		result = graph_switch_again(graph, graph->real, node->real, node);
	if (result != CUDA_SUCCESS || !graph_twins_may_be(graph))
		return result;
	if (change_model(node->real, change) != CUDA_SUCCESS)
		graph->is_model_old = true;
	if (graph->twins)
		change_twins(session, graph, node, change);
	return CUDA_SUCCESS;
}

CUresult graph_change_enabled(struct graph *graph, struct graph_node *node, bool is_enabled)
{
	CUresult result = graph_switch(graph, graph->real, node->real, node, is_enabled);

	if (result != CUDA_SUCCESS)
		return result;
	node->is_disabled = !is_enabled;
	for (unsigned i = 0; graph->twins && i < GRAPH_TWINS_MAX; i++) {
		struct graph_twin *twin = &graph->twins->list[i];

		if (twin->exec && graph_twin_enable(graph, twin, node, is_enabled) != CUDA_SUCCESS)
			twin->is_old = true;
	}
	return CUDA_SUCCESS;
}
