/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conditional nodes: branches, loops and switches, one within the other, with kernels, copies,
 * fills and child graphs in their bodies; launched again, changed and updated.
 */

#define NAME "graph_conditional"
#include "../helpers/conditional.h"

static void branch(void)
{
	for (unsigned value = 0; value < 3; value++)
		for (unsigned size = 1; size <= 2; size++) {
			cudaGraph_t graph = graph_new();
			cudaGraphConditionalHandle handle = handle_plain(graph);
			cudaGraphNode_t node = set_node(graph, NULL, handle, value);

			node = cond_node(graph, node, handle, cudaGraphCondTypeIf, size);
			add_node(bodies[0], NULL, 10);
			if (size == 2)
				add_node(bodies[1], NULL, 200);
			add_node(graph, node, 1000);
			RUN_TWICE(graph, 1, value ? 1011 : size == 2 ? 1201 : 1001);
		}
}

/* The value comes from the device, and changes from launch to launch. */
static void asked(void)
{
	cudaGraph_t graph = graph_new();
	cudaGraphConditionalHandle handle = handle_plain(graph);
	cudaGraphNode_t node = word_node(graph, NULL, (void *)ask_kernel, handle);
	cudaGraphExec_t exec;

	cond_node(graph, node, handle, cudaGraphCondTypeSwitch, 5);
	for (int i = 0; i < 5; i++)
		add_node(bodies[i], NULL, 10 * (i + 1));
	exec = instantiate(graph);
	CHECK(cudaGraphDestroy(graph));
	for (int value = 0; value < 8; value++)
		RUN(exec, value, value < 5 ? value + 10 * (value + 1) : value);
	RUN(exec, -1, -1);
	CHECK(cudaGraphExecDestroy(exec));
}

static void loop(void)
{
	cudaGraph_t graph = graph_new();
	cudaGraphConditionalHandle handle = handle_new(graph, 1);
	cudaGraphExec_t exec;

	cond_node(graph, NULL, handle, cudaGraphCondTypeWhile, 1);
	word_node(bodies[0], NULL, (void *)countdown_kernel, handle);
	exec = instantiate(graph);
	RUN(exec, 10, 0);
	RUN(exec, 1, 0);
	RUN(exec, 500, 0);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));

	/* Without a true value at the start, the body does not run. */
	graph = graph_new();
	handle = handle_new(graph, 0);
	cond_node(graph, NULL, handle, cudaGraphCondTypeWhile, 1);
	word_node(bodies[0], NULL, (void *)countdown_kernel, handle);
	RUN_TWICE(graph, 10, 10);
}

/* A default is assigned by each launch. Without one, the value at the start is undefined. */
static void defaults(void)
{
	cudaGraph_t graph = graph_new();
	cudaGraphConditionalHandle handle = handle_new(graph, 0);
	cudaGraphNode_t node = cond_node(graph, NULL, handle, cudaGraphCondTypeIf, 1);

	add_node(bodies[0], NULL, 10);
	set_node(graph, node, handle, 1);
	RUN_TWICE(graph, 0, 0);
}

/* A loop in a branch, with handles of the outer graph and of the body. */
static void nested(void)
{
	for (unsigned value = 0; value < 2; value++) {
		cudaGraph_t graph = graph_new(), inner;
		cudaGraphConditionalHandle outer_handle = handle_new(graph, value), handle;
		cudaGraphNode_t node = cond_node(graph, NULL, outer_handle, cudaGraphCondTypeIf, 2);

		add_node(bodies[1], NULL, 3);
		inner = bodies[0];
		handle = handle_new(inner, 1);
		node = cond_node(inner, NULL, handle, cudaGraphCondTypeWhile, 1);
		word_node(bodies[0], NULL, (void *)countdown_kernel, handle);
		node = add_node(inner, node, 40);
		handle = handle_new(graph, 1);
		cond_node(inner, node, handle, cudaGraphCondTypeIf, 1);
		add_node(bodies[0], NULL, 2);
		RUN_TWICE(graph, 6, value ? 42 : 9);
	}
}

