/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What conditional nodes refuse: bad sizes and handles, copies of their graphs, kinds of nodes in
 * bodies, and two executable graphs at a time. The errors are those of driver 580.
 */

#define NAME "conditional_errors"
#include "../helpers/conditional.h"

static void expect(cudaError_t error, cudaError_t wanted, const char *what, int line)
{
	cudaGetLastError();
	if (error != wanted)
		FAIL("line %d: %s: %s (%d), not %d", line, what, cudaGetErrorString(error), error,
			wanted);
}

#define EXPECT(wanted, call) expect((call), (wanted), #call, __LINE__)

static void refuse(cudaGraph_t graph, cudaGraphInstantiateResult wanted, int line)
{
	cudaGraphInstantiateParams params;
	cudaGraphExec_t exec;

	memset(&params, 0, sizeof(params));
	expect(cudaGraphInstantiateWithParams(&exec, graph, &params), cudaErrorInvalidValue,
		"instantiate", line);
	if (params.result_out != wanted)
		FAIL("line %d: the result is %d, not %d", line, params.result_out, wanted);
	expect(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue, "instantiate", line);
}

#define REFUSE(graph, wanted) refuse((graph), (wanted), __LINE__)

static cudaGraph_t if_graph(void)
{
	cudaGraph_t graph = graph_new();

	cond_node(graph, NULL, handle_new(graph, 1), cudaGraphCondTypeIf, 1);
	return graph;
}

static void handles(void)
{
	cudaGraphConditionalHandle handle, second;
	cudaGraph_t graph = graph_new();
	cudaGraphNode_t node;

	EXPECT(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, graph, 0, 2));
	EXPECT(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, NULL, 0, 0));
	EXPECT(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(NULL, graph, 0, 0));
	handle = handle_plain(graph);
	EXPECT(cudaErrorInvalidValue, cond_try(&node, graph, NULL, handle, cudaGraphCondTypeIf, 0));
	EXPECT(cudaErrorInvalidValue, cond_try(&node, graph, NULL, handle, cudaGraphCondTypeIf, 3));
	EXPECT(cudaErrorInvalidValue,
		cond_try(&node, graph, NULL, handle, cudaGraphCondTypeWhile, 2));
	EXPECT(cudaErrorInvalidValue,
		cond_try(&node, graph, NULL, handle, cudaGraphCondTypeSwitch, 0));
	EXPECT(cudaErrorInvalidValue,
		cond_try(&node, graph, NULL, handle, (enum cudaGraphConditionalNodeType)3, 1));
	EXPECT(cudaErrorInvalidValue, cond_try(&node, graph, NULL, 12345, cudaGraphCondTypeIf, 1));
	REFUSE(graph, cudaGraphInstantiateConditionalHandleUnused);

	/* One node for each handle at a time. */
	cond_node(graph, NULL, handle, cudaGraphCondTypeIf, 1);
	EXPECT(cudaErrorInvalidValue, cond_try(&node, graph, NULL, handle, cudaGraphCondTypeIf, 1));
	second = handle_new(bodies[0], 1);
	REFUSE(graph, cudaGraphInstantiateConditionalHandleUnused);
	cond_node(graph, NULL, second, cudaGraphCondTypeWhile, 1);
	set_node(bodies[0], NULL, second, 0);
	RUN_TWICE(graph, 1, 1);
}

/* With its node, a body and its nodes end. */
static void destroyed(void)
{
	cudaGraph_t graph = graph_new(), body;
	cudaGraphConditionalHandle handle = handle_new(graph, 1);
	cudaGraphNode_t node = cond_node(graph, NULL, handle, cudaGraphCondTypeIf, 1);
	size_t n;

	body = bodies[0];
	add_node(body, NULL, 1);
	EXPECT(cudaErrorInvalidValue, cudaGraphDestroy(body));
	CHECK(cudaGraphDestroyNode(node));
	EXPECT(cudaErrorInvalidValue, cudaGraphGetNodes(body, NULL, &n));
	REFUSE(graph, cudaGraphInstantiateConditionalHandleUnused);
	cond_node(graph, NULL, handle, cudaGraphCondTypeIf, 1);
	add_node(bodies[0], NULL, 5);
	RUN_TWICE(graph, 0, 5);
}

