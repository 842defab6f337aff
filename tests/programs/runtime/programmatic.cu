/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels that begin before the kernels that they wait for have ended: programmatic stream
 * serialization, events that a launch records, and edges of graphs with ports, captured and made
 * by hand. Each kernel waits for the ones before with cudaGridDependencySynchronize().
 *
 * Builds with: -arch=sm_90
 */

#include "../helpers/program.h"

#define NAME "programmatic"
#define MUST(what) must((what), #what, __LINE__)
#define EXPECT(error, call) must((call) == (error) && (cudaGetLastError(), true), #call, __LINE__)

enum {
	THREADS = 128,
	COUNT = 4096,
	STEPS = 12,
	PATIENCE_MS = 300,
	TRIES = 10
};

/* How a launch marks where others may go on. */
enum mark {
	MARK_PROGRAMMATIC,
	MARK_AT_START,
	MARK_COMPLETION,
	N_MARKS
};

static cudaStream_t stream, other;
static cudaEvent_t event, joined;
static unsigned *data[2], *host;

/* In memory of the host: what the overlapping kernels say. */
struct talk {
	volatile int is_called, was_heard, is_done;
};

static struct talk *talk;
static unsigned wanted[2][COUNT], *copied;

/* Of the edges from a launch with such an event. */
static const unsigned edge_ports[] = {
	cudaGraphKernelNodePortProgrammatic, cudaGraphKernelNodePortLaunchCompletion};

static void must(bool is_so, const char *what, int line)
{
	if (is_so)
		return;
	printf(NAME ": line %d: %s\n", line, what);
	exit(1);
}

/* The kernel behind may begin at once; it reads what this one writes. */
__global__ void step(unsigned *out, const unsigned *in, unsigned add)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	cudaTriggerProgrammaticLaunchCompletion();
	cudaGridDependencySynchronize();
	out[i] = in[(i * 7 + 1) % COUNT] * 3 + add;
}

__device__ unsigned long long now_ns()
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* Waits for a call, of a kernel that begins before this one ends, or of the host. */
__global__ void listen(struct talk *at)
{
	unsigned long long begun = now_ns();

	while (!at->is_called && now_ns() - begun < PATIENCE_MS * 1000000ull)
		;
	at->was_heard = at->is_called;
	at->is_done = 1;
}

__global__ void call(struct talk *at)
{
	at->is_called = 1;
}

static cudaLaunchConfig_t config_of(cudaStream_t to, unsigned n_blocks, unsigned n_threads,
	cudaLaunchAttribute *attributes, unsigned n_attributes)
{
	cudaLaunchConfig_t config = {};

	config.gridDim = dim3(n_blocks);
	config.blockDim = dim3(n_threads);
	config.stream = to;
	config.attrs = attributes;
	config.numAttrs = n_attributes;
	return config;
}

static cudaLaunchAttribute serialized(void)
{
	cudaLaunchAttribute attribute = {};

	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	return attribute;
}

static cudaLaunchAttribute marked(enum mark mark, cudaEvent_t with)
{
	cudaLaunchAttribute attribute = {};

	if (mark == MARK_COMPLETION) {
		attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
		attribute.val.launchCompletionEvent.event = with;
		return attribute;
	}
	attribute.id = cudaLaunchAttributeProgrammaticEvent;
	attribute.val.programmaticEvent.event = with;
	attribute.val.programmaticEvent.triggerAtBlockStart = mark == MARK_AT_START;
	return attribute;
}

static void launch_step(
	cudaStream_t to, unsigned number, cudaLaunchAttribute *attributes, unsigned n_attributes)
{
	cudaLaunchConfig_t config =
		config_of(to, COUNT / THREADS, THREADS, attributes, n_attributes);

	CHECK(cudaLaunchKernelEx(
		&config, step, data[(number + 1) % 2], (const unsigned *)data[number % 2], number));
}

