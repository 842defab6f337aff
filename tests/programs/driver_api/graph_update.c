/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changes of executable graphs: single nodes of each kind, nodes disabled and enabled,
 * and all nodes after another graph. Earlier launches are not affected, and impossible
 * changes are refused.
 */

#define NAME "graph_update"
#include "../helpers/graph_driver.h"

static CUDA_MEMCPY3D line(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	CUDA_MEMCPY3D copy = {0};

	copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = dst;
	copy.srcDevice = src;
	copy.dstPitch = copy.srcPitch = size;
	copy.dstHeight = copy.srcHeight = 1;
	copy.WidthInBytes = size;
	copy.Height = copy.Depth = 1;
	return copy;
}

static void add_to(void *arg)
{
	*(int *)arg += 1;
}

static void kernel_nodes(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 2, .add = 3};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad_too);
	CUgraphNode first, second;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	unsigned enabled = 2;

	CHECK(cuGraphCreate(&graph, 0));
	first = mad_add(graph, NULL, data, 1, 1);
	second = mad_add(graph, first, data, 1, 10);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	fill_data(data, 0);
	/* Both are queued before the graph changes. */
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuGraphExecKernelNodeSetParams(exec, second, &params));
	run(exec);
	CHECK_DATA(data, (22 + 1) * 2 + 3, 0);
	/* The graph itself has not changed. */
	CHECK(cuGraphKernelNodeGetParams(second, &params));
	MUST(params.func == mad && *(unsigned *)params.kernelParams[3] == 10);
	CHECK(cuGraphNodeSetEnabled(exec, second, 0));
	CHECK(cuGraphNodeGetEnabled(exec, second, &enabled));
	MUST(enabled == 0);
	fill_data(data, 5);
	run(exec);
	CHECK_DATA(data, 6, 0);
	CHECK(cuGraphNodeSetEnabled(exec, second, 1));
	CHECK(cuGraphNodeGetEnabled(exec, second, &enabled));
	MUST(enabled == 1);
	run(exec);
	CHECK_DATA(data, 17, 0);
	/* A smaller grid, and then the same in a longer run. */
	args.times = 1;
	params = mad_node(&args, mad);
	params.gridDimX = 1;
	fill_data(data, 0);
	for (unsigned i = 0; i < 100; i++) {
		args.add = i;
		CHECK(cuGraphExecKernelNodeSetParams(exec, first, &params));
		CHECK(cuGraphExecKernelNodeSetParams(exec, second, &params));
		CHECK(cuGraphLaunch(exec, stream));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(host, data, BYTES));
	MUST(host[0] == 2 * 4950 && host[127] == 2 * 4950 && host[128] == 0);
	params.gridDimX = 0;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, first, &params));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void other_nodes(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.dst = data, .value = 4, .elementSize = 4, .width = COUNT};
	CUDA_HOST_NODE_PARAMS call = {0};
	CUgraphNode fill_node, copy_node, call_node, record_node;
	CUevent one = NULL, other = NULL;
	CUdeviceptr a = 0, b = 0;
	int n_first = 0, n_second = 0;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUDA_MEMCPY3D copy;

	CHECK(cuMemAlloc(&a, BYTES));
	CHECK(cuMemAlloc(&b, BYTES));
	CHECK(cuEventCreate(&one, 0));
	CHECK(cuEventCreate(&other, 0));
	CHECK(cuGraphCreate(&graph, 0));
	fill.height = 1;
	CHECK(cuGraphAddMemsetNode(&fill_node, graph, NULL, 0, &fill, context));
	copy = line(a, data, BYTES);
	CHECK(cuGraphAddMemcpyNode(&copy_node, graph, &fill_node, 1, &copy, context));
	call.fn = add_to;
	call.userData = &n_first;
	CHECK(cuGraphAddHostNode(&call_node, graph, &copy_node, 1, &call));
	CHECK(cuGraphAddEventRecordNode(&record_node, graph, &call_node, 1, one));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	CHECK_DATA(a, 4, 0);
	fill.value = 6;
	CHECK(cuGraphExecMemsetNodeSetParams(exec, fill_node, &fill, context));
	copy = line(b, data, BYTES);
	CHECK(cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context));
	/* Queued launches call the old function. */
	CHECK(cuGraphLaunch(exec, stream));
	call.userData = &n_second;
	CHECK(cuGraphExecHostNodeSetParams(exec, call_node, &call));
	CHECK(cuGraphExecEventRecordNodeSetEvent(exec, record_node, other));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuEventSynchronize(other));
	CHECK(cuStreamSynchronize(stream));
	MUST(n_first == 2 && n_second == 1);
	CHECK_DATA(a, 4, 0);
	CHECK_DATA(b, 6, 0);
	REFUSED(cuGraphExecHostNodeSetParams(exec, copy_node, &call));
	REFUSED(cuGraphNodeSetEnabled(exec, call_node, 0));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuEventDestroy(one));
	CHECK(cuEventDestroy(other));
	CHECK(cuMemFree(a));
	CHECK(cuMemFree(b));
}