/* As deep as a client may. */
static void deep(void)
{
	cudaGraph_t graph = graph_new(), inner = graph;

	for (int depth = 0; depth < 128; depth++) {
		cond_node(inner, NULL, handle_new(inner, 1), cudaGraphCondTypeIf, 1);
		inner = bodies[0];
	}
	add_node(inner, NULL, 1);
	RUN_TWICE(graph, 0, 1);
}

/* A child graph in the body of a loop: its kernels know the loop's handle. */
static void children(void)
{
	cudaGraph_t graph = graph_new(), child = graph_new(), grandchild = graph_new();
	cudaGraphConditionalHandle handle = handle_new(graph, 1);
	cudaGraphNode_t node, added;

	cond_node(graph, NULL, handle, cudaGraphCondTypeWhile, 1);
	add_node(grandchild, NULL, -4);
	CHECK(cudaGraphAddChildGraphNode(&added, child, NULL, 0, grandchild));
	word_node(child, added, (void *)countdown_kernel, handle);
	CHECK(cudaGraphAddChildGraphNode(&node, bodies[0], NULL, 0, child));
	CHECK(cudaGraphDestroy(grandchild));
	CHECK(cudaGraphDestroy(child));
	RUN_TWICE(graph, 20, 0);
}

/* A fill, then copies between device memory and pinned memory, in a body. */
static void memory(void)
{
	cudaGraph_t graph = graph_new();
	cudaMemsetParams fill;
	cudaGraphNode_t node;
	int *pinned, *other;

	CHECK(cudaMallocHost(&pinned, 2 * sizeof(int)));
	CHECK(cudaMalloc(&other, sizeof(int)));
	pinned[0] = 77;
	pinned[1] = 0;
	memset(&fill, 0, sizeof(fill));
	fill.dst = other;
	fill.value = 5;
	fill.elementSize = 4;
	fill.width = 1;
	fill.height = 1;
	cond_node(graph, NULL, handle_new(graph, 1), cudaGraphCondTypeIf, 1);
	CHECK(cudaGraphAddMemsetNode(&node, bodies[0], NULL, 0, &fill));
	CHECK(cudaGraphAddMemcpyNode1D(
		&node, bodies[0], &node, 1, pinned + 1, other, 4, cudaMemcpyDeviceToHost));
	CHECK(cudaGraphAddMemcpyNode1D(
		&node, bodies[0], &node, 1, other, pinned, 4, cudaMemcpyHostToDevice));
	CHECK(cudaGraphAddMemcpyNode1D(
		&node, bodies[0], &node, 1, word, other, 4, cudaMemcpyDeviceToDevice));
	RUN_TWICE(graph, 0, 77);
	if (pinned[1] != 5)
		FAIL("the fill in a body left %d", pinned[1]);
	CHECK(cudaFree(other));
	CHECK(cudaFreeHost(pinned));
}

/* A branch whose bodies add `n' and 100 * n. */
static cudaGraph_t branch_new(
	unsigned value, int n, cudaGraphNode_t *ret_cond, cudaGraphNode_t *ret_added)
{
	cudaGraph_t graph = graph_new();

	*ret_cond = cond_node(graph, NULL, handle_new(graph, value), cudaGraphCondTypeIf, 2);
	*ret_added = add_node(bodies[0], NULL, n);
	add_node(bodies[1], NULL, 100 * n);
	return graph;
}

static void set_added(cudaGraphExec_t exec, cudaGraphNode_t node, int n)
{
	void *args[] = {&word, &n};
	cudaKernelNodeParams params = kernel_of((void *)add_kernel, args);

	CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &params));
}