static void begin(void)
{
	for (unsigned i = 0; i < COUNT; i++)
		host[i] = i;
	CHECK(cudaMemcpy(data[0], host, COUNT * sizeof(*host), cudaMemcpyHostToDevice));
}

static void check_steps(const char *what)
{
	static unsigned got[COUNT];

	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(got, data[STEPS % 2], sizeof(got), cudaMemcpyDeviceToHost));
	memcpy(wanted[0], host, sizeof(wanted[0]));
	for (unsigned number = 0; number < STEPS; number++)
		for (unsigned i = 0; i < COUNT; i++)
			wanted[(number + 1) % 2][i] =
				wanted[number % 2][(i * 7 + 1) % COUNT] * 3 + number;
	for (unsigned i = 0; i < COUNT; i++) {
		if (got[i] == wanted[STEPS % 2][i])
			continue;
		printf(NAME ": %s: element %u is %u, not %u\n", what, i, got[i],
			wanted[STEPS % 2][i]);
		exit(1);
	}
}

/* Every third step is launched without the attribute. */
static void launch_serialized(void)
{
	cudaLaunchAttribute attribute = serialized();

	for (unsigned number = 0; number < STEPS; number++)
		launch_step(stream, number, &attribute, number % 3 < 2);
}

/* The steps change between two streams, which wait for each other's events. */
static void launch_marked(enum mark mark)
{
	for (unsigned number = 0; number < STEPS; number++) {
		cudaStream_t to = number % 2 ? other : stream;
		cudaLaunchAttribute attribute = marked(mark, event);

		launch_step(to, number, &attribute, 1);
		CHECK(cudaStreamWaitEvent(number % 2 ? stream : other, event, 0));
	}
	CHECK(cudaEventRecord(joined, other));
	CHECK(cudaStreamWaitEvent(stream, joined, 0));
}

static void try_streams(void)
{
	for (unsigned round = 0; round < 5; round++) {
		begin();
		launch_serialized();
		check_steps("serialized");
		for (int mark = 0; mark < MARK_COMPLETION; mark++) {
			begin();
			launch_marked((enum mark)mark);
			check_steps(mark ? "marked at the start" : "marked");
		}
	}
}

/* Whether the kernel of `other', or the host, went on before the kernel of `stream' had ended. */
static bool try_overlap(enum mark mark, bool is_by_host)
{
	cudaLaunchAttribute attribute = marked(mark, event);
	cudaLaunchConfig_t config = config_of(stream, 1, 1, &attribute, 1);

	memset(talk, 0, sizeof(*talk));
	CHECK(cudaLaunchKernelEx(&config, listen, talk));
	if (is_by_host) {
		CHECK(cudaEventSynchronize(event));
		talk->is_called = 1;
	} else {
		CHECK(cudaStreamWaitEvent(other, event, 0));
		call<<<1, 1, 0, other>>>(talk);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(other));
		MUST(talk->is_called);
	}
	CHECK(cudaStreamSynchronize(stream));
	MUST(talk->is_done);
	CHECK(cudaEventQuery(event));
	return talk->was_heard;
}

/*
 * Nothing has to overlap. But a driver that never lets the host or a stream go on at a completion
 * event, as driver 580 does, has not recorded the event within the launch.
 */
static void try_concurrency(void)
{
	for (int is_by_host = 0; is_by_host < 2; is_by_host++) {
		int n_tries = 0;

		while (!try_overlap(MARK_COMPLETION, is_by_host))
			MUST(++n_tries < TRIES);
	}
	(void)try_overlap(MARK_PROGRAMMATIC, false);
	(void)try_overlap(MARK_AT_START, false);
}

