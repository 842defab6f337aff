/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Work of streams captured into graphs and replayed: in a row, forked and joined by events, into
 * an existing graph, inside another capture, with streams that are destroyed meanwhile. Each
 * replay uses the current contents of its inputs.
 */

#define NAME "graph_capture"
#include "../helpers/program.h"

enum {
	COUNT = 5000,
	REPLAYS = 20,
	MANY = 400
};

static __global__ void add(int *data, int count, int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] += by;
}

static __global__ void combine(int *out, const int *a, const int *b, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		out[i] = 3 * a[i] + b[i];
}

static void fail(const char *what)
{
	printf(NAME ": %s\n", what);
	exit(1);
}

static int blocks(void)
{
	return (COUNT + 127) / 128;
}

struct work {
	int *in[2], *out;     /* on the device */
	int *pinned, *result; /* pinned */
	cudaStream_t stream;
};

static void work_make(struct work *work)
{
	for (int i = 0; i < 2; i++)
		CHECK(cudaMalloc(&work->in[i], COUNT * sizeof(int)));
	CHECK(cudaMalloc(&work->out, COUNT * sizeof(int)));
	CHECK(cudaMallocHost(&work->pinned, COUNT * sizeof(int)));
	CHECK(cudaMallocHost(&work->result, COUNT * sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&work->stream, cudaStreamNonBlocking));
}

static void work_free(struct work *work)
{
	CHECK(cudaStreamDestroy(work->stream));
	CHECK(cudaFreeHost(work->result));
	CHECK(cudaFreeHost(work->pinned));
	CHECK(cudaFree(work->out));
	for (int i = 0; i < 2; i++)
		CHECK(cudaFree(work->in[i]));
}

static void check_result(const struct work *work, int expected_first, int step, const char *what)
{
	for (int i = 0; i < COUNT; i++)
		if (work->result[i] != expected_first + step * i) {
			printf(NAME ": %s: element %d is %d, not %d\n", what, i, work->result[i],
				expected_first + step * i);
			exit(1);
		}
}

/* Upload, two kernels and a fill on two streams, download. */
static void record_fork(
	const struct work *work, cudaStream_t side, cudaEvent_t fork, cudaEvent_t join)
{
	CHECK(cudaMemcpyAsync(work->in[0], work->pinned, COUNT * sizeof(int),
		cudaMemcpyHostToDevice, work->stream));
	CHECK(cudaEventRecord(fork, work->stream));
	CHECK(cudaStreamWaitEvent(side, fork, 0));
	CHECK(cudaMemsetAsync(work->in[1], 0, COUNT * sizeof(int), side));
	add<<<blocks(), 128, 0, side>>>(work->in[1], COUNT, 7);
	add<<<blocks(), 128, 0, work->stream>>>(work->in[0], COUNT, 1);
	CHECK(cudaEventRecord(join, side));
	CHECK(cudaStreamWaitEvent(work->stream, join, 0));
	combine<<<blocks(), 128, 0, work->stream>>>(work->out, work->in[0], work->in[1], COUNT);
	CHECK(cudaMemcpyAsync(work->result, work->out, COUNT * sizeof(int), cudaMemcpyDeviceToHost,
		work->stream));
}

static void fork_and_join(void)
{
	cudaStreamCaptureStatus status;
	cudaEvent_t fork, join;
	cudaGraphExec_t exec;
	struct work work;
	cudaStream_t side;
	cudaGraph_t graph;
	size_t n = 0;

	work_make(&work);
	CHECK(cudaStreamCreate(&side));
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	memset(work.result, 0, COUNT * sizeof(int));
	CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeGlobal));
	record_fork(&work, side, fork, join);
	CHECK(cudaStreamIsCapturing(side, &status));
	if (status != cudaStreamCaptureStatusActive)
		fail("the other stream did not join the capture");
	CHECK(cudaStreamEndCapture(work.stream, &graph));
	CHECK(cudaStreamIsCapturing(side, &status));
	if (status != cudaStreamCaptureStatusNone)
		fail("a stream went on capturing");
	CHECK(cudaStreamSynchronize(work.stream));
	if (work.result[0] != 0)
		fail("what was captured was done");
	CHECK(cudaGraphGetNodes(graph, NULL, &n));
	if (n != 6)
		fail("the graph has not a node for each piece of work");
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int replay = 0; replay < REPLAYS; replay++) {
		for (int i = 0; i < COUNT; i++)
			work.pinned[i] = i + replay;
		CHECK(cudaGraphLaunch(exec, replay % 2 ? side : work.stream));
		CHECK(cudaStreamSynchronize(replay % 2 ? side : work.stream));
		check_result(&work, 3 * (replay + 1) + 7, 3, "fork and join");
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaEventDestroy(fork));
	CHECK(cudaEventDestroy(join));
	CHECK(cudaStreamDestroy(side));
	work_free(&work);
}

