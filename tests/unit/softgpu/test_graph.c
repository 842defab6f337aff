/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: graphs, made node by node and by capture. */

#include "softgpu_child.h"

static uint32_t read_word(CUdeviceptr p)
{
	uint32_t value;

	OK(CU(cuMemcpyDtoH)(&value, p, sizeof(value)));
	return value;
}

static CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr dst, unsigned value, size_t n)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst, .value = value, .elementSize = 4, .width = n, .height = 1};
}

static CUDA_MEMCPY3D copy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = src,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dst,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1};
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(CU(cuGraphInstantiate)(&exec, graph, 0));
	return exec;
}

static unsigned n_called;

static void CUDA_CB on_host(void *user)
{
	n_called += *(unsigned *)user;
}

/* fill -> copy -> host, and a fourth node without edges. */
static void nodes_child(void)
{
	CUDA_MEMSET_NODE_PARAMS fill_params;
	CUDA_MEMCPY3D copy_params;
	CUDA_HOST_NODE_PARAMS host_params;
	CUgraph graph, clone;
	CUgraphNode fill_node, copy_node, host_node, empty, nodes[8], in_clone;
	CUgraphNodeType type;
	CUgraphExec exec, exec_clone;
	CUstream stream;
	CUdeviceptr a, b;
	unsigned step = 1;
	size_t n;

	context_open();
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuMemAlloc)(&a, 64));
	OK(CU(cuMemAlloc)(&b, 64));
	OK(CU(cuGraphCreate)(&graph, 0));
	fill_params = fill(a, 5, 16);
	OK(CU(cuGraphAddMemsetNode)(&fill_node, graph, NULL, 0, &fill_params, NULL));
	copy_params = copy(b, a, 64);
	OK(CU(cuGraphAddMemcpyNode)(&copy_node, graph, &fill_node, 1, &copy_params, NULL));
	host_params = (CUDA_HOST_NODE_PARAMS){on_host, &step};
	OK(CU(cuGraphAddHostNode)(&host_node, graph, &copy_node, 1, &host_params));
	OK(CU(cuGraphAddEmptyNode)(&empty, graph, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphAddEmptyNode)(&empty, graph, NULL, 1));
	OK(CU(cuGraphGetNodes)(graph, NULL, &n));
	CHECK(n == 4);
	n = 8;
	OK(CU(cuGraphGetRootNodes)(graph, nodes, &n));
	CHECK(n == 2 && (nodes[0] == fill_node || nodes[1] == fill_node));
	OK(CU(cuGraphNodeGetType)(copy_node, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_MEMCPY);

	exec = instantiate(graph);
	OK(CU(cuGraphLaunch)(exec, stream));
	OK(CU(cuGraphLaunch)(exec, NULL));
	OK(CU(cuCtxSynchronize)());
	CHECK(read_word(b + 60) == 5 && n_called == 2);

	/* A change of the executable graph stays there, and does not affect the clone. */
	OK(CU(cuGraphClone)(&clone, graph));
	OK(CU(cuGraphNodeFindInClone)(&in_clone, copy_node, clone));
	exec_clone = instantiate(clone);
	fill_params = fill(a, 6, 16);
	OK(CU(cuGraphExecMemsetNodeSetParams)(exec, fill_node, &fill_params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuGraphExecMemsetNodeSetParams)(exec, copy_node, &fill_params, NULL));
	OK(CU(cuGraphLaunch)(exec, stream));
	OK(CU(cuStreamSynchronize)(stream));
	CHECK(read_word(b) == 6);
	OK(CU(cuGraphNodeSetEnabled)(exec_clone, in_clone, 0));
	OK(CU(cuGraphLaunch)(exec_clone, stream));
	OK(CU(cuStreamSynchronize)(stream));
	CHECK(read_word(a) == 5 && read_word(b) == 6);
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphExecDestroy)(exec_clone));
	OK(CU(cuGraphDestroy)(clone));
	OK(CU(cuGraphDestroy)(graph));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphDestroy)(graph));
}
CHILD(nodes)