static cudaError_t launch_with_event(enum mark mark, cudaEvent_t with, int flags)
{
	cudaLaunchAttribute attribute = marked(mark, with);
	cudaLaunchConfig_t config = config_of(stream, 1, 1, &attribute, 1);

	if (mark == MARK_COMPLETION)
		attribute.val.launchCompletionEvent.flags = flags;
	else
		attribute.val.programmaticEvent.flags = flags;
	return cudaLaunchKernelEx(&config, call, talk);
}

static void try_wrong_events(void)
{
	unsigned kinds[] = {cudaEventDefault, cudaEventDisableTiming | cudaEventInterprocess};
	cudaEvent_t wrong;

	for (int mark = 0; mark < N_MARKS; mark++) {
		enum mark by = (enum mark)mark;

		for (unsigned i = 0; i < 2; i++) {
			CHECK(cudaEventCreateWithFlags(&wrong, kinds[i]));
			EXPECT(cudaErrorNotSupported, launch_with_event(by, wrong, 0));
			CHECK(cudaEventDestroy(wrong));
		}
		EXPECT(cudaErrorInvalidResourceHandle, launch_with_event(by, NULL, 0));
		EXPECT(cudaErrorIllegalState,
			launch_with_event(by, event, cudaEventRecordExternal));
		EXPECT(cudaErrorInvalidValue, launch_with_event(by, event, 2));
	}
}

static cudaGraphExec_t make(cudaGraph_t graph)
{
	cudaGraphExec_t exec = NULL;

	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

static void run_steps(cudaGraph_t graph, const char *what)
{
	cudaGraphExec_t exec = make(graph);

	for (unsigned round = 0; round < 3; round++) {
		begin();
		CHECK(cudaGraphLaunch(exec, stream));
		check_steps(what);
	}
	CHECK(cudaGraphExecDestroy(exec));
}

/* Counts the graph's edges of that kind. */
static size_t count_edges(cudaGraph_t graph, unsigned port, unsigned type)
{
	cudaGraphNode_t from[4 * STEPS], to[4 * STEPS];
	cudaGraphEdgeData found[4 * STEPS];
	size_t n = 4 * STEPS, n_such = 0, n_all = 0;

	CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &n_all));
	CHECK(cudaGraphGetEdges(graph, from, to, found, &n));
	MUST(n == n_all);
	for (size_t i = 0; i < n; i++) {
		MUST(found[i].to_port == 0);
		n_such += found[i].from_port == port && found[i].type == type;
	}
	if (port > 0)
		EXPECT(cudaErrorLossyQuery, cudaGraphGetEdges(graph, from, to, NULL, &n));
	return n_such;
}

static void try_captured_serialization(void)
{
	cudaGraph_t graph = NULL;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	launch_serialized();
	CHECK(cudaStreamEndCapture(stream, &graph));
	MUST(count_edges(graph, cudaGraphKernelNodePortProgrammatic,
		     cudaGraphDependencyTypeProgrammatic) == STEPS - STEPS / 3 - 1);
	run_steps(graph, "captured serialization");
	CHECK(cudaGraphDestroy(graph));
}

