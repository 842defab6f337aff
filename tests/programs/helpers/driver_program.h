/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_PROGRAM_H
#define DRIVER_PROGRAM_H

/*
 * Checks for programs of the driver API. Each program first defines NAME, which begins each
 * line of its output.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

/* An image with one kernel, `nothing', which has no parameters. */
#define IMAGE_OF_NOTHING                                                                           \
	".version 7.0\n"                                                                           \
	".target sm_75\n"                                                                          \
	".address_size 64\n"                                                                       \
	".visible .entry nothing()\n"                                                              \
	"{\n"                                                                                      \
	"	ret;\n"                                                                                  \
	"}\n"

/* A kernel, `spin', which ends when the 32-bit value at its parameter is not 0. */
#define ENTRY_OF_SPIN                                                                              \
	".visible .entry spin(.param .u64 word)\n"                                                 \
	"{\n"                                                                                      \
	"	.reg .pred %p<2>;\n"                                                                     \
	"	.reg .b64 %d<2>;\n"                                                                      \
	"	.reg .b32 %r<2>;\n"                                                                      \
	"	ld.param.u64 %d1, [word];\n"                                                             \
	"AGAIN:\n"                                                                                 \
	"	ld.volatile.global.u32 %r1, [%d1];\n"                                                    \
	"	setp.eq.u32 %p1, %r1, 0;\n"                                                              \
	"	@%p1 bra AGAIN;\n"                                                                       \
	"	ret;\n"                                                                                  \
	"}\n"

#define CHECK(call) check((call), #call, __LINE__)
#define EXPECT(result, call) check_is((call), (result), #call, __LINE__)
#define MUST(condition) must((condition), #condition, __LINE__)

static inline void check(CUresult result, const char *what, int line)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	printf(NAME ": line %d: %s: %s (%d)\n", line, what, name, result);
	exit(1);
}

static inline void check_is(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static inline void must(int is_so, const char *what, int line)
{
	if (is_so)
		return;
	printf(NAME ": line %d: not so: %s\n", line, what);
	exit(1);
}

/* A node of one thread, whose kernel has no parameters. */
static inline CUDA_KERNEL_NODE_PARAMS node_of(CUfunction function)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = function,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1};
}

/* Adds a conditional node (IF) to a graph, with so many nodes of a kernel in its body. */
static inline void add_conditional(
	CUgraph graph, CUcontext context, CUfunction function, unsigned n_nodes)
{
	const CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNodeParams node_params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphConditionalHandle handle;
	CUgraphNode node;

	CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
	node_params.conditional.handle = handle;
	node_params.conditional.type = CU_GRAPH_COND_TYPE_IF;
	node_params.conditional.size = 1;
	node_params.conditional.ctx = context;
	CHECK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &node_params));
	for (unsigned i = 0; i < n_nodes; i++)
		CHECK(cuGraphAddKernelNode(
			&node, node_params.conditional.phGraph_out[0], NULL, 0, &params));
}

/* Links a text, and discards the result. */
static inline CUresult link_text(const char *text, size_t size)
{
	CUlinkState state;
	CUresult result;
	void *image;

	CHECK(cuLinkCreate(0, NULL, NULL, &state));
	CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)text, size, "text", 0, NULL, NULL));
	result = cuLinkComplete(state, &image, NULL);
	CHECK(cuLinkDestroy(state));
	return result;
}

static inline void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	printf(NAME ": not so: %s\n", what);
	exit(1);
}

#endif
