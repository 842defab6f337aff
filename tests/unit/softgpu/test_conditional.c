/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU: which graphs may have conditional nodes, and which bodies. The results
 * are those of driver 580.
 */

#include "conditional_child.h"

static void handles_child(void)
{
	CUgraphConditionalHandle handle;
	CUgraph a, b;

	open_all();
	a = graph_new();
	b = graph_new();
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuGraphConditionalHandleCreate)(NULL, a, context, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuGraphConditionalHandleCreate)(&handle, NULL, context, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuGraphConditionalHandleCreate)(&handle, a, context, 0, 2));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT,
		CU(cuGraphConditionalHandleCreate)(&handle, a, NULL, 0, 0));
	CHECK(handle_new(a, 0, 0) == 1);
	CHECK(handle_new(b, 0, 0) == 1);
	CHECK(handle_new(a, 0, 0) == 2);
	/* A body counts with its outermost graph; a number is never used again. */
	cond_node(a, NULL, 1, CU_GRAPH_COND_TYPE_IF, 1);
	CHECK(handle_new(bodies[0], 0, 0) == 3);
	cond_node(bodies[0], NULL, 3, CU_GRAPH_COND_TYPE_IF, 1);
	CHECK(handle_new(bodies[0], 0, 0) == 4);
	CHECK(handle_new(a, 0, 0) == 5);
	OK(CU(cuGraphDestroy)(a));
	OK(CU(cuGraphDestroy)(b));
}
CHILD(handles)

static void nodes_child(void)
{
	CUgraphConditionalHandle handle;
	CUgraphNode node;
	CUgraphNodeType type;
	CUgraph graph, body;
	size_t n;

	open_all();
	graph = graph_new();
	handle = handle_new(graph, 0, 0);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT,
		try_node(&node, graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, NULL));
	for (unsigned size = 0; size < 4; size++) {
		if (size != 1 && size != 2)
			EXPECT(CUDA_ERROR_INVALID_VALUE,
				try_node(&node, graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, size,
					context));
		if (size != 1)
			EXPECT(CUDA_ERROR_INVALID_VALUE,
				try_node(&node, graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, size,
					context));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		try_node(&node, graph, NULL, handle, CU_GRAPH_COND_TYPE_SWITCH, 0, context));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try_node(&node, graph, NULL, handle, 3, 1, context));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		try_node(&node, graph, NULL, 2, CU_GRAPH_COND_TYPE_IF, 1, context));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		try_node(&node, graph, NULL, 0, CU_GRAPH_COND_TYPE_IF, 1, context));
	node = cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1);
	OK(CU(cuGraphNodeGetType)(node, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_CONDITIONAL);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		try_node(&node, graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, context));

	/* With its node, a body ends, and the handle may be used again. */
	body = bodies[0];
	OK(CU(cuGraphGetNodes)(body, NULL, &n));
	CHECK(n == 0);
	OK(CU(cuGraphDestroyNode)(node));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphGetNodes)(body, NULL, &n));
	cond_node(graph, NULL, handle, CU_GRAPH_COND_TYPE_SWITCH, 64);
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(nodes)

/* Graphs with conditional nodes, and their bodies, cannot be copied, and bodies not used alone. */
static void copies_child(void)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphNodeParams child = {.type = CU_GRAPH_NODE_TYPE_GRAPH,
		.graph = {.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}};
	CUgraph graph, body, other, clone;
	CUgraphNode node;
	size_t n = 1;

	open_all();
	graph = if_graph();
	body = bodies[0];
	other = graph_new();
	OK(CU(cuGraphGetNodes)(graph, &node, &n));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuGraphNodeSetParams)(node, &params));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuGraphClone)(&clone, graph));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuGraphClone)(&clone, body));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		CU(cuGraphAddChildGraphNode)(&node, other, NULL, 0, graph));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuGraphAddChildGraphNode)(&node, other, NULL, 0, body));
	child.graph.graph = graph;
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		CU(cuGraphAddNode_v2)(&node, other, NULL, NULL, 0, &child));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphDestroy)(body));
	expect_refused(body, CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR);
	OK(CU(cuGraphDestroy)(graph));
	OK(CU(cuGraphDestroy)(other));
}
CHILD(copies)

