/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What invalidates a capture, and with which error: calls that wait or allocate, in
 * each mode and from another thread; work of the default stream; events from outside
 * and of another capture; ends on another stream; addresses without memory.
 */

#define NAME "capture_errors"
#include <pthread.h>

#include "../helpers/graph_driver.h"

static void store(CUstream to)
{
	CHECK(cuMemsetD32Async(data, 1, COUNT, to));
}

static CUstreamCaptureStatus status_of(CUstream of)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	CHECK(cuStreamIsCapturing(of, &status));
	return status;
}

/* The capture is invalid, and its end returns that error. */
static void end_lost(CUstream of)
{
	CUgraph graph = (CUgraph)&graph;

	MUST(status_of(of) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(data, 1, COUNT, of));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(of, &graph));
	MUST(graph == NULL);
	MUST(status_of(of) == CU_STREAM_CAPTURE_STATUS_NONE);
	/* The stream works as before. */
	store(of);
	CHECK(cuStreamSynchronize(of));
}

/* Ends the capture in any state. */
static void end_any(CUstream of)
{
	CUgraph graph = NULL;

	(void)cuStreamEndCapture(of, &graph);
	if (graph)
		CHECK(cuGraphDestroy(graph));
	MUST(status_of(of) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static void end_well(CUstream of, size_t n_nodes)
{
	CUgraph graph = NULL;
	size_t n = 0;

	CHECK(cuStreamEndCapture(of, &graph));
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == n_nodes);
	CHECK(cuGraphDestroy(graph));
}

static void states(void)
{
	CUgraph graph = NULL;

	EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE,
		cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	end_any(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	MUST(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	store(stream);
	end_well(stream, 1);
	MUST(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static void waits(void)
{
	CUevent event = NULL;
	float ms;

	CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
	end_lost(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(stream));
	end_lost(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuEventRecord(event, stream));
	/* This question does no harm. */
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventElapsedTime(&ms, event, event));
	MUST(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
	/* No graph can have it now. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventQuery(event));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventSynchronize(event));
	end_lost(stream);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventQuery(event));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventSynchronize(event));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuEventRecord(event, stream));
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(event));
	end_lost(stream);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventElapsedTime(&ms, event, event));
	/* An event recorded outside the capture is an ordinary event. */
	CHECK(cuEventRecord(event, stream));
	CHECK(cuEventSynchronize(event));
	CHECK(cuEventDestroy(event));
}

static void *allocate(void *arg)
{
	CUdeviceptr memory = 0;

	CHECK(cuCtxSetCurrent(context));
	*(CUresult *)arg = cuMemAlloc(&memory, 4096);
	if (memory)
		CHECK(cuMemFree(memory));
	return NULL;
}

static CUresult allocate_elsewhere(void)
{
	CUresult result = CUDA_ERROR_UNKNOWN;
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, allocate, &result) == 0);
	pthread_join(thread, NULL);
	return result;
}

/* A replay would not repeat the allocation. */
static void modes(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr memory = 0;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, 4096));
	end_lost(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate_elsewhere());
	end_lost(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	store(stream);
	CHECK(allocate_elsewhere());
	end_well(stream, 1);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, 4096));
	end_lost(stream);
	/* To free nothing is no exception. */
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFree(0));
	end_lost(stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuMemFree(0));
	CHECK(cuMemAlloc(&memory, 4096));
	end_well(stream, 1);
	CHECK(cuMemFree(memory));
	/* A thread may change its own mode. */
	CHECK(cuThreadExchangeStreamCaptureMode(&mode));
	MUST(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	store(stream);
	CHECK(cuMemAlloc(&memory, 4096));
	end_well(stream, 1);
	CHECK(cuThreadExchangeStreamCaptureMode(&mode));
	MUST(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK(cuMemFree(memory));
}

/* The default stream would have to wait for a blocking stream, whatever that captures. */
static void default_stream(void)
{
	CUstreamCaptureStatus status;
	CUstream blocking = NULL;

	CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CHECK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(blocking);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
	MUST(status_of(blocking) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(data, 2, COUNT, NULL));
	end_lost(blocking);
	CHECK(cuStreamDestroy(blocking));
	/* A non-blocking stream does not conflict. */
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuMemsetD32Async(data, 2, COUNT, NULL));
	end_well(stream, 1);
	CHECK(cuStreamSynchronize(NULL));
}

