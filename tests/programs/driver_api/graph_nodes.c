/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs built node by node: kernels, copies of lines and boxes, fills, host
 * functions, stream memory operations, events and empty nodes, with the calls of each
 * kind and with the generic call; and queries of the nodes.
 */

#define NAME "graph_nodes"
#include "../helpers/graph_driver.h"

enum {
	WIDTH = 40,
	HEIGHT = 5,
	DEPTH = 3,
	PITCH = 64,
	ROWS = 7
};

static CUDA_MEMCPY3D line(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	CUDA_MEMCPY3D copy = {0};

	copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.dstDevice = dst;
	copy.srcDevice = src;
	copy.dstPitch = copy.srcPitch = size;
	copy.dstHeight = copy.srcHeight = 1;
	copy.WidthInBytes = size;
	copy.Height = copy.Depth = 1;
	return copy;
}

static CUgraphExec make(CUgraph graph)
{
	CUgraphExec exec = NULL;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	return exec;
}

static void kernels_fills_copies(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {0}, fill_got;
	CUDA_KERNEL_NODE_PARAMS kernel_got;
	CUDA_MEMCPY3D copy, copy_got;
	CUgraphNode fill_node, kernel_node, copy_node, nodes[4];
	CUgraphNodeType type;
	CUgraphExec exec;
	CUdeviceptr other = 0;
	CUgraph graph = NULL;
	size_t n = 4;

	CHECK(cuMemAlloc(&other, BYTES));
	CHECK(cuGraphCreate(&graph, 0));
	fill.dst = data;
	fill.value = 11;
	fill.elementSize = 4;
	fill.width = COUNT;
	fill.height = 1;
	CHECK(cuGraphAddMemsetNode(&fill_node, graph, NULL, 0, &fill, context));
	kernel_node = mad_add(graph, fill_node, data, 3, 4);
	copy = line(other, data, BYTES);
	CHECK(cuGraphAddMemcpyNode(&copy_node, graph, &kernel_node, 1, &copy, context));
	CHECK(cuGraphMemsetNodeGetParams(fill_node, &fill_got));
	MUST(fill_got.dst == data && fill_got.value == 11 && fill_got.elementSize == 4 &&
		fill_got.width == COUNT && fill_got.height == 1);
	CHECK(cuGraphKernelNodeGetParams(kernel_node, &kernel_got));
	MUST(kernel_got.func == mad && kernel_got.blockDimX == 128 &&
		*(unsigned *)kernel_got.kernelParams[2] == 3 &&
		*(CUdeviceptr *)kernel_got.kernelParams[0] == data);
	CHECK(cuGraphMemcpyNodeGetParams(copy_node, &copy_got));
	MUST(copy_got.WidthInBytes == BYTES && copy_got.Height == 1 && copy_got.Depth == 1);
	CHECK(cuGraphNodeGetType(copy_node, &type));
	MUST(type == CU_GRAPH_NODE_TYPE_MEMCPY);
	CHECK(cuGraphGetNodes(graph, nodes, &n));
	MUST(n == 3 && nodes[3] == NULL);
	exec = make(graph);
	for (int i = 0; i < 3; i++) {
		fill_data(other, 0);
		run(exec);
		CHECK_DATA(other, 37, 0);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuMemFree(other));
}