/* Only edges between kernels become programmatic, and a full edge counts more. */
static void try_captured_joins(void)
{
	cudaLaunchAttribute attribute = marked(MARK_PROGRAMMATIC, event);
	cudaLaunchAttribute serial = serialized();
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	launch_step(stream, 0, &attribute, 1);
	CHECK(cudaEventRecord(joined, stream));
	CHECK(cudaStreamWaitEvent(other, event, 0));
	CHECK(cudaStreamWaitEvent(other, joined, 0));
	launch_step(other, 1, NULL, 0);
	CHECK(cudaMemsetAsync(data[0], 0, 4, stream));
	CHECK(cudaEventRecord(joined, other));
	CHECK(cudaStreamWaitEvent(stream, joined, 0));
	launch_step(stream, 2, &serial, 1);
	CHECK(cudaStreamEndCapture(stream, &graph));
	MUST(count_edges(graph, cudaGraphKernelNodePortProgrammatic,
		     cudaGraphDependencyTypeProgrammatic) == 1);
	MUST(count_edges(graph, 0, 0) == 3);
	exec = make(graph);
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

/* As driver 580: the copy has the edge, and waits for the end of the kernel. */
static void try_captured_copy(enum mark mark)
{
	cudaLaunchAttribute attribute = marked(mark, event);
	cudaGraph_t graph = NULL;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	for (unsigned number = 0; number < STEPS; number++)
		launch_step(stream, number, &attribute, number == STEPS - 1);
	CHECK(cudaStreamWaitEvent(other, event, 0));
	CHECK(cudaMemcpyAsync(
		copied, data[STEPS % 2], COUNT * sizeof(*copied), cudaMemcpyDeviceToHost, other));
	CHECK(cudaEventRecord(joined, other));
	CHECK(cudaStreamWaitEvent(stream, joined, 0));
	CHECK(cudaStreamEndCapture(stream, &graph));
	MUST(count_edges(graph, edge_ports[mark], cudaGraphDependencyTypeProgrammatic) == 1);
	run_steps(graph, "captured copy");
	for (unsigned i = 0; i < COUNT; i++)
		MUST(copied[i] == wanted[STEPS % 2][i]);
	CHECK(cudaGraphDestroy(graph));
}

/* The edges with which the next node of the stream will wait. */
static cudaGraphEdgeData edge_of(cudaStream_t of)
{
	enum cudaStreamCaptureStatus status;
	const cudaGraphNode_t *nodes = NULL;
	const cudaGraphEdgeData *edges = NULL;
	size_t n = 0;

	CHECK(cudaStreamGetCaptureInfo(of, &status, NULL, NULL, &nodes, &edges, &n));
	MUST(status == cudaStreamCaptureStatusActive && n == 1 && edges);
	return edges[0];
}

static void try_captured_events(void)
{
	for (int mark = 0; mark < MARK_COMPLETION; mark++) {
		cudaLaunchAttribute attribute = marked((enum mark)mark, event);
		cudaGraph_t graph = NULL;

		CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
		launch_step(stream, 0, &attribute, 1);
		CHECK(cudaStreamWaitEvent(other, event, 0));
		MUST(edge_of(stream).from_port == 0 && edge_of(stream).type == 0);
		MUST(edge_of(other).from_port == edge_ports[mark]);
		MUST(edge_of(other).type == cudaGraphDependencyTypeProgrammatic);
		for (unsigned number = 1; number < STEPS; number++)
			launch_step(other, number, NULL, 0);
		CHECK(cudaEventRecord(joined, other));
		CHECK(cudaStreamWaitEvent(stream, joined, 0));
		CHECK(cudaStreamEndCapture(stream, &graph));
		MUST(count_edges(graph, edge_ports[mark], cudaGraphDependencyTypeProgrammatic) ==
			1);
		run_steps(graph, "captured event");
		CHECK(cudaGraphDestroy(graph));
		try_captured_copy((enum mark)mark);
	}
}

/* A completion event only orders the begins of kernels: here the order of the writes is free. */
static void try_captured_completion(void)
{
	cudaLaunchAttribute attribute = marked(MARK_COMPLETION, event);
	cudaLaunchConfig_t config = config_of(stream, 1, 1, &attribute, 1);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	CHECK(cudaLaunchKernelEx(&config, listen, talk));
	CHECK(cudaStreamWaitEvent(other, event, 0));
	call<<<1, 1, 0, other>>>(talk);
	CHECK(cudaEventRecord(joined, other));
	CHECK(cudaStreamWaitEvent(stream, joined, 0));
	CHECK(cudaStreamEndCapture(stream, &graph));
	MUST(count_edges(graph, cudaGraphKernelNodePortLaunchCompletion,
		     cudaGraphDependencyTypeDefault) == 1);
	exec = make(graph);
	memset(talk, 0, sizeof(*talk));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	MUST(talk->is_done && talk->is_called);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static cudaGraphNode_t add_step(cudaGraph_t graph, unsigned number)
{
	void *params[] = {&data[(number + 1) % 2], &data[number % 2], &number};
	cudaKernelNodeParams node = {};
	cudaGraphNode_t made = NULL;

	node.func = (void *)step;
	node.gridDim = dim3(COUNT / THREADS);
	node.blockDim = dim3(THREADS);
	node.kernelParams = params;
	CHECK(cudaGraphAddKernelNode(&made, graph, NULL, 0, &node));
	return made;
}

static void try_wrong_edges(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to)
{
	static const struct {
		unsigned char from_port, to_port, type;
	} wrong[] = {{0, 0, 1}, {0, 0, 2}, {1, 0, 0}, {1, 0, 2}, {3, 0, 0}, {3, 0, 1}, {1, 1, 1},
		{0, 1, 0}};
	cudaGraphEdgeData edge = {};
	cudaGraphNode_t empty = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		edge.from_port = wrong[i].from_port;
		edge.to_port = wrong[i].to_port;
		edge.type = wrong[i].type;
		EXPECT(cudaErrorInvalidValue,
			cudaGraphAddDependencies(graph, &from, &to, &edge, 1));
	}
	CHECK(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
	edge.from_port = edge.type = 1;
	edge.to_port = 0;
	EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &from, &empty, &edge, 1));
	EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &empty, &to, &edge, 1));
	/* Two nodes have one edge. */
	CHECK(cudaGraphAddDependencies(graph, &from, &to, &edge, 1));
	EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &from, &to, NULL, 1));
	CHECK(cudaGraphRemoveDependencies(graph, &from, &to, NULL, 1));
	CHECK(cudaGraphDestroyNode(empty));
	CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &n));
	MUST(n == 0);
}