static void copies(void)
{
	cudaGraphNodeParams params = node_params(cudaGraphNodeTypeConditional);
	cudaGraph_t graph = if_graph(), body = bodies[0], other = graph_new(), copy;
	cudaGraphExec_t exec, second;
	cudaGraphNode_t node;
	size_t n = 1;

	CHECK(cudaGraphGetNodes(graph, &node, &n));
	EXPECT(cudaErrorNotSupported, cudaGraphNodeSetParams(node, &params));
	EXPECT(cudaErrorNotSupported, cudaGraphClone(&copy, graph));
	EXPECT(cudaErrorNotSupported, cudaGraphClone(&copy, body));
	EXPECT(cudaErrorNotSupported, cudaGraphAddChildGraphNode(&node, other, NULL, 0, graph));
	EXPECT(cudaErrorNotSupported, cudaGraphAddChildGraphNode(&node, other, NULL, 0, body));
	EXPECT(cudaErrorNotSupported, cudaGraphInstantiate(&exec, body, 0));
	CHECK(cudaGraphDestroy(other));

	/* One executable graph at a time. */
	add_node(body, NULL, 1);
	exec = instantiate(graph);
	EXPECT(cudaErrorNotSupported, cudaGraphInstantiate(&second, graph, 0));
	RUN(exec, 0, 1);
	CHECK(cudaGraphExecDestroy(exec));
	EXPECT(cudaErrorInvalidValue,
		cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
	RUN_TWICE(graph, 0, 1);
}

static void enabled(void)
{
	cudaGraph_t graph = if_graph();
	cudaGraphExec_t exec = instantiate(graph);
	unsigned is_enabled;
	cudaGraphNode_t node;
	size_t n = 1;

	CHECK(cudaGraphGetNodes(graph, &node, &n));
	EXPECT(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, node, 0));
	EXPECT(cudaErrorInvalidValue, cudaGraphNodeGetEnabled(exec, node, &is_enabled));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void CUDART_CB nothing(void *user)
{
	(void)user;
}

static void forbidden_add(cudaGraph_t graph, int kind, cudaEvent_t event)
{
	cudaHostNodeParams host = {nothing, NULL};
	cudaGraphNode_t node;

	if (kind == 0)
		CHECK(cudaGraphAddHostNode(&node, graph, NULL, 0, &host));
	else if (kind == 1)
		CHECK(cudaGraphAddEventRecordNode(&node, graph, NULL, 0, event));
	else
		CHECK(cudaGraphAddEventWaitNode(&node, graph, NULL, 0, event));
}

/* Graphs may allocate memory, but not in a body; as Warp expects, the instantiation says so. */
static void allocation(void)
{
	cudaGraph_t graph = if_graph();
	cudaMemAllocNodeParams params;
	cudaGraphNode_t node;

	add_node(bodies[0], NULL, 1);
	memset(&params, 0, sizeof(params));
	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = 4096;
	CHECK(cudaGraphAddMemAllocNode(&node, bodies[0], NULL, 0, &params));
	REFUSE(graph, cudaGraphInstantiateNodeOperationNotSupported);
	CHECK(cudaGraphDestroy(graph));
}

/* Beside the conditional node these are allowed; in a body and its child graphs they are not. */
static void forbidden(void)
{
	cudaGraph_t graph, child;
	cudaGraphNode_t node;
	cudaEvent_t event;

	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (int kind = 0; kind < 3; kind++) {
		graph = if_graph();
		forbidden_add(graph, kind, event);
		CHECK(cudaGraphExecDestroy(instantiate(graph)));
		forbidden_add(bodies[0], kind, event);
		REFUSE(graph, cudaGraphInstantiateNodeOperationNotSupported);
		CHECK(cudaGraphDestroy(graph));

		graph = if_graph();
		cond_node(bodies[0], NULL, handle_new(graph, 0), cudaGraphCondTypeIf, 1);
		child = graph_new();
		forbidden_add(child, kind, event);
		CHECK(cudaGraphAddChildGraphNode(&node, bodies[0], NULL, 0, child));
		REFUSE(graph, cudaGraphInstantiateNodeOperationNotSupported);
		CHECK(cudaGraphDestroy(child));
		CHECK(cudaGraphDestroy(graph));
	}
	CHECK(cudaEventDestroy(event));
}

static void pageable(void)
{
	cudaGraph_t graph = if_graph();
	int *memory = (int *)malloc(sizeof(int));
	cudaGraphNode_t node;

	*memory = 4;
	CHECK(cudaGraphAddMemcpyNode1D(
		&node, bodies[0], NULL, 0, word, memory, 4, cudaMemcpyHostToDevice));
	REFUSE(graph, cudaGraphInstantiateMultipleDevicesNotSupported);
	CHECK(cudaGraphDestroy(graph));
	free(memory);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double start = now_s();

	setup();
	for (long round = 0; round < options.rounds || now_s() - start < options.seconds; round++) {
		handles();
		destroyed();
		copies();
		enabled();
		forbidden();
		allocation();
		pageable();
	}
	return finish();
}