/* Boxes within the device, to pinned memory and from pageable memory. */
static void boxes(void)
{
	static unsigned char in[PITCH * ROWS * DEPTH], out[PITCH * ROWS * DEPTH];
	CUDA_MEMCPY3D up = {0}, across = {0}, down = {0};
	CUgraphNode up_node, across_node, down_node;
	CUdeviceptr one = 0, other = 0;
	CUgraph graph = NULL;
	CUgraphExec exec;

	CHECK(cuMemAlloc(&one, sizeof(in)));
	CHECK(cuMemAlloc(&other, sizeof(in)));
	CHECK(cuGraphCreate(&graph, 0));
	up.srcMemoryType = CU_MEMORYTYPE_HOST;
	up.srcHost = in;
	up.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	up.dstDevice = one;
	up.srcPitch = up.dstPitch = PITCH;
	up.srcHeight = up.dstHeight = ROWS;
	up.srcXInBytes = up.dstXInBytes = 3;
	up.srcY = up.dstY = 1;
	up.WidthInBytes = WIDTH;
	up.Height = HEIGHT;
	up.Depth = DEPTH;
	across = up;
	across.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	across.srcDevice = one;
	across.dstDevice = other;
	across.dstXInBytes = 8;
	down = across;
	down.srcDevice = other;
	down.srcXInBytes = 8;
	down.dstMemoryType = CU_MEMORYTYPE_HOST;
	down.dstHost = out;
	down.dstXInBytes = 0;
	CHECK(cuGraphAddMemcpyNode(&up_node, graph, NULL, 0, &up, context));
	CHECK(cuGraphAddMemcpyNode(&across_node, graph, &up_node, 1, &across, context));
	CHECK(cuGraphAddMemcpyNode(&down_node, graph, &across_node, 1, &down, context));
	exec = make(graph);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < sizeof(in); i++)
			in[i] = (unsigned char)(i * 7 + round);
		memset(out, 0, sizeof(out));
		run(exec);
		for (size_t z = 0; z < DEPTH; z++)
			for (size_t y = 1; y <= HEIGHT; y++)
				MUST(!memcmp(out + (z * ROWS + y) * PITCH,
					in + (z * ROWS + y) * PITCH + 3, WIDTH));
		MUST(out[PITCH + WIDTH] == 0);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuMemFree(one));
	CHECK(cuMemFree(other));
}

static void count_call(void *arg)
{
	(*(int *)arg)++;
}

/* A word written by one branch ends the wait of another; a host function checks it. */
static void words_and_calls(void)
{
	CUstreamBatchMemOpParams write = {0}, waits[2] = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {0}, got;
	CUDA_HOST_NODE_PARAMS call = {0}, call_got;
	CUgraphNode first, write_node, wait_node, join[2], call_node, empty;
	int n_calls = 0;
	CUgraph graph = NULL;
	CUgraphExec exec;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
	write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	write.writeValue.address = data;
	write.writeValue.value = 5;
	ops.ctx = context;
	ops.count = 1;
	ops.paramArray = &write;
	CHECK(cuGraphAddBatchMemOpNode(&write_node, graph, &first, 1, &ops));
	waits[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	waits[0].waitValue.address = data;
	waits[0].waitValue.value = 5;
	waits[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	waits[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	waits[1].writeValue.address = data + 4;
	waits[1].writeValue.value = 6;
	ops.count = 2;
	ops.paramArray = waits;
	CHECK(cuGraphAddBatchMemOpNode(&wait_node, graph, &write_node, 1, &ops));
	CHECK(cuGraphBatchMemOpNodeGetParams(wait_node, &got));
	MUST(got.count == 2 && got.paramArray[0].waitValue.address == data &&
		got.paramArray[1].writeValue.value == 6);
	join[0] = wait_node;
	join[1] = write_node;
	call.fn = count_call;
	call.userData = &n_calls;
	CHECK(cuGraphAddHostNode(&call_node, graph, join, 2, &call));
	CHECK(cuGraphHostNodeGetParams(call_node, &call_got));
	MUST(call_got.fn == count_call && call_got.userData == &n_calls);
	CHECK(cuGraphAddEmptyNode(&empty, graph, &call_node, 1));
	mad_add(graph, empty, data, 1, 1);
	exec = make(graph);
	for (int i = 0; i < 4; i++) {
		fill_data(data, 0);
		run(exec);
		MUST(n_calls == i + 1);
		CHECK(cuMemcpyDtoH(host, data, 12));
		MUST(host[0] == 6 && host[1] == 7 && host[2] == 1);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

/* The graph waits for events of other streams, and other streams for events of the graph. */
static void events(void)
{
	CUgraphNode wait_node, record_node, kernel_node;
	CUevent before = NULL, after = NULL, got = NULL;
	CUstream other = NULL;
	CUgraph graph = NULL;
	CUgraphExec exec;
	float ms = -1;
	void *args[4];
	struct mad_args list = {.data = data, .count = COUNT, .times = 2, .add = 0};

	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&before, 0));
	CHECK(cuEventCreate(&after, 0));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEventWaitNode(&wait_node, graph, NULL, 0, before));
	kernel_node = mad_add(graph, wait_node, data, 1, 1);
	CHECK(cuGraphAddEventRecordNode(&record_node, graph, &kernel_node, 1, after));
	CHECK(cuGraphEventRecordNodeGetEvent(record_node, &got));
	MUST(got == after);
	CHECK(cuGraphEventWaitNodeGetEvent(wait_node, &got));
	MUST(got == before);
	exec = make(graph);
	mad_node(&list, mad);
	memcpy(args, list.list, sizeof(args));
	for (int i = 0; i < 5; i++) {
		fill_data(data, 3);
		for (int k = 0; k < 4; k++)
			CHECK(cuLaunchKernel(
				mad, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, other, args, NULL));
		CHECK(cuEventRecord(before, other));
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuStreamWaitEvent(other, after, 0));
		CHECK(cuLaunchKernel(
			mad, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, other, args, NULL));
		CHECK(cuStreamSynchronize(other));
		CHECK(cuEventQuery(after));
		CHECK_DATA(data, (3 * 16 + 1) * 2, 0);
	}
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuEventSynchronize(after));
	CHECK(cuEventElapsedTime(&ms, before, after));
	MUST(ms >= 0);
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuEventDestroy(before));
	CHECK(cuEventDestroy(after));
	CHECK(cuStreamDestroy(other));
}

