/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions in graphs: replayed many times, in several branches and several graphs
 * at once, captured and added. Each runs once per launch, after its dependencies and
 * before its dependents. `graph_host stuck' pauses in a host function, with further
 * launches queued, until it is killed.
 */

#define NAME "graph_host"
#include <unistd.h>

#include "../helpers/graph_driver.h"

enum {
	REPLAYS = 60,
	BRANCHES = 6,
	GRAPHS = 3
};

/* A function that reads what the GPU has written to pinned memory, and passes it on. */
struct relay {
	volatile unsigned *in, *out;
	unsigned n_calls;
};

static void relay(void *arg)
{
	struct relay *one = arg;

	one->out[0] = one->in[0] + 100;
	one->n_calls++;
}

static CUgraphNode copy_add(CUgraph graph, CUgraphNode before, CUdeviceptr dst, CUdeviceptr src)
{
	CUDA_MEMCPY3D copy = {0};
	CUgraphNode node = NULL;

	copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.dstDevice = dst;
	copy.srcDevice = src;
	copy.dstPitch = copy.srcPitch = copy.WidthInBytes = 4;
	copy.dstHeight = copy.srcHeight = copy.Height = copy.Depth = 1;
	CHECK(cuGraphAddMemcpyNode(
		&node, graph, before ? &before : NULL, before ? 1 : 0, &copy, context));
	return node;
}

static CUgraphNode call_add(CUgraph graph, CUgraphNode before, CUhostFn function, void *arg)
{
	CUDA_HOST_NODE_PARAMS params = {function, arg};
	CUgraphNode node = NULL;

	CHECK(cuGraphAddHostNode(&node, graph, before ? &before : NULL, before ? 1 : 0, &params));
	return node;
}

/* device word -> pinned -> host function -> pinned -> device word -> kernel adds 1, in a circle */
static void in_a_row(void)
{
	CUgraphNode node;
	unsigned *pinned = NULL;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	struct relay one;
	CUdeviceptr at;

	CHECK(cuMemAllocHost((void **)&pinned, 64));
	CHECK(cuMemHostGetDevicePointer(&at, pinned, 0));
	one = (struct relay){pinned, pinned + 8, 0};
	CHECK(cuGraphCreate(&graph, 0));
	node = copy_add(graph, NULL, at, data);
	node = call_add(graph, node, relay, &one);
	node = copy_add(graph, node, data, at + 32);
	mad_add(graph, node, data, 1, 1);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	fill_data(data, 0);
	for (unsigned i = 0; i < REPLAYS; i++)
		CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	MUST(one.n_calls == REPLAYS);
	CHECK(cuMemcpyDtoH(host, data, 8));
	MUST(host[0] == REPLAYS * 101 && host[1] == REPLAYS);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuMemFreeHost(pinned));
}

static void count(void *arg)
{
	++*(unsigned *)arg;
}

/* Branches of several graphs, on separate streams. */
static void side_by_side(void)
{
	static unsigned n_calls[GRAPHS][BRANCHES + 1];
	CUgraphNode branches[BRANCHES], join;
	CUgraphExec execs[GRAPHS];
	CUstream streams[GRAPHS];

	memset(n_calls, 0, sizeof(n_calls));
	for (unsigned g = 0; g < GRAPHS; g++) {
		CUgraph graph = NULL;

		CHECK(cuStreamCreate(&streams[g], CU_STREAM_NON_BLOCKING));
		CHECK(cuGraphCreate(&graph, 0));
		for (unsigned b = 0; b < BRANCHES; b++)
			branches[b] = call_add(graph, NULL, count, &n_calls[g][b]);
		CHECK(cuGraphAddEmptyNode(&join, graph, branches, BRANCHES));
		call_add(graph, join, count, &n_calls[g][BRANCHES]);
		CHECK(cuGraphInstantiate(&execs[g], graph, 0));
		CHECK(cuGraphDestroy(graph));
	}
	for (unsigned i = 0; i < REPLAYS / 3; i++)
		for (unsigned g = 0; g < GRAPHS; g++)
			CHECK(cuGraphLaunch(execs[g], streams[g]));
	/* Destroyed while they run. */
	for (unsigned g = 0; g < GRAPHS; g++)
		CHECK(cuGraphExecDestroy(execs[g]));
	CHECK(cuCtxSynchronize());
	for (unsigned g = 0; g < GRAPHS; g++) {
		for (unsigned b = 0; b <= BRANCHES; b++)
			MUST(n_calls[g][b] == REPLAYS / 3);
		CHECK(cuStreamDestroy(streams[g]));
	}
}

static void slowly(void *arg)
{
	usleep(20000);
	*(volatile unsigned *)arg = 1;
}

/* Captured between work of the stream; work after the launch waits for it. */
static void captured(void)
{
	static volatile unsigned flag;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUevent event = NULL;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(cuMemsetD32Async(data, 5, COUNT, stream));
	CHECK(cuLaunchHostFunc(stream, slowly, (void *)&flag));
	CHECK(cuMemsetD32Async(data, 6, COUNT, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		flag = 0;
		fill_data(data, 0);
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuEventRecord(event, stream));
		MUST(cuEventQuery(event) == CUDA_ERROR_NOT_READY || flag);
		CHECK(cuEventSynchronize(event));
		MUST(flag == 1);
		CHECK_DATA(data, 6, 0);
	}
	CHECK(cuEventDestroy(event));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static volatile unsigned may_go;

static void wait_for_leave(void *arg)
{
	(void)arg;
	while (!may_go)
		usleep(100);
}

/* An event inside a graph is done while the rest of the graph is still blocked. */
static void event_before_call(void)
{
	CUgraphNode node, record = NULL;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUevent event = NULL;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuGraphCreate(&graph, 0));
	node = mad_add(graph, NULL, data, 1, 1);
	CHECK(cuGraphAddEventRecordNode(&record, graph, &node, 1, event));
	call_add(graph, record, wait_for_leave, NULL);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		may_go = 0;
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuEventSynchronize(event));
		CHECK(cuEventQuery(event));
		EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
		may_go = 1;
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuEventQuery(event));
	}
	CHECK(cuEventRecord(event, stream));
	CHECK(cuEventSynchronize(event));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuEventDestroy(event));
}

static void stand_still(void *arg)
{
	(void)arg;
	printf(NAME ": running\n");
	fflush(stdout);
	for (;;)
		pause();
}

/* The graph also waits for semaphores that are not written yet. */
static void stuck(void)
{
	CUstreamBatchMemOpParams wait = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {.ctx = context, .count = 1, .paramArray = &wait};
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUgraphNode node;
	unsigned n = 0;

	fill_data(data, 0);
	wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	wait.waitValue.address = data;
	wait.waitValue.value = 77;
	wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	CHECK(cuGraphCreate(&graph, 0));
	node = call_add(graph, NULL, stand_still, NULL);
	node = call_add(graph, node, count, &n);
	CHECK(cuGraphAddBatchMemOpNode(&node, graph, &node, 1, &ops));
	wait.waitValue.value = 78;
	CHECK(cuGraphAddBatchMemOpNode(&node, graph, &node, 1, &ops));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 10; i++)
		CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
}

/* A node waits for a semaphore that is never written, and is changed meanwhile. */
static void changed(void)
{
	CUstreamBatchMemOpParams wait = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {.ctx = context, .count = 1, .paramArray = &wait};
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUgraphNode node;

	fill_data(data, 0);
	wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	wait.waitValue.address = data;
	wait.waitValue.value = 77;
	wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &ops));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (unsigned i = 0; i < 5; i++) {
		CHECK(cuGraphLaunch(exec, stream));
		wait.waitValue.value = 78 + i;
		CHECK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &ops));
	}
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	printf(NAME ": running\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	setup();
	if (argc > 1 && !strcmp(argv[1], "stuck"))
		stuck();
	if (argc > 1 && !strcmp(argv[1], "changed"))
		changed();
	/* For a while, until it is killed. */
	for (int rounds = argc > 2 ? atoi(argv[2]) : 1; rounds > 0; rounds--) {
		in_a_row();
		side_by_side();
		captured();
		event_before_call();
	}
	return finish();
}