/* Launches in a row without a wait, then other work after them. */
static void many_launches(void)
{
	cudaGraphExec_t exec;
	struct work work;
	cudaGraph_t graph;

	work_make(&work);
	CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < 10; i++)
		add<<<blocks(), 128, 0, work.stream>>>(work.out, COUNT, i);
	CHECK(cudaStreamEndCapture(work.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaMemsetAsync(work.out, 0, COUNT * sizeof(int), work.stream));
	for (int i = 0; i < MANY; i++)
		CHECK(cudaGraphLaunch(exec, work.stream));
	add<<<blocks(), 128, 0, work.stream>>>(work.out, COUNT, 1);
	CHECK(cudaMemcpyAsync(
		work.result, work.out, COUNT * sizeof(int), cudaMemcpyDeviceToHost, work.stream));
	/* Destroyed while it runs. */
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamSynchronize(work.stream));
	check_result(&work, 45 * MANY + 1, 0, "many launches");
	work_free(&work);
}

/* On blocking streams, launches and the default stream take turns. */
static void default_stream_rules(void)
{
	cudaStream_t blocking;
	cudaGraphExec_t exec;
	struct work work;
	cudaGraph_t graph;

	work_make(&work);
	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 50; i++)
		add<<<blocks(), 128, 0, blocking>>>(work.out, COUNT, 1);
	CHECK(cudaStreamEndCapture(blocking, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 10; i++) {
		CHECK(cudaMemset(work.out, 0, COUNT * sizeof(int)));
		CHECK(cudaGraphLaunch(exec, blocking));
		add<<<blocks(), 128>>>(work.out, COUNT, 100);
		CHECK(cudaGraphLaunch(exec, 0));
		CHECK(cudaMemcpy(
			work.result, work.out, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
		check_result(&work, 200, 0, "default stream");
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(blocking));
	work_free(&work);
}

/* The graph reads and writes the program's pageable memory when it runs. */
static void pageable_memory(void)
{
	static int in[COUNT], out[COUNT];
	cudaGraphExec_t exec;
	struct work work;
	cudaGraph_t graph;

	work_make(&work);
	CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaMemcpyAsync(work.out, in, sizeof(in), cudaMemcpyHostToDevice, work.stream));
	add<<<blocks(), 128, 0, work.stream>>>(work.out, COUNT, 5);
	CHECK(cudaMemcpyAsync(out, work.out, sizeof(out), cudaMemcpyDeviceToHost, work.stream));
	CHECK(cudaStreamEndCapture(work.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int replay = 0; replay < REPLAYS; replay++) {
		for (int i = 0; i < COUNT; i++)
			in[i] = i * replay;
		CHECK(cudaGraphLaunch(exec, work.stream));
		CHECK(cudaStreamSynchronize(work.stream));
		for (int i = 0; i < COUNT; i++)
			if (out[i] != i * replay + 5)
				fail("pageable memory was not copied when the graph ran");
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	work_free(&work);
}

/* A capture continues in a graph that has nodes. */
static void continued(void)
{
	cudaGraphExec_t exec;
	cudaGraphNode_t empty;
	cudaGraph_t graph;
	struct work work;

	work_make(&work);
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
	CHECK(cudaStreamBeginCaptureToGraph(
		work.stream, graph, &empty, NULL, 1, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemsetAsync(work.out, 0, COUNT * sizeof(int), work.stream));
	add<<<blocks(), 128, 0, work.stream>>>(work.out, COUNT, 20);
	CHECK(cudaMemcpyAsync(
		work.result, work.out, COUNT * sizeof(int), cudaMemcpyDeviceToHost, work.stream));
	CHECK(cudaStreamEndCapture(work.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		memset(work.result, 0, COUNT * sizeof(int));
		CHECK(cudaGraphLaunch(exec, work.stream));
		CHECK(cudaStreamSynchronize(work.stream));
		check_result(&work, 20, 0, "continued");
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	work_free(&work);
}

/* Graphs cannot be launched into captures; the stream works afterwards. */
static void launched_in_capture(void)
{
	cudaGraph_t inner, outer = NULL;
	cudaGraphExec_t exec;
	struct work work;

	work_make(&work);
	CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeGlobal));
	add<<<blocks(), 128, 0, work.stream>>>(work.out, COUNT, 2);
	CHECK(cudaStreamEndCapture(work.stream, &inner));
	CHECK(cudaGraphInstantiate(&exec, inner, 0));
	CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeGlobal));
	if (cudaGraphLaunch(exec, work.stream) != cudaErrorStreamCaptureUnsupported)
		fail("a graph was launched into a capture");
	(void)cudaGetLastError();
	if (cudaStreamEndCapture(work.stream, &outer) == cudaSuccess)
		CHECK(cudaGraphDestroy(outer));
	(void)cudaGetLastError();
	CHECK(cudaGraphLaunch(exec, work.stream));
	CHECK(cudaStreamSynchronize(work.stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(inner));
	work_free(&work);
}

/* The end of a capture after one of its streams was destroyed. */
static cudaError_t end_with(
	const struct work *work, cudaStream_t side, cudaEvent_t join, bool joins, size_t expected)
{
	cudaGraph_t graph = NULL;
	cudaError_t error;
	size_t n = 0;

	CHECK(cudaStreamDestroy(side));
	if (joins)
		CHECK(cudaStreamWaitEvent(work->stream, join, 0));
	add<<<blocks(), 128, 0, work->stream>>>(work->out, COUNT, 1);
	CHECK(cudaGetLastError());
	error = cudaStreamEndCapture(work->stream, &graph);
	(void)cudaGetLastError();
	if (error != cudaSuccess)
		return error;
	CHECK(cudaGraphGetNodes(graph, NULL, &n));
	if (n != expected)
		FAIL("a graph has %zu nodes, not %zu", n, expected);
	CHECK(cudaGraphDestroy(graph));
	return cudaSuccess;
}

static cudaStream_t side_begin(const struct work *work, cudaEvent_t fork)
{
	cudaStream_t side;

	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CHECK(cudaStreamBeginCapture(work->stream, cudaStreamCaptureModeGlobal));
	add<<<blocks(), 128, 0, work->stream>>>(work->out, COUNT, 1);
	CHECK(cudaEventRecord(fork, work->stream));
	CHECK(cudaStreamWaitEvent(side, fork, 0));
	return side;
}

/* A stream may be destroyed if the capture has its work, or gets it by an event; not otherwise. */
static void destroyed_streams(void)
{
	cudaStreamCaptureStatus status;
	cudaEvent_t fork, join;
	struct work work;
	cudaStream_t side, origin;

	work_make(&work);
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	side = side_begin(&work, fork);
	if (end_with(&work, side, join, false, 2) != cudaSuccess)
		fail("a stream without work invalidated the capture that it left");
	side = side_begin(&work, fork);
	add<<<blocks(), 128, 0, side>>>(work.in[0], COUNT, 1);
	if (end_with(&work, side, join, false, 0) != cudaErrorStreamCaptureUnjoined)
		fail("work of a destroyed stream was not missed");
	side = side_begin(&work, fork);
	add<<<blocks(), 128, 0, side>>>(work.in[0], COUNT, 1);
	CHECK(cudaEventRecord(join, side));
	CHECK(cudaStreamWaitEvent(work.stream, join, 0));
	if (end_with(&work, side, join, false, 3) != cudaSuccess)
		fail("a stream that had joined again invalidated the capture");
	side = side_begin(&work, fork);
	add<<<blocks(), 128, 0, side>>>(work.in[0], COUNT, 1);
	CHECK(cudaEventRecord(join, side));
	if (end_with(&work, side, join, true, 3) != cudaSuccess)
		fail("an event of a destroyed stream could not be joined");
	/* A capture ends with the stream that began it. */
	origin = work.stream;
	side = side_begin(&work, fork);
	CHECK(cudaStreamDestroy(origin));
	CHECK(cudaStreamIsCapturing(side, &status));
	if (status != cudaStreamCaptureStatusNone)
		fail("a stream captures for one that was destroyed");
	add<<<blocks(), 128, 0, side>>>(work.in[0], COUNT, 1);
	CHECK(cudaStreamSynchronize(side));
	work.stream = side;
	CHECK(cudaEventDestroy(fork));
	CHECK(cudaEventDestroy(join));
	work_free(&work);
}

/* Like NCCL: a stream that continues from a node added by the program needs no join. */
static void own_nodes(void)
{
	cudaStreamCaptureStatus status;
	cudaGraphNode_t node;
	cudaGraph_t graph;
	cudaEvent_t fork;
	struct work work;
	cudaStream_t side;
	size_t n;

	work_make(&work);
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	side = side_begin(&work, fork);
	CHECK(cudaStreamGetCaptureInfo(side, &status, NULL, &graph, NULL, NULL, NULL));
	CHECK(cudaGraphAddEventRecordNode(&node, graph, NULL, 0, fork));
	CHECK(cudaStreamUpdateCaptureDependencies(
		side, &node, NULL, 1, cudaStreamSetCaptureDependencies));
	CHECK(cudaStreamEndCapture(work.stream, &graph));
	CHECK(cudaGraphGetNodes(graph, NULL, &n));
	if (n != 2)
		FAIL("a graph has %zu nodes, not 2", n);
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(side));
	CHECK(cudaEventDestroy(fork));
	work_free(&work);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;

	for (long round = 0; round < options.rounds || now_s() < until; round++) {
		fork_and_join();
		many_launches();
		default_stream_rules();
		pageable_memory();
		continued();
		launched_in_capture();
		destroyed_streams();
		own_nodes();
	}
	printf(NAME ": ok\n");
	return 0;
}