/* A chain of kernels whose functions and arguments change from launch to launch. */
static void batch_child(void)
{
	enum {
		N = 4
	};
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1};
	CUDA_KERNEL_NODE_PARAMS asked;
	CUgraphNode nodes[N];
	CUdeviceptr p;
	CUgraph graph;
	CUgraphExec exec;
	CUlibrary lib;
	float one = 1, sum;
	unsigned n = 1;
	void *add[] = {&p, &p, &p, &n};
	void *poke[] = {&p};

	context_open();
	lib = library_load();
	OK(CU(cuMemAlloc)(&p, 4));
	OK(CU(cuGraphCreate)(&graph, 0));
	params.kern = (CUkernel)kernel_get(lib, "add");
	params.kernelParams = add;
	for (int i = 0; i < N; i++)
		OK(CU(cuGraphAddKernelNode)(
			&nodes[i], graph, i > 0 ? &nodes[i - 1] : NULL, i > 0, &params));
	OK(CU(cuGraphKernelNodeGetParams)(nodes[1], &asked));
	CHECK(asked.blockDimX == 32 && *(unsigned *)asked.kernelParams[3] == 1);
	exec = instantiate(graph);
	OK(CU(cuMemcpyHtoD)(p, &one, 4));
	OK(CU(cuGraphLaunch)(exec, NULL));
	OK(CU(cuMemcpyDtoH)(&sum, p, 4));
	CHECK(sum == 16); /* doubled four times */
	params.kern = (CUkernel)kernel_get(lib, "poke");
	params.kernelParams = poke;
	OK(CU(cuGraphExecKernelNodeSetParams)(exec, nodes[N - 1], &params));
	OK(CU(cuGraphLaunch)(exec, NULL));
	CHECK(read_word(p) == 7);
	OK(CU(cuGraphDestroy)(graph));
	OK(CU(cuGraphLaunch)(exec, NULL));
	OK(CU(cuCtxSynchronize)());
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuLibraryUnload)(lib));
}
CHILD(batch)

/* Memory operations and events as nodes: a graph that signals the host and waits for it. */
static void waiting_child(void)
{
	CUstreamBatchMemOpParams ask[1] = {0}, wait[1] = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.count = 1};
	CUgraphNode ask_node, wait_node, record_node, child_node;
	CUgraph graph, parent;
	CUgraphExec exec;
	CUstream stream;
	CUevent event;
	uint64_t *words;

	params.ctx = context_open();
	words = words_new(2);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	ask[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ask[0].writeValue.address = device_of(&words[0]);
	ask[0].writeValue.value64 = 1;
	wait[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	wait[0].waitValue.address = device_of(&words[1]);
	wait[0].waitValue.value64 = 1;
	OK(CU(cuGraphCreate)(&graph, 0));
	params.paramArray = ask;
	OK(CU(cuGraphAddBatchMemOpNode)(&ask_node, graph, NULL, 0, &params));
	params.paramArray = wait;
	OK(CU(cuGraphAddBatchMemOpNode)(&wait_node, graph, &ask_node, 1, &params));
	OK(CU(cuGraphAddEventRecordNode)(&record_node, graph, &wait_node, 1, event));
	OK(CU(cuGraphCreate)(&parent, 0));
	OK(CU(cuGraphAddChildGraphNode)(&child_node, parent, NULL, 0, graph));
	exec = instantiate(parent);
	OK(CU(cuGraphLaunch)(exec, stream));
	for (int i = 0; i < 10000 && load(&words[0]) == 0; i++)
		usleep(1000);
	CHECK(load(&words[0]) == 1);
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuEventQuery)(event));
	store(&words[1], 1);
	OK(CU(cuEventSynchronize)(event));
	OK(CU(cuStreamSynchronize)(stream));
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(parent));
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(waiting)