/* fill, then `n' kernels in a row, then a copy. */
static CUgraph capture_chain(CUdeviceptr to, unsigned value, unsigned n, unsigned add)
{
	CUdeviceptr at = data;
	unsigned count = COUNT, times = 1;
	void *args[] = {&at, &count, &times, &add};
	CUgraph graph = NULL;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(cuMemsetD32Async(data, value, COUNT, stream));
	for (unsigned i = 0; i < n; i++)
		CHECK(cuLaunchKernel(
			mad, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, stream, args, NULL));
	CHECK(cuMemcpyDtoDAsync(to, data, BYTES, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	return graph;
}

/* Captured again with other arguments, as frameworks do. */
static void whole_graphs(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec = NULL;
	CUdeviceptr a = 0, b = 0;
	CUgraphNode node;
	CUgraph graph;

	CHECK(cuMemAlloc(&a, BYTES));
	CHECK(cuMemAlloc(&b, BYTES));
	graph = capture_chain(a, 100, 5, 2);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	run(exec);
	CHECK_DATA(a, 110, 0);
	for (unsigned i = 1; i < 20; i++) {
		graph = capture_chain(i % 2 ? b : a, i, 5, i);
		CHECK(cuGraphExecUpdate(exec, graph, &info));
		MUST(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
		CHECK(cuGraphDestroy(graph));
		run(exec);
		CHECK_DATA(i % 2 ? b : a, 6 * i, 0);
	}
	graph = capture_chain(a, 1, 6, 1);
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
	MUST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	CHECK(cuGraphDestroy(graph));
	/* As many nodes in a row, one of another kind. */
	graph = capture_chain(a, 1, 4, 1);
	{
		size_t n = 0;
		CUgraphNode nodes[8], last;

		CHECK(cuGraphGetNodes(graph, NULL, &n));
		MUST(n == 6);
		CHECK(cuGraphGetNodes(graph, nodes, &n));
		last = nodes[5];
		CHECK(cuGraphAddEmptyNode(&node, graph, &last, 1));
	}
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
	MUST(info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS);
	CHECK(cuGraphDestroy(graph));
	/* Refused changes have no effect. */
	fill_data(b, 0);
	run(exec);
	CHECK_DATA(b, 6 * 19, 0);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuMemFree(a));
	CHECK(cuMemFree(b));
}

/* A child's nodes by their handles, and the whole child at once. */
static void children(void)
{
	CUgraph graph = NULL, child = NULL, inside = NULL, other = NULL;
	CUgraphNode first, child_node;
	CUgraphExec exec = NULL;

	CHECK(cuGraphCreate(&child, 0));
	mad_add(child, mad_add(child, NULL, data, 2, 0), data, 1, 1);
	CHECK(cuGraphCreate(&graph, 0));
	first = mad_add(graph, NULL, data, 1, 5);
	CHECK(cuGraphAddChildGraphNode(&child_node, graph, &first, 1, child));
	mad_add(graph, child_node, data, 10, 0);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	fill_data(data, 0);
	run(exec);
	CHECK_DATA(data, 110, 0);
	CHECK(cuGraphChildGraphNodeGetGraph(child_node, &inside));
	MUST(inside != child);
	CHECK(cuGraphCreate(&other, 0));
	mad_add(other, mad_add(other, NULL, data, 3, 0), data, 1, 7);
	CHECK(cuGraphExecChildGraphNodeSetParams(exec, child_node, other));
	fill_data(data, 0);
	run(exec);
	CHECK_DATA(data, 220, 0);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuGraphDestroy(child));
	CHECK(cuGraphDestroy(other));
}

int main(void)
{
	setup();
	kernel_nodes();
	other_nodes();
	whole_graphs();
	children();
	return finish();
}