static void forks(void)
{
	CUevent fork = NULL, other_fork = NULL;
	CUstream side = NULL;
	CUgraph graph = NULL;

	CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&other_fork, CU_EVENT_DISABLE_TIMING));
	/* Work on another stream that does not join. */
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuEventRecord(fork, stream));
	CHECK(cuStreamWaitEvent(side, fork, 0));
	store(side);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
	MUST(graph == NULL && status_of(side) == CU_STREAM_CAPTURE_STATUS_NONE);
	/* A capture ends on the stream where it began. */
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuEventRecord(fork, stream));
	CHECK(cuStreamWaitEvent(side, fork, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &graph));
	end_lost(stream);
	/* An event from before the capture. */
	store(side);
	CHECK(cuEventRecord(fork, side));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, fork, 0));
	end_lost(stream);
	/* Two captures cannot be merged. */
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuStreamBeginCapture(side, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(side);
	CHECK(cuEventRecord(other_fork, side));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(stream, other_fork, 0));
	end_any(stream);
	end_any(side);
	CHECK(cuEventDestroy(fork));
	CHECK(cuEventDestroy(other_fork));
	CHECK(cuStreamDestroy(side));
}

static void *end_elsewhere(void *arg)
{
	CUgraph graph = NULL;

	CHECK(cuCtxSetCurrent(context));
	*(CUresult *)arg = cuStreamEndCapture(stream, &graph);
	if (graph)
		CHECK(cuGraphDestroy(graph));
	return NULL;
}

static void other_thread(void)
{
	CUresult result = CUDA_ERROR_UNKNOWN;
	CUgraph graph;
	pthread_t thread;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	store(stream);
	MUST(pthread_create(&thread, NULL, end_elsewhere, &result) == 0);
	pthread_join(thread, NULL);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, result);
	/* The capture has ended all the same. */
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	MUST(pthread_create(&thread, NULL, end_elsewhere, &result) == 0);
	pthread_join(thread, NULL);
	CHECK(result);
}

/* Queries of a stream's captured nodes, and changes of its dependencies. */
static void information(void)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *tips = NULL;
	CUgraph graph = NULL;
	CUgraphNode first, list[4];
	cuuint64_t id = 0, same = 0;
	size_t n = 0;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tips, NULL, &n));
	MUST(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph && n == 0);
	store(stream);
	CHECK(cuStreamGetCaptureInfo(stream, &status, &same, &graph, &tips, NULL, &n));
	MUST(id == same && n == 1);
	first = tips[0];
	store(stream);
	/* A node that the test adds, and both nodes before the next one. */
	CHECK(cuGraphAddEmptyNode(&list[0], graph, &first, 1));
	CHECK(cuStreamUpdateCaptureDependencies(
		stream, list, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	store(stream);
	CHECK(cuStreamGetCaptureInfo(stream, &status, &same, &graph, &tips, NULL, &n));
	MUST(n == 1);
	n = 4;
	CHECK(cuGraphNodeGetDependencies(tips[0], list, NULL, &n));
	MUST(n == 2);
	CHECK(cuStreamUpdateCaptureDependencies(
		stream, &first, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	store(stream);
	CHECK(cuStreamGetCaptureInfo(stream, &status, &same, &graph, &tips, NULL, &n));
	n = 4;
	CHECK(cuGraphNodeGetDependencies(tips[0], list, NULL, &n));
	MUST(n == 1 && list[0] == first);
	n = 0;
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 5);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphDestroy(graph));
}

/* A capture into a graph of the program: the end need not return it. */
static void into_own_graph(void)
{
	CUgraph graph, ended = NULL;
	size_t n = 0;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuStreamBeginCaptureToGraph(
		stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuStreamEndCapture(stream, NULL));
	MUST(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 1);
	CHECK(cuStreamBeginCaptureToGraph(
		stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	store(stream);
	CHECK(cuStreamEndCapture(stream, &ended));
	MUST(ended == graph);
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 2);
	CHECK(cuGraphDestroy(graph));
}

/* The memory of a fill is checked at instantiation only: cuDNN probes for it in this way. */
static void nobodys(void)
{
	const CUdeviceptr wild = 0x80;
	CUgraphExec exec;
	CUgraph graph;
	size_t n = 0;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(wild, 0, 64, stream));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemsetD8Async(wild, 0, 1 << 18, stream));
	CHECK(cuMemsetD2D32Async(wild, 256, 1, 4, 4, stream));
	CHECK(cuMemsetD8Async(wild, 0, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(wild + 2, 0, 4, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(data, wild, 64, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 2);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	setup();
	states();
	waits();
	modes();
	default_stream();
	forks();
	other_thread();
	information();
	into_own_graph();
	nobodys();
	return finish();
}
