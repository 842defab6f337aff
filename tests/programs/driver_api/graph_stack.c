/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs that are made while the stack of a thread is large, of kernels whose stack has no known
 * size, and launched when it may be smaller.
 *
 *   graph_stack graph|bursts
 *
 * After each line on its standard input the program takes its next step, and prints the step's
 * name:
 *
 *   made    graph: makes a graph and launches it. bursts: launches without waiting, as often as a
 *           server needs to make graphs of the launches
 *   again   launches the same
 *   ended   graph: ends the graph. bursts: nothing
 *
 * Runs: for a test of its own
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NAME "graph_stack"
#include "../helpers/driver_program.h"

enum {
	BURSTS = 50,
	BURST = 32 /* launches */
};

/* *cell += 1. The kernel would print if *cell were 0 then. */
static const char image[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b32 n) vprintf(.param .b64 format, .param .b64 values);\n"
	".global .align 1 .b8 text[4] = {46, 10, 0, 0};\n"
	".visible .entry count(.param .u64 cell)\n{\n"
	"	.reg .b32 %r<4>;\n	.reg .b64 %rd<4>;\n	.reg .pred %done;\n"
	"	ld.param.u64 %rd1, [cell];\n	cvta.to.global.u64 %rd2, %rd1;\n"
	"	ld.global.u32 %r1, [%rd2];\n	add.u32 %r1, %r1, 1;\n"
	"	st.global.u32 [%rd2], %r1;\n	setp.ne.u32 %done, %r1, 0;\n	@%done ret;\n"
	"	mov.u64 %rd3, text;\n	cvta.global.u64 %rd3, %rd3;\n"
	"	{\n	.param .b64 format;\n	.param .b64 values;\n	.param .b32 n;\n"
	"	st.param.b64 [format], %rd3;\n	st.param.b64 [values], 0;\n"
	"	call.uni (n), vprintf, (format, values);\n	ld.param.b32 %r3, [n];\n	}\n"
	"	ret;\n}\n";

static CUfunction count;
static CUstream stream;
static CUdeviceptr address;
static volatile uint32_t *cell;
static void *params[] = {&address};
static uint32_t expected;
static CUgraph graph;
static CUgraphExec exec;

static void step(const char *name)
{
	char line[16];

	printf("%s\n", name);
	fflush(stdout);
	MUST(fgets(line, sizeof(line), stdin) != NULL);
}

static void make_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS node = node_of(count);
	CUgraphNode kernel;

	node.kernelParams = params;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&kernel, graph, NULL, 0, &node));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
}

static void run(bool by_graph)
{
	for (unsigned i = 0; i < BURSTS; i++) {
		for (unsigned k = 0; k < BURST; k++)
			if (by_graph)
				CHECK(cuGraphLaunch(exec, stream));
			else
				CHECK(cuLaunchKernel(
					count, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		CHECK(cuStreamSynchronize(stream));
	}
	expected += BURSTS * BURST;
	MUST(*cell == expected);
}

static void open_all(void)
{
	CUcontext context;
	CUmodule module;
	void *pinned;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&count, module, "count"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc(&pinned, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
	cell = pinned;
	*cell = 0;
	CHECK(cuMemHostGetDevicePointer(&address, pinned, 0));
}

int main(int argc, char **argv)
{
	bool by_graph = argc > 1 && !strcmp(argv[1], "graph");

	open_all();
	step("opened");
	if (by_graph)
		make_graph();
	run(by_graph);
	step("made");
	run(by_graph);
	step("again");
	if (by_graph) {
		CHECK(cuGraphExecDestroy(exec));
		CHECK(cuGraphDestroy(graph));
	}
	step("ended");
	printf(NAME ": ok\n");
	return 0;
}
