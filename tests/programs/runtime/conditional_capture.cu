/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conditional nodes and stream capture: a node made in the middle of a capture, and bodies that
 * are captured.
 */

#define NAME "conditional_capture"
#include "../helpers/conditional.h"

static cudaStream_t side;

/* The graph of the capture in `stream', and the node on which its next work depends, or NULL. */
static cudaGraph_t captured(cudaGraphNode_t *ret_tip)
{
	enum cudaStreamCaptureStatus status;
	const cudaGraphNode_t *tips;
	cudaGraph_t graph;
	size_t n;

	CHECK(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &tips, NULL, &n));
	if (status != cudaStreamCaptureStatusActive || n > 1)
		FAIL("the capture has status %d and %zu tips", status, n);
	*ret_tip = n == 1 ? tips[0] : NULL;
	return graph;
}

/* The stream's next work comes after the node. */
static void continue_behind(cudaGraphNode_t node)
{
	CHECK(cudaStreamUpdateCaptureDependencies(
		stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
}

/* The kernel that ends a loop may be missing if a launch in a capture failed. */
static void check_launches(void)
{
	CHECK(cudaGetLastError());
}

static void body_begin(cudaGraph_t body)
{
	CHECK(cudaStreamBeginCaptureToGraph(
		side, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
}

static void body_end(cudaGraph_t body)
{
	cudaGraph_t ended;

	check_launches();
	CHECK(cudaStreamEndCapture(side, &ended));
	if (ended != body)
		FAIL("the capture of a body ended with another graph");
}

static cudaGraph_t capture_end(void)
{
	cudaGraph_t graph;

	check_launches();
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

/* A handle made, and a node added, between kernels that are captured. */
static void branch(void)
{
	for (int value = 0; value < 2; value++) {
		cudaGraphConditionalHandle handle;
		cudaGraphNode_t tip;
		cudaGraph_t graph;

		CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
		add_kernel<<<1, 1, 0, stream>>>(word, 1);
		graph = captured(&tip);
		CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
		set_kernel<<<1, 1, 0, stream>>>(handle, value);
		graph = captured(&tip);
		continue_behind(cond_node(graph, tip, handle, cudaGraphCondTypeIf, 2));
		for (int i = 0; i < 2; i++) {
			body_begin(bodies[i]);
			add_kernel<<<1, 1, 0, side>>>(word, i ? 20 : 10);
			body_end(bodies[i]);
		}
		add_kernel<<<1, 1, 0, stream>>>(word, 1000);
		if (capture_end() != graph)
			FAIL("the capture ended with another graph");
		RUN_TWICE(graph, 0, value ? 1011 : 1021);
	}
}

/* A loop whose body has two streams, which fork and join. */
static void loop(void)
{
	cudaGraphConditionalHandle handle;
	cudaEvent_t forked, joined;
	cudaStream_t third;
	cudaGraphNode_t tip;
	cudaGraph_t graph;

	CHECK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	graph = captured(&tip);
	handle = handle_new(graph, 1);
	continue_behind(cond_node(graph, tip, handle, cudaGraphCondTypeWhile, 1));
	body_begin(bodies[0]);
	CHECK(cudaEventRecord(forked, side));
	CHECK(cudaStreamWaitEvent(third, forked, 0));
	add_kernel<<<1, 1, 0, third>>>(word + 1, 2);
	add_kernel<<<1, 1, 0, side>>>(word, -1);
	CHECK(cudaEventRecord(joined, third));
	CHECK(cudaStreamWaitEvent(side, joined, 0));
	countdown_kernel<<<1, 1, 0, side>>>(word, handle);
	body_end(bodies[0]);
	CHECK(cudaMemcpyAsync(word, word + 1, sizeof(int), cudaMemcpyDeviceToDevice, stream));
	CHECK(cudaMemsetAsync(word + 1, 0, sizeof(int), stream));
	graph = capture_end();
	CHECK(cudaMemsetAsync(word, 0, 2 * sizeof(int), stream));
	RUN_TWICE(graph, 10, 10);
	CHECK(cudaEventDestroy(joined));
	CHECK(cudaEventDestroy(forked));
	CHECK(cudaStreamDestroy(third));
}

/* A body that is captured into twice: the second capture goes on behind the first. */
static void twice(void)
{
	cudaGraph_t graph = graph_new(), body;
	size_t n = 1;
	cudaGraphNode_t first;

	cond_node(graph, NULL, handle_new(graph, 1), cudaGraphCondTypeIf, 1);
	body = bodies[0];
	body_begin(body);
	CHECK(cudaMemsetAsync(word, 0, sizeof(int), side));
	body_end(body);
	CHECK(cudaGraphGetNodes(body, &first, &n));
	CHECK(cudaStreamBeginCaptureToGraph(
		side, body, &first, NULL, 1, cudaStreamCaptureModeThreadLocal));
	add_kernel<<<1, 1, 0, side>>>(word, 8);
	body_end(body);
	RUN_TWICE(graph, 3, 8);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double start = now_s();

	setup();
	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	for (long round = 0; round < options.rounds || now_s() - start < options.seconds; round++) {
		branch();
		loop();
		twice();
	}
	CHECK(cudaStreamDestroy(side));
	return finish();
}