/* The one call for nodes of all kinds. */
static void any_kind(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 9};
	CUDA_KERNEL_NODE_PARAMS kernel = mad_node(&args, mad);
	CUgraphNodeParams params = {0};
	CUgraphNode fill_node, kernel_node, child_node;
	CUgraph graph = NULL, child = NULL;
	CUgraphExec exec;

	CHECK(cuGraphCreate(&graph, 0));
	params.type = CU_GRAPH_NODE_TYPE_MEMSET;
	params.memset.dst = data;
	params.memset.value = 1;
	params.memset.elementSize = 4;
	params.memset.width = COUNT;
	params.memset.height = 1;
	params.memset.ctx = context;
	CHECK(cuGraphAddNode(&fill_node, graph, NULL, NULL, 0, &params));
	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_KERNEL;
	memcpy(&params.kernel, &kernel, sizeof(params.kernel));
	CHECK(cuGraphAddNode(&kernel_node, graph, &fill_node, NULL, 1, &params));
	CHECK(cuGraphCreate(&child, 0));
	mad_add(child, NULL, data, 10, 0);
	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_GRAPH;
	params.graph.graph = child;
	CHECK(cuGraphAddNode(&child_node, graph, &kernel_node, NULL, 1, &params));
	CHECK(cuGraphDestroy(child));
	args.add = 19;
	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_KERNEL;
	memcpy(&params.kernel, &kernel, sizeof(params.kernel));
	CHECK(cuGraphNodeSetParams(kernel_node, &params));
	exec = make(graph);
	run(exec);
	CHECK_DATA(data, 200, 0);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void wrong_arguments(void)
{
	CUDA_HOST_NODE_PARAMS call = {0};
	CUgraph graph = NULL, other = NULL;
	CUgraphNode node = NULL, of_other;
	CUgraphExec exec = NULL;
	size_t n = 0;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphCreate(&other, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(&other, 1));
	CHECK(cuGraphAddEmptyNode(&of_other, other, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, &of_other, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(NULL, graph, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode(&node, graph, NULL, 0, &call));
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 0);
	/* An empty graph can be launched. */
	exec = make(graph);
	run(exec);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuGraphDestroy(other));
}

int main(void)
{
	setup();
	kernels_fills_copies();
	boxes();
	words_and_calls();
	events();
	any_kind();
	wrong_arguments();
	return finish();
}
