/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: launches of graphs with conditional nodes. The results are those of driver 580.
 */

#include "conditional_child.h"

/* Which body runs, for each value. */
static void chosen_child(void)
{
	static const struct {
		CUgraphConditionalNodeType type;
		unsigned size, value, wanted;
	} cases[] = {
		{CU_GRAPH_COND_TYPE_IF, 1, 0, 0},
		{CU_GRAPH_COND_TYPE_IF, 1, 1, 1},
		{CU_GRAPH_COND_TYPE_IF, 1, 7, 1},
		{CU_GRAPH_COND_TYPE_IF, 2, 0, 10},
		{CU_GRAPH_COND_TYPE_IF, 2, 2, 1},
		{CU_GRAPH_COND_TYPE_SWITCH, 3, 0, 1},
		{CU_GRAPH_COND_TYPE_SWITCH, 3, 2, 100},
		{CU_GRAPH_COND_TYPE_SWITCH, 3, 3, 0},
		{CU_GRAPH_COND_TYPE_SWITCH, 3, UINT32_MAX, 0},
	};
	CUgraphConditionalHandle handle;
	CUgraphNode setter, node;
	CUgraphExec exec;
	CUgraph graph;

	open_all();
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		graph = graph_new();
		handle = handle_new(graph, 0, 0);
		setter = set_node(graph, NULL, handle, cases[i].value);
		node = cond_node(graph, setter, handle, cases[i].type, cases[i].size);
		for (unsigned k = 0, n = 1; k < cases[i].size; k++, n *= 10)
			add_node(bodies[k], NULL, n);
		add_node(graph, node, 1000);
		exec = instantiate(graph);
		CHECK(run(exec, 0) == 1000 + cases[i].wanted);
		CHECK(run(exec, 5) == 1005 + cases[i].wanted);
		OK(CU(cuGraphDestroy)(graph));
		CHECK(run(exec, 0) == 1000 + cases[i].wanted);
		OK(CU(cuGraphExecDestroy)(exec));
	}
}
CHILD(chosen)

/* A default is assigned by each launch, if the flag is set. */
static void defaults_child(void)
{
	CUgraphConditionalHandle handle;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	open_all();
	for (unsigned flags = 0; flags < 2; flags++) {
		graph = graph_new();
		handle = handle_new(graph, 0, flags);
		node = cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1);
		add_node(bodies[0], NULL, 1);
		set_node(graph, node, handle, 1);
		exec = instantiate(graph);
		CHECK(run(exec, 0) == 0);
		CHECK(run(exec, 0) == !flags);
		OK(CU(cuGraphExecDestroy)(exec));
		OK(CU(cuGraphDestroy)(graph));
	}
	graph = graph_new();
	handle = handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
	countdown_node(bodies[0], handle);
	exec = instantiate(graph);
	CHECK(run(exec, 10) == 0);
	CHECK(run(exec, 3) == 0);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(defaults)

/* Deep nesting, a loop within a branch, and a child graph in a body. */
static void nested_child(void)
{
	CUgraphConditionalHandle handle;
	CUgraph graph, inner, child;
	CUgraphNode node;
	CUgraphExec exec;

	open_all();
	graph = inner = graph_new();
	for (int depth = 0; depth < 40; depth++) {
		handle = handle_new(inner, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
		cond_node(inner, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1);
		inner = bodies[0];
	}
	child = graph_new();
	add_node(child, NULL, 1);
	OK(CU(cuGraphAddChildGraphNode)(&node, inner, NULL, 0, child));
	OK(CU(cuGraphDestroy)(child));
	exec = instantiate(graph);
	CHECK(run(exec, 0) == 1);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));

	graph = if_graph();
	inner = bodies[0];
	handle = handle_new(inner, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	node = cond_node(inner, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
	countdown_node(bodies[0], handle);
	add_node(inner, node, 4);
	exec = instantiate(graph);
	CHECK(run(exec, 6) == 4);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(nested)

/* A branch on `handle', whose bodies add `n' and 100 * n. */
static CUgraph branch_graph(unsigned value, unsigned n, CUgraphNode *ret_cond, CUgraphNode *ret_add)
{
	CUgraph graph = graph_new();
	CUgraphConditionalHandle handle = handle_new(graph, value, CU_GRAPH_COND_ASSIGN_DEFAULT);

	*ret_cond = cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 2);
	*ret_add = add_node(bodies[0], NULL, n);
	add_node(bodies[1], NULL, 100 * n);
	return graph;
}

static void set_added(CUgraphExec exec, CUgraphNode node, unsigned n)
{
	void *params[] = {&word, &n};
	CUDA_KERNEL_NODE_PARAMS kernel = {.func = add_kernel,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};

	OK(CU(cuGraphExecKernelNodeSetParams)(exec, node, &kernel));
}

/* Changes of an executable graph, in bodies too. */
static void update_child(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode cond, added, other_cond, other_added;
	CUgraph graph, other;
	CUgraphExec exec;
	unsigned is_enabled;

	open_all();
	graph = branch_graph(1, 1, &cond, &added);
	other = branch_graph(0, 7, &other_cond, &other_added);
	exec = instantiate(graph);
	CHECK(run(exec, 0) == 1);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphNodeSetEnabled)(exec, cond, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphNodeGetEnabled)(exec, cond, &is_enabled));
	OK(CU(cuGraphNodeSetEnabled)(exec, added, 0));
	CHECK(run(exec, 0) == 0);
	OK(CU(cuGraphNodeSetEnabled)(exec, added, 1));
	set_added(exec, added, 30);
	CHECK(run(exec, 0) == 30);
	OK(CU(cuGraphExecUpdate_v2)(exec, other, &info));
	CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	CHECK(run(exec, 0) == 700);
	OK(CU(cuGraphExecUpdate_v2)(exec, graph, &info));
	CHECK(run(exec, 0) == 1);
	set_added(exec, added, 31);
	CHECK(run(exec, 0) == 31);

	/* Another shape of a body. */
	add_node(bodies[1], NULL, 1);
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CU(cuGraphExecUpdate_v2)(exec, other, &info));
	CHECK(run(exec, 0) == 31);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));
	OK(CU(cuGraphDestroy)(other));
}
CHILD(update)