/* Programmatic edges by both ports, and full edges, one after the other. */
static void try_made_edges(void)
{
	cudaGraphNode_t nodes[STEPS];
	cudaGraph_t graph = NULL;

	CHECK(cudaGraphCreate(&graph, 0));
	for (unsigned number = 0; number < STEPS; number++)
		nodes[number] = add_step(graph, number);
	try_wrong_edges(graph, nodes[0], nodes[1]);
	for (unsigned number = 1; number < STEPS; number++) {
		cudaGraphEdgeData edge = {}, got = {};
		cudaGraphNode_t before = NULL;
		size_t n = 1;

		edge.from_port = number % 3;
		edge.type = number % 3 > 0;
		CHECK(cudaGraphAddDependencies(
			graph, &nodes[number - 1], &nodes[number], &edge, 1));
		CHECK(cudaGraphNodeGetDependencies(nodes[number], &before, &got, &n));
		MUST(n == 1 && before == nodes[number - 1] && !memcmp(&got, &edge, sizeof(got)));
	}
	run_steps(graph, "made edges");
	CHECK(cudaGraphDestroy(graph));
}

int main(void)
{
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
	CHECK(cudaMalloc(&data[0], COUNT * sizeof(unsigned)));
	CHECK(cudaMalloc(&data[1], COUNT * sizeof(unsigned)));
	CHECK(cudaHostAlloc(&talk, sizeof(*talk), 0));
	CHECK(cudaHostAlloc(&copied, COUNT * sizeof(*copied), 0));
	host = (unsigned *)malloc(COUNT * sizeof(*host));
	MUST(host);
	try_streams();
	try_concurrency();
	try_wrong_events();
	try_captured_serialization();
	try_captured_joins();
	try_captured_events();
	try_captured_completion();
	try_made_edges();
	CHECK(cudaFree(data[0]));
	CHECK(cudaFree(data[1]));
	CHECK(cudaFreeHost(talk));
	CHECK(cudaFreeHost(copied));
	free(host);
	printf(NAME ": ok\n");
	return 0;
}