/* One stream forks into another and joins it again: three nodes, run twice. */
static void capture_child(void)
{
	CUstreamCaptureStatus status;
	CUstream a, b;
	CUevent fork_event, join_event;
	CUgraph graph;
	CUgraphNode nodes[4];
	CUgraphExec exec;
	CUdeviceptr p, q;
	unsigned step = 3;
	size_t n = 4;

	context_open();
	a = stream_new(CU_STREAM_NON_BLOCKING);
	b = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuEventCreate)(&fork_event, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuEventCreate)(&join_event, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuMemAlloc)(&p, 64));
	OK(CU(cuMemAlloc)(&q, 64));
	OK(CU(cuMemsetD8)(q, 0, 64));
	OK(CU(cuCtxSynchronize)());
	OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(CU(cuMemsetD32Async)(p, 9, 16, a));
	OK(CU(cuEventRecord)(fork_event, a));
	OK(CU(cuStreamWaitEvent)(b, fork_event, 0));
	OK(CU(cuStreamIsCapturing)(b, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(CU(cuMemcpyDtoDAsync)(q, p, 64, b));
	OK(CU(cuLaunchHostFunc)(a, on_host, &step));
	OK(CU(cuEventRecord)(join_event, b));
	OK(CU(cuStreamWaitEvent)(a, join_event, 0));
	OK(CU(cuStreamEndCapture)(a, &graph));
	OK(CU(cuStreamIsCapturing)(b, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(CU(cuGraphGetNodes)(graph, nodes, &n));
	CHECK(n == 3 && n_called == 0 && read_word(q) == 0);
	exec = instantiate(graph);
	OK(CU(cuGraphLaunch)(exec, a));
	OK(CU(cuGraphLaunch)(exec, b));
	OK(CU(cuStreamSynchronize)(b));
	CHECK(read_word(q + 60) == 9 && n_called == 6);
}
CHILD(capture)

/* Captures that end with an error, with the results of driver 580. */
static void capture_errors_child(void)
{
	CUstream a, b;
	CUevent event;
	CUgraph graph;
	CUdeviceptr p;

	context_open();
	a = stream_new(CU_STREAM_NON_BLOCKING);
	b = stream_new(0);
	OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuMemAlloc)(&p, 64));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CU(cuStreamBeginCapture)(NULL, 2));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, CU(cuStreamEndCapture)(a, &graph));
	OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, CU(cuStreamBeginCapture)(a, 2));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CU(cuStreamSynchronize)(a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CU(cuMemsetD32Async)(p, 1, 4, a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CU(cuStreamEndCapture)(a, &graph));

	OK(CU(cuStreamBeginCapture)(b, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CU(cuMemsetD32Async)(p, 1, 4, NULL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CU(cuStreamEndCapture)(b, &graph));

	OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(CU(cuEventRecord)(event, a));
	OK(CU(cuStreamWaitEvent)(b, event, 0));
	OK(CU(cuMemsetD32Async)(p, 1, 4, b));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CU(cuStreamEndCapture)(a, &graph));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuEventQuery)(event));

	OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CU(cuMemAlloc)(&p, 64));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CU(cuStreamEndCapture)(a, &graph));
	OK(CU(cuMemAlloc)(&p, 64));
	OK(CU(cuMemsetD32Async)(p, 1, 4, a));
	OK(CU(cuCtxSynchronize)());
	CHECK(read_word(p) == 1);
}
CHILD(capture_errors)

/* Streams that end while they take part in a capture, with the results of driver 580. */
static void capture_left_child(void)
{
	CUstream a, b;
	CUevent event;
	CUgraph graph;
	CUdeviceptr p;
	size_t n;

	context_open();
	a = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuMemAlloc)(&p, 64));
	for (int joined = 0; joined < 2; joined++) {
		b = stream_new(CU_STREAM_NON_BLOCKING);
		OK(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
		OK(CU(cuEventRecord)(event, a));
		OK(CU(cuStreamWaitEvent)(b, event, 0));
		OK(CU(cuMemsetD32Async)(p, 1, 4, b));
		OK(CU(cuEventRecord)(event, b));
		OK(CU(cuStreamDestroy)(b));
		if (joined)
			OK(CU(cuStreamWaitEvent)(a, event, 0));
		OK(CU(cuMemsetD32Async)(p, 1, 4, a));
		EXPECT(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
			CU(cuStreamEndCapture)(a, &graph));
	}
	OK(CU(cuGraphGetNodes)(graph, NULL, &n));
	CHECK(n == 2);
	OK(CU(cuGraphDestroy)(graph));
}
CHILD(capture_left)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes),
		cmocka_unit_test(batch),
		cmocka_unit_test(waiting),
		cmocka_unit_test(capture),
		cmocka_unit_test(capture_errors),
		cmocka_unit_test(capture_left),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
