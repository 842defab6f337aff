/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONDITIONAL_CHILD_H
#define CONDITIONAL_CHILD_H

/*
 * For tests of conditional nodes: kernels that set a condition, a word of memory that other
 * kernels change, and graphs of them.
 */

#include "softgpu_child.h"

enum {
	BODIES_MAX = 8
};

static const char text[] =
	".version 8.0\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry set(.param .u64 handle, .param .u32 value)\n"
	"{\n"
	"	.reg .b32 %r<2>;\n	.reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [handle];\n	ld.param.u32 %r1, [value];\n"
	"	{\n	.param .b64 a;\n	.param .b32 b;\n"
	"	st.param.b64 [a], %rd1;\n	st.param.b32 [b], %r1;\n"
	"	call.uni cudaGraphSetConditional, (a, b);\n	}\n"
	"	ret;\n"
	"}\n"
	".visible .entry add(.param .u64 p, .param .u32 n)\n"
	"{\n"
	"	.reg .b32 %r<3>;\n	.reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [p];\n	ld.param.u32 %r1, [n];\n"
	"	atom.global.add.u32 %r2, [%rd1], %r1;\n"
	"	ret;\n"
	"}\n"
	".visible .entry countdown(.param .u64 p, .param .u64 handle)\n"
	"{\n"
	"	.reg .b32 %r<3>;\n	.reg .b64 %rd<3>;\n"
	"	ld.param.u64 %rd1, [p];\n	ld.param.u64 %rd2, [handle];\n"
	"	ld.global.u32 %r1, [%rd1];\n	sub.u32 %r2, %r1, 1;\n"
	"	st.global.u32 [%rd1], %r2;\n"
	"	{\n	.param .b64 a;\n	.param .b32 b;\n"
	"	st.param.b64 [a], %rd2;\n	st.param.b32 [b], %r2;\n"
	"	call.uni cudaGraphSetConditional, (a, b);\n	}\n"
	"	ret;\n"
	"}\n";

static CUcontext context;
static CUfunction set_kernel, add_kernel, countdown_kernel;
static CUdeviceptr word;
static CUgraph bodies[BODIES_MAX];

static _unused_ void open_all(void)
{
	CUmodule module;

	context = context_open();
	OK(CU(cuModuleLoadData)(&module, text));
	OK(CU(cuModuleGetFunction)(&set_kernel, module, "set"));
	OK(CU(cuModuleGetFunction)(&add_kernel, module, "add"));
	OK(CU(cuModuleGetFunction)(&countdown_kernel, module, "countdown"));
	OK(CU(cuMemAlloc)(&word, 4096));
}

static _unused_ void write_word(uint32_t value)
{
	OK(CU(cuMemcpyHtoD)(word, &value, sizeof(value)));
}

static _unused_ uint32_t read_word(void)
{
	uint32_t value;

	OK(CU(cuMemcpyDtoH)(&value, word, sizeof(value)));
	return value;
}

static _unused_ CUgraph graph_new(void)
{
	CUgraph graph;

	OK(CU(cuGraphCreate)(&graph, 0));
	return graph;
}

static _unused_ CUgraphConditionalHandle handle_new(CUgraph graph, unsigned value, unsigned flags)
{
	CUgraphConditionalHandle handle;

	OK(CU(cuGraphConditionalHandleCreate)(&handle, graph, context, value, flags));
	return handle;
}

static _unused_ CUgraphNode kernel_node(
	CUgraph graph, CUgraphNode after, CUfunction f, void **params)
{
	CUDA_KERNEL_NODE_PARAMS node_params = {.func = f,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUgraphNode node;

	OK(CU(cuGraphAddKernelNode)(&node, graph, &after, after != NULL, &node_params));
	return node;
}

static _unused_ CUgraphNode add_node(CUgraph graph, CUgraphNode after, unsigned n)
{
	void *params[] = {&word, &n};

	return kernel_node(graph, after, add_kernel, params);
}

static _unused_ CUgraphNode set_node(
	CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle, unsigned value)
{
	void *params[] = {&handle, &value};

	return kernel_node(graph, after, set_kernel, params);
}

static _unused_ CUgraphNode countdown_node(CUgraph graph, CUgraphConditionalHandle handle)
{
	void *params[] = {&word, &handle};

	return kernel_node(graph, NULL, countdown_kernel, params);
}

static _unused_ CUresult try_node(CUgraphNode *ret_node, CUgraph graph, CUgraphNode after,
	CUgraphConditionalHandle handle, CUgraphConditionalNodeType type, unsigned size,
	CUcontext node_context)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		.conditional = {.handle = handle, .type = type, .size = size, .ctx = node_context}};
	CUresult result =
		CU(cuGraphAddNode_v2)(ret_node, graph, &after, NULL, after != NULL, &params);

	for (unsigned i = 0; result == CUDA_SUCCESS && i < size && i < BODIES_MAX; i++)
		bodies[i] = params.conditional.phGraph_out[i];
	return result;
}

/* Its bodies are then in `bodies'. */
static _unused_ CUgraphNode cond_node(CUgraph graph, CUgraphNode after,
	CUgraphConditionalHandle handle, CUgraphConditionalNodeType type, unsigned size)
{
	CUgraphNode node;

	OK(try_node(&node, graph, after, handle, type, size, context));
	return node;
}

/* A graph with an IF whose condition holds at each launch; its body is in `bodies'. */
static _unused_ CUgraph if_graph(void)
{
	CUgraph graph = graph_new();

	cond_node(graph, NULL, handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT),
		CU_GRAPH_COND_TYPE_IF, 1);
	return graph;
}

static _unused_ CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
	return exec;
}

static _unused_ void expect_refused(CUgraph graph, CUresult result, CUgraphInstantiateResult detail)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUgraphExec exec;

	EXPECT(result, CU(cuGraphInstantiateWithParams)(&exec, graph, &params));
	EXPECT(detail, params.result_out);
}

/* Sets the word, launches, and returns the word. */
static _unused_ uint32_t run(CUgraphExec exec, uint32_t value)
{
	write_word(value);
	OK(CU(cuGraphLaunch)(exec, NULL));
	OK(CU(cuCtxSynchronize)());
	return read_word();
}

#endif