/* A loop that the program captures: its condition, and its body in another stream. */
static void capture_child(void)
{
	const CUgraphNode *tips;
	CUgraphConditionalHandle handle;
	CUstreamCaptureStatus status;
	CUgraph graph, ended;
	CUgraphExec exec;
	CUgraphNode node;
	CUstream a, b;
	void *params[] = {&word, &handle};
	unsigned thousand = 1000;
	void *add_params[] = {&word, &thousand};
	size_t n;

	open_all();
	a = stream_new(CU_STREAM_NON_BLOCKING);
	b = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(CU(cuStreamGetCaptureInfo)(a, &status, NULL, &graph, &tips, NULL, &n));
	CHECK(n == 0);
	handle = handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	node = cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
	OK(CU(cuStreamUpdateCaptureDependencies)(
		a, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	OK(CU(cuStreamBeginCaptureToGraph)(
		b, bodies[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(launch(countdown_kernel, 1, 1, b, params));
	OK(CU(cuStreamEndCapture)(b, &ended));
	CHECK(ended == bodies[0]);
	OK(launch(add_kernel, 1, 1, a, add_params));
	OK(CU(cuStreamEndCapture)(a, &ended));
	CHECK(ended == graph);
	exec = instantiate(graph);
	CHECK(run(exec, 10) == 1000);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(capture)

static void outside_child(void)
{
	CUgraphConditionalHandle handle = 1;
	unsigned value = 1;
	void *params[] = {&handle, &value};

	open_all();
	if_graph();
	OK(launch(set_kernel, 1, 1, NULL, params));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuCtxSynchronize)());
}
CHILD(outside)

static CUgraphExec endless_new(void)
{
	CUgraph graph = graph_new();

	cond_node(graph, NULL, handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT),
		CU_GRAPH_COND_TYPE_WHILE, 1);
	add_node(bodies[0], NULL, 1);
	return instantiate(graph);
}

/* An endless loop ends with its context. */
static void endless_child(void)
{
	open_all();
	write_word(0);
	OK(CU(cuGraphLaunch)(endless_new(), stream_new(CU_STREAM_NON_BLOCKING)));
	OK(CU(cuDevicePrimaryCtxReset)(0));
}
CHILD(endless)

/* An endless loop ends when the GPU has a fault. */
static void endless_fault_child(void)
{
	CUgraphConditionalHandle handle = 1;
	unsigned value = 1;
	void *params[] = {&handle, &value};
	CUstream loop;

	open_all();
	loop = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuGraphLaunch)(endless_new(), loop));
	OK(launch(set_kernel, 1, 1, stream_new(CU_STREAM_NON_BLOCKING), params));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuStreamSynchronize)(loop));
}
CHILD(endless_fault)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chosen),
		cmocka_unit_test(defaults),
		cmocka_unit_test(nested),
		cmocka_unit_test(update),
		cmocka_unit_test(capture),
		cmocka_unit_test(outside),
		cmocka_unit_test(endless),
		cmocka_unit_test(endless_fault),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