static void changed(void)
{
	cudaGraphNode_t cond, added, other_cond, other_added;
	cudaGraph_t graph = branch_new(1, 1, &cond, &added);
	cudaGraph_t other = branch_new(0, 7, &other_cond, &other_added);
	cudaGraphExec_t exec = instantiate(graph);
	cudaGraphExecUpdateResultInfo info;

	RUN(exec, 0, 1);
	set_added(exec, added, 30);
	RUN(exec, 0, 30);
	CHECK(cudaGraphNodeSetEnabled(exec, added, 0));
	RUN(exec, 0, 0);
	CHECK(cudaGraphNodeSetEnabled(exec, added, 1));
	RUN(exec, 0, 30);

	/* The update takes the default value too; nodes of `graph' still name those of `exec'. */
	CHECK(cudaGraphExecUpdate(exec, other, &info));
	RUN(exec, 0, 700);
	CHECK(cudaGraphNodeSetEnabled(exec, added, 0));
	CHECK(cudaGraphExecUpdate(exec, graph, &info));
	RUN(exec, 0, 0);
	CHECK(cudaGraphNodeSetEnabled(exec, added, 1));
	RUN(exec, 0, 1);
	set_added(exec, added, 31);
	RUN(exec, 0, 31);
	CHECK(cudaGraphDestroy(other));
	CHECK(cudaGraphDestroy(graph));
	RUN(exec, 0, 31);
	CHECK(cudaGraphExecDestroy(exec));
}

/* Counts the word down to 0, then adds 3. */
static cudaGraph_t loop_new(unsigned value)
{
	cudaGraph_t graph = graph_new();
	cudaGraphConditionalHandle handle = handle_new(graph, value);
	cudaGraphNode_t node = cond_node(graph, NULL, handle, cudaGraphCondTypeWhile, 1);

	word_node(bodies[0], NULL, (void *)countdown_kernel, handle);
	add_node(graph, node, 3);
	return graph;
}

/*
 * Launches without a wait between them, in two streams: they run one after the other, also if
 * the default value changes between them.
 */
static void repeated(bool changes)
{
	cudaGraph_t graph = loop_new(1), other = loop_new(2);
	cudaGraphExec_t exec = instantiate(graph);
	cudaGraphExecUpdateResultInfo info;
	cudaStream_t side;
	int found = 5;

	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CHECK(cudaMemcpy(word, &found, sizeof(found), cudaMemcpyHostToDevice));
	for (int i = 0; i < 20; i++) {
		if (changes)
			CHECK(cudaGraphExecUpdate(exec, i % 4 < 2 ? graph : other, &info));
		CHECK(cudaGraphLaunch(exec, i % 2 ? side : stream));
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(&found, word, sizeof(found), cudaMemcpyDeviceToHost));
	if (found != 3)
		FAIL("after repeated launches the word is %d", found);
	CHECK(cudaStreamDestroy(side));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(other));
	CHECK(cudaGraphDestroy(graph));
}

static __global__ void spin_kernel(long long clocks)
{
	long long start = clock64();

	while (clock64() - start < clocks)
		;
}

/* Graphs with many nodes in bodies, each destroyed before or while it runs. */
static void large(void)
{
	spin_kernel<<<1, 1, 0, stream>>>(400000000);
	CHECK(cudaGetLastError());
	for (int i = 0; i < 12; i++) {
		cudaGraph_t graph = graph_new();
		cudaGraphNode_t node = NULL;
		cudaGraphExec_t exec;

		cond_node(graph, NULL, handle_new(graph, 1), cudaGraphCondTypeIf, 1);
		for (int k = 0; k < 1999; k++)
			CHECK(cudaGraphAddEmptyNode(&node, bodies[0], NULL, 0));
		add_node(bodies[0], NULL, 1);
		exec = instantiate(graph);
		CHECK(cudaGraphDestroy(graph));
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaGraphExecDestroy(exec));
	}
	CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double start = now_s();

	setup();
	for (long round = 0; round < options.rounds || now_s() - start < options.seconds; round++) {
		branch();
		asked();
		loop();
		defaults();
		nested();
		deep();
		children();
		memory();
		changed();
		repeated(false);
		repeated(true);
		large();
	}
	return finish();
}