static void executable_child(void)
{
	CUgraphExec exec, second;
	CUgraph graph;
	CUgraphNode node;
	size_t n = 1;

	open_all();
	graph = graph_new();
	handle_new(graph, 0, 0);
	expect_refused(
		graph, CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	OK(CU(cuGraphDestroy)(graph));

	/* A body's handles are unused once its node has ended. */
	graph = if_graph();
	cond_node(bodies[0], NULL, handle_new(bodies[0], 0, 0), CU_GRAPH_COND_TYPE_IF, 1);
	OK(CU(cuGraphGetNodes)(graph, &node, &n));
	OK(CU(cuGraphDestroyNode)(node));
	cond_node(graph, NULL, 1, CU_GRAPH_COND_TYPE_IF, 1);
	expect_refused(
		graph, CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	cond_node(bodies[0], NULL, 2, CU_GRAPH_COND_TYPE_IF, 1);
	exec = instantiate(graph);

	/* One executable graph at a time. */
	expect_refused(graph, CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR);
	OK(CU(cuGraphExecDestroy)(exec));
	exec = instantiate(graph);
	OK(CU(cuGraphDestroy)(graph));
	OK(CU(cuGraphExecDestroy)(exec));
	graph = if_graph();
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphInstantiateWithFlags)(&second, graph,
						 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(executable)

static void CUDA_CB on_host(void *user)
{
	(void)user;
}

static void forbidden_node(CUgraph graph, int kind)
{
	CUDA_HOST_NODE_PARAMS host = {on_host, NULL};
	CUstreamBatchMemOpParams op = {
		.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word}};
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {.ctx = context, .count = 1, .paramArray = &op};
	CUgraphNode node;
	CUevent event;

	OK(CU(cuEventCreate)(&event, 0));
	switch (kind) {
	case 0:
		OK(CU(cuGraphAddHostNode)(&node, graph, NULL, 0, &host));
		break;
	case 1:
		OK(CU(cuGraphAddEventRecordNode)(&node, graph, NULL, 0, event));
		break;
	case 2:
		OK(CU(cuGraphAddEventWaitNode)(&node, graph, NULL, 0, event));
		break;
	default:
		OK(CU(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &ops));
		break;
	}
}

/* The same nodes beside the conditional node are allowed, as are copies of pinned memory. */
static void forbidden_child(void)
{
	CUgraph graph, child;
	CUgraphNode node;

	open_all();
	for (int kind = 0; kind < 4; kind++) {
		graph = if_graph();
		forbidden_node(graph, kind);
		OK(CU(cuGraphExecDestroy)(instantiate(graph)));
		forbidden_node(bodies[0], kind);
		expect_refused(graph, CUDA_ERROR_INVALID_VALUE,
			CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
		OK(CU(cuGraphDestroy)(graph));
		graph = if_graph();
		child = graph_new();
		forbidden_node(child, kind);
		cond_node(bodies[0], NULL, handle_new(graph, 0, 0), CU_GRAPH_COND_TYPE_WHILE, 1);
		OK(CU(cuGraphAddChildGraphNode)(&node, bodies[0], NULL, 0, child));
		expect_refused(graph, CUDA_ERROR_INVALID_VALUE,
			CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
		OK(CU(cuGraphDestroy)(child));
		OK(CU(cuGraphDestroy)(graph));
	}
}
CHILD(forbidden)

static CUDA_MEMCPY3D host_copy(const void *from)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = word,
		.WidthInBytes = 4,
		.Height = 1,
		.Depth = 1};
}

static void memory_child(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.value = 3, .elementSize = 4, .width = 1, .height = 1};
	uint32_t pageable = 5, filled;
	uint64_t *pinned;
	CUDA_MEMCPY3D copy;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	open_all();
	fill.dst = word + 4;
	pinned = words_new(1);
	store(pinned, 9);
	graph = if_graph();
	copy = host_copy(pinned);
	OK(CU(cuGraphAddMemcpyNode)(&node, bodies[0], NULL, 0, &copy, context));
	OK(CU(cuGraphAddMemsetNode)(&node, bodies[0], NULL, 0, &fill, context));
	OK(CU(cuGraphAddEmptyNode)(&node, bodies[0], NULL, 0));
	exec = instantiate(graph);
	CHECK(run(exec, 0) == 9);
	OK(CU(cuMemcpyDtoH)(&filled, word + 4, 4));
	CHECK(filled == 3);
	OK(CU(cuGraphExecDestroy)(exec));
	copy = host_copy(&pageable);
	OK(CU(cuGraphAddMemcpyNode)(&node, bodies[0], NULL, 0, &copy, context));
	expect_refused(graph, CUDA_ERROR_INVALID_VALUE,
		CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED);
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(memory)

static CUcontext green_new(void)
{
	unsigned n_groups = 1;
	CUdevResource all, part;
	CUdevResourceDesc desc;
	CUgreenCtx green;
	CUcontext green_context;

	OK(CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(CU(cuDevSmResourceSplitByCount)(&part, &n_groups, &all, NULL, 0, 8));
	OK(CU(cuDevResourceGenerateDesc)(&desc, &part, 1));
	OK(CU(cuGreenCtxCreate)(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(CU(cuCtxFromGreenCtx)(&green_context, green));
	return green_context;
}

/* Handle, conditional node and kernels of bodies must be of one context. */
static void contexts_child(void)
{
	CUcontext primary, green;
	CUgraphExec exec;
	CUgraph graph;

	open_all();
	primary = context;
	green = green_new();
	for (int mode = 0; mode < 4; mode++) {
		context = mode & 1 ? green : primary;
		graph = if_graph();
		OK(CU(cuCtxSetCurrent)(mode & 2 ? green : primary));
		add_node(bodies[0], NULL, 9);
		OK(CU(cuCtxSetCurrent)(primary));
		if (mode == 1 || mode == 2) {
			expect_refused(graph, CUDA_ERROR_INVALID_VALUE,
				CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED);
		} else {
			exec = instantiate(graph);
			CHECK(run(exec, 1) == 10);
			OK(CU(cuGraphExecDestroy)(exec));
		}
		OK(CU(cuGraphDestroy)(graph));
	}
}
CHILD(contexts)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles),
		cmocka_unit_test(nodes),
		cmocka_unit_test(copies),
		cmocka_unit_test(executable),
		cmocka_unit_test(forbidden),
		cmocka_unit_test(memory),
		cmocka_unit_test(contexts),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
