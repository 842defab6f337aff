/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conditional nodes of executable graphs: conditions, the nodes that read them, and the
 * graphs in these nodes, their bodies. A worker.
 *
 * Kernels name a condition by the driver's number of it, which the client has told the program
 * before the server has the graph. The driver numbers the conditions of a graph from 1 on, and
 * looks a number up in the graph that runs the kernel. So the server makes all conditions of a
 * graph first, in the client's order, and refuses the graph if a number differs.
 */

#include "graph.h"
#include "graph_node.h"
#include "wire.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/share/context_share.h"
#include "server/share/graph_end.h"
#include "do_graph.h"

CUgraph graph_body(const struct graph *graph, uint32_t body)
{
	return body == 0 ? graph->model : graph->bodies[body - 1].real;
}

static uint32_t depth_of(const struct graph *graph, uint32_t body)
{
	return body == 0 ? 0 : graph->bodies[body - 1].depth;
}

CUresult graph_conditional_context(const struct graph *graph, CUcontext *ret_context)
{
	if (!graph->share)
		return cuda.cuCtxGetCurrent(ret_context);
	*ret_context = graph->share->sms.context;
	return CUDA_SUCCESS;
}

static CUresult condition_make(
	const struct graph *graph, CUcontext context, const struct graph_condition *condition)
{
	CUgraphConditionalHandle handle = 0;
	CUresult result = cuda.cuGraphConditionalHandleCreate(&handle, graph->model, context,
		condition->default_value,
		condition->is_assigned ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0);

	if (result != CUDA_SUCCESS || handle == graph->n_conditions + 1)
		return result;
	log_line("This driver numbers the conditions of graphs in another way (%llu, expected %u): "
		 "graphs with conditional nodes are refused",
		(unsigned long long)handle, graph->n_conditions + 1);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult conditions_make(struct session *session, struct graph *graph, uint32_t share,
	const struct graph_condition *conditions, uint32_t n)
{
	struct context_share *found = session_context_share(session, share);
	CUcontext context = NULL;
	CUresult result;

	if (graph->n_nodes > 0 || graph->n_conditions > 0 || (found && found->sdev != graph->sdev))
		return CUDA_ERROR_INVALID_VALUE;
	if (!found && share != WIRE_CONTEXT_SHARES_MAX)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!account_keep(graph->ending, n * (uint64_t)KEPT_CONDITION))
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->share = found ? context_share_ref(found) : NULL;
	result = session_device_enter(session, graph->sdev);
	if (result == CUDA_SUCCESS)
		result = graph_conditional_context(graph, &context);
	for (uint32_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		result = condition_make(graph, context, &conditions[i]);
		graph->n_conditions++;
	}
	return result;
}

CUresult do_graph_conditions(struct session *session, struct graph *graph, uint32_t share,
	const struct graph_condition *conditions, uint32_t n_conditions)
{
	if (!graph->real && graph->result == CUDA_SUCCESS)
		graph->result = conditions_make(session, graph, share, conditions, n_conditions);
	if (graph->real || graph->result != CUDA_SUCCESS)
		record_refuse(&session->record);
	return CUDA_SUCCESS;
}

/* Room for the bodies, which count as nodes. */
static CUresult bodies_make_space(struct session *session, struct graph *graph, uint32_t n)
{
	struct graph_body *grown;

	if (graph->n_bodies + n > WIRE_GRAPH_BODIES_MAX || !graph_end_take_nodes(graph->ending, n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	grown = account_grow(session->account, graph->bodies, graph->n_bodies + n, sizeof(*grown));
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->bodies = grown;
	return CUDA_SUCCESS;
}

static void note_loop(struct session *session, struct graph *graph)
{
	graph->has_loops = true;
	if (session->has_loops)
		return;
	session->has_loops = true;
	log_line(
		"Client " SESSION_NAME
		" makes a graph with a loop (WHILE node). Its launch waits for the work of other "
		"clients, and they wait for the loop, because drivers can fail otherwise: to avoid "
		"that, start the program with MPS_ISOLATE=1",
		SESSION_NAME_ARGS(session));
}

static CUresult conditional_add(struct session *session, struct graph *graph,
	struct graph_node *node, const CUDA_CONDITIONAL_NODE_PARAMS *conditional)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	uint32_t depth = depth_of(graph, graph->body) + 1;
	CUresult result;

	params.conditional = *conditional;
	result = graph_conditional_context(graph, &params.conditional.ctx);
	if (result == CUDA_SUCCESS)
		result = cuda.cuGraphAddNode_v2(
			&node->real, graph_body(graph, graph->body), NULL, NULL, 0, &params);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint32_t i = 0; i < conditional->size; i++)
		graph->bodies[graph->n_bodies++] =
			(struct graph_body){params.conditional.phGraph_out[i], depth};
	if (conditional->type == CU_GRAPH_COND_TYPE_WHILE)
		note_loop(session, graph);
	return CUDA_SUCCESS;
}

CUresult do_graph_conditional(struct session *session, struct graph *graph, uint32_t number,
	uint32_t condition, uint32_t type, uint32_t n_bodies)
{
	const CUDA_CONDITIONAL_NODE_PARAMS conditional = {
		.handle = condition, .type = (CUgraphConditionalNodeType)type, .size = n_bodies};
	struct graph_node node;
	CUresult result = graph_node_find(session, graph, number, CU_GRAPH_NODE_TYPE_CONDITIONAL,
		KEPT_CONDITIONAL + n_bodies * (uint64_t)KEPT_GRAPH, &node);

	if (result == CUDA_SUCCESS && (graph->real || condition > graph->n_conditions ||
					      depth_of(graph, graph->body) >= WIRE_GRAPH_DEPTH_MAX))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = bodies_make_space(session, graph, n_bodies);
	if (result == CUDA_SUCCESS)
		result = conditional_add(session, graph, &node, &conditional);
	return graph_node_put(session, graph, number, &node, result);
}

CUresult do_graph_body(struct session *session, struct graph *graph, uint32_t number)
{
	if (!graph->real && graph->result == CUDA_SUCCESS && number <= graph->n_bodies) {
		graph->body = number;
		return CUDA_SUCCESS;
	}
	if (!graph->real && graph->result == CUDA_SUCCESS)
		graph->result = CUDA_ERROR_INVALID_VALUE;
	record_refuse(&session->record);
	return CUDA_SUCCESS;
}

bool graph_body_may_have(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_EMPTY ||
	       type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}
