/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONDITIONAL_H
#define CONDITIONAL_H

/*
 * Shared by the programs about conditional nodes: a word on the device, kernels that change it
 * and set conditions, and nodes of graphs. Each program defines NAME.
 */

#include "program.h"

enum {
	BODIES_MAX = 64
};

static __global__ void add_kernel(int *word, int n)
{
	atomicAdd(word, n);
}

static __global__ void set_kernel(cudaGraphConditionalHandle handle, unsigned value)
{
	cudaGraphSetConditional(handle, value);
}

/* Subtracts one; the condition holds as long as something is left. */
static __global__ void countdown_kernel(int *word, cudaGraphConditionalHandle handle)
{
	*word -= 1;
	cudaGraphSetConditional(handle, *word > 0);
}

/* The condition is the word. */
static __global__ void ask_kernel(const int *word, cudaGraphConditionalHandle handle)
{
	cudaGraphSetConditional(handle, (unsigned)*word);
}

static int *word;
static cudaStream_t stream;
static cudaGraph_t bodies[BODIES_MAX]; /* of the last conditional node */

static inline void setup(void)
{
	CHECK(cudaMalloc(&word, 64));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

static inline int finish(void)
{
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(word));
	printf(NAME ": ok\n");
	return 0;
}

static inline cudaGraph_t graph_new(void)
{
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	return graph;
}

/* With a default value for each launch. */
static inline cudaGraphConditionalHandle handle_new(cudaGraph_t graph, unsigned value)
{
	cudaGraphConditionalHandle handle;

	CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, cudaGraphCondAssignDefault));
	return handle;
}

static inline cudaGraphConditionalHandle handle_plain(cudaGraph_t graph)
{
	cudaGraphConditionalHandle handle;

	CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
	return handle;
}

static inline cudaGraphNodeParams node_params(enum cudaGraphNodeType type)
{
	cudaGraphNodeParams params = {type};

	return params;
}

/* Adds a node behind `after', which may be NULL. */
static inline cudaGraphNode_t node_add(
	cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNodeParams *params)
{
	cudaGraphNode_t node;

	CHECK(cudaGraphAddNode(&node, graph, &after, NULL, after ? 1 : 0, params));
	return node;
}

static inline cudaKernelNodeParams kernel_of(void *kernel, void **args)
{
	cudaKernelNodeParams params;

	memset(&params, 0, sizeof(params));
	params.func = kernel;
	params.gridDim = dim3(1);
	params.blockDim = dim3(1);
	params.kernelParams = args;
	return params;
}

static inline cudaGraphNode_t kernel_node(
	cudaGraph_t graph, cudaGraphNode_t after, void *kernel, void **args)
{
	cudaKernelNodeParams params = kernel_of(kernel, args);
	cudaGraphNode_t node;

	CHECK(cudaGraphAddKernelNode(&node, graph, &after, after ? 1 : 0, &params));
	return node;
}

static inline cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNode_t after, int n)
{
	void *args[] = {&word, &n};

	return kernel_node(graph, after, (void *)add_kernel, args);
}

static inline cudaGraphNode_t set_node(
	cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle, unsigned value)
{
	void *args[] = {&handle, &value};

	return kernel_node(graph, after, (void *)set_kernel, args);
}

static inline cudaGraphNode_t word_node(
	cudaGraph_t graph, cudaGraphNode_t after, void *kernel, cudaGraphConditionalHandle handle)
{
	void *args[] = {&word, &handle};

	return kernel_node(graph, after, kernel, args);
}

static inline cudaError_t cond_try(cudaGraphNode_t *ret_node, cudaGraph_t graph,
	cudaGraphNode_t after, cudaGraphConditionalHandle handle,
	enum cudaGraphConditionalNodeType type, unsigned size)
{
	cudaGraphNodeParams params = node_params(cudaGraphNodeTypeConditional);
	cudaError_t error;

	params.conditional.handle = handle;
	params.conditional.type = type;
	params.conditional.size = size;
	error = cudaGraphAddNode(ret_node, graph, &after, NULL, after ? 1 : 0, &params);
	for (unsigned i = 0; error == cudaSuccess && i < size && i < BODIES_MAX; i++)
		bodies[i] = params.conditional.phGraph_out[i];
	return error;
}

/* Its bodies are then in `bodies'. */
static inline cudaGraphNode_t cond_node(cudaGraph_t graph, cudaGraphNode_t after,
	cudaGraphConditionalHandle handle, enum cudaGraphConditionalNodeType type, unsigned size)
{
	cudaGraphNode_t node;

	CHECK(cond_try(&node, graph, after, handle, type, size));
	return node;
}

static inline cudaGraphExec_t instantiate(cudaGraph_t graph)
{
	cudaGraphExec_t exec;

	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

/* Launches with the word at `before', which must then be `after'. */
static inline void run(cudaGraphExec_t exec, int before, int after, int line)
{
	int found;

	CHECK(cudaMemcpyAsync(word, &before, sizeof(before), cudaMemcpyHostToDevice, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaMemcpyAsync(&found, word, sizeof(found), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	if (found != after)
		FAIL("line %d: the word is %d, not %d", line, found, after);
}

#define RUN(exec, before, after) run((exec), (before), (after), __LINE__)

/* Instantiates, runs twice, and destroys both. */
#define RUN_TWICE(graph, before, after)                                                            \
	do {                                                                                       \
		cudaGraphExec_t exec_ = instantiate(graph);                                        \
                                                                                                   \
		RUN(exec_, before, after);                                                         \
		RUN(exec_, before, after);                                                         \
		CHECK(cudaGraphExecDestroy(exec_));                                                \
		CHECK(cudaGraphDestroy(graph));                                                    \
	} while (0)

#endif
