/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with an object of each kind: streams, an event, a graph, a module with a variable,
 * memory of the GPU and pinned memory. Each round uses all of them, and checks what they have from
 * the rounds before. `survivor --requests' has a round for each line of the standard input; "ready"
 * and "round N" tell how far it is.
 */

#include <stdbool.h>
#include <string.h>

#define NAME "survivor"
#include "../helpers/driver_program.h"

enum {
	WORDS = 32,
	BYTES = WORDS * 4,
	ROUNDS = 5
};

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .global .align 4 .u32 total = 100;\n"
			    ".visible .entry step(.param .u64 words)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n"
			    "	.reg .b32 %r<4>;\n"
			    "	.reg .b64 %d<4>;\n"
			    "	ld.param.u64 %d1, [words];\n"
			    "	mov.u32 %r1, %tid.x;\n"
			    "	mul.wide.u32 %d2, %r1, 4;\n"
			    "	add.u64 %d3, %d1, %d2;\n"
			    "	ld.global.u32 %r2, [%d3];\n"
			    "	add.u32 %r2, %r2, 1;\n"
			    "	st.global.u32 [%d3], %r2;\n"
			    "	setp.ne.u32 %p1, %r1, 0;\n"
			    "	@%p1 bra END;\n"
			    "	ld.global.u32 %r3, [total];\n"
			    "	add.u32 %r3, %r3, 1;\n"
			    "	st.global.u32 [total], %r3;\n"
			    "END:\n"
			    "	ret;\n"
			    "}\n";

static struct {
	CUdeviceptr words, total;
	unsigned *pinned;
	CUfunction step;
	CUstream first, second;
	CUevent between;
	CUgraphExec exec;
} have;

/* A kernel, and a copy of what it has written. */
static void make_graph(CUcontext context)
{
	CUDA_KERNEL_NODE_PARAMS kernel = node_of(have.step);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = have.words,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = have.pinned,
		.WidthInBytes = BYTES,
		.Height = 1,
		.Depth = 1};
	void *params[] = {&have.words};
	CUgraphNode first, second;
	CUgraph graph;

	kernel.blockDimX = WORDS;
	kernel.kernelParams = params;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&first, graph, NULL, 0, &kernel));
	CHECK(cuGraphAddMemcpyNode(&second, graph, &first, 1, &copy, context));
	CHECK(cuGraphInstantiate(&have.exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
}

static void make_all(CUcontext context)
{
	CUmodule module;

	CHECK(cuMemAlloc(&have.words, BYTES));
	CHECK(cuMemsetD32(have.words, 0, WORDS));
	CHECK(cuMemAllocHost((void **)&have.pinned, BYTES));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&have.step, module, "step"));
	CHECK(cuModuleGetGlobal(&have.total, NULL, module, "total"));
	CHECK(cuStreamCreate(&have.first, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&have.second, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&have.between, CU_EVENT_DISABLE_TIMING));
	make_graph(context);
	/* The streams do not wait for the fill. */
	CHECK(cuCtxSynchronize());
}

static void run_round(unsigned round)
{
	void *params[] = {&have.words};
	unsigned total = 0;

	memset(have.pinned, 0, BYTES);
	CHECK(cuEventQuery(have.between));
	CHECK(cuLaunchKernel(have.step, 1, 1, 1, WORDS, 1, 1, 0, have.first, params, NULL));
	CHECK(cuEventRecord(have.between, have.first));
	CHECK(cuStreamWaitEvent(have.second, have.between, 0));
	CHECK(cuGraphLaunch(have.exec, have.second));
	CHECK(cuStreamSynchronize(have.second));
	for (unsigned i = 0; i < WORDS; i++)
		MUST(have.pinned[i] == 2 * round);
	CHECK(cuMemcpyDtoH(&total, have.total, sizeof(total)));
	MUST(total == 100 + 2 * round);
}

int main(int argc, char **argv)
{
	const bool asks = argc > 1 && strcmp(argv[1], "--requests") == 0;
	CUcontext context;
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	make_all(context);
	run_round(1);
	if (asks)
		printf("ready\n");
	for (unsigned i = 2; asks ? fgets(line, sizeof(line), stdin) != NULL : i <= ROUNDS; i++) {
		run_round(i);
		if (asks)
			printf("round %u\n", i - 1);
	}
	printf(NAME ": ok\n");
	return 0;
}
