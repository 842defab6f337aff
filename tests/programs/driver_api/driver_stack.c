/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the results of kernels while the stack of a thread changes, for which the driver moves the
 * local memory of the context.
 *
 *   driver_stack WAY [SECONDS]
 *
 * launches a kernel with local memory, waits for it and checks its result, again and again. WAY:
 *
 *   launch    a plain launch
 *   set       a graph whose kernel is set before each launch
 *   held      the same with a write behind the kernel, which the program waits for
 *   kept      a graph that is never set again
 *   between   like `held', but the thread itself changes the stack between setting and launching
 *
 * Except in `between', another thread changes the stack meanwhile. Prints `WAY rounds=N changes=M'.
 *
 * Runs: for a test of its own
 */

#define NAME "driver_stack"
#include "../helpers/driver_program.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum {
	THREADS = 128,
	WORDS = 128, /* of local memory of each thread: less than the smaller stack */
	STACK_LOW = 1024,
	STACK_HIGH = 24576,
	LIMIT_S = 5 /* of one round */
};

/* Each thread stores thread, thread + 1, ... in n words of local memory, and their sum in out. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry sum(.param .u64 out, .param .u32 n)\n"
			    "{\n"
			    "	.local .align 4 .b8 words[512];\n"
			    "	.reg .pred %p<3>;\n"
			    "	.reg .b32 %r<8>;\n"
			    "	.reg .b64 %rd<6>;\n"
			    "	ld.param.u64 %rd1, [out];\n"
			    "	ld.param.u32 %r1, [n];\n"
			    "	cvta.to.global.u64 %rd1, %rd1;\n"
			    "	mov.u32 %r2, %tid.x;\n"
			    "	mov.u64 %rd2, words;\n"
			    "	mov.u32 %r3, 0;\n"
			    "STORE:\n"
			    "	add.u32 %r4, %r2, %r3;\n"
			    "	st.local.u32 [%rd2], %r4;\n"
			    "	add.u64 %rd2, %rd2, 4;\n"
			    "	add.u32 %r3, %r3, 1;\n"
			    "	setp.lt.u32 %p1, %r3, %r1;\n"
			    "	@%p1 bra STORE;\n"
			    "	mov.u64 %rd2, words;\n"
			    "	mov.u32 %r3, 0;\n"
			    "	mov.u32 %r5, 0;\n"
			    "LOAD:\n"
			    "	ld.local.u32 %r4, [%rd2];\n"
			    "	add.u32 %r5, %r5, %r4;\n"
			    "	add.u64 %rd2, %rd2, 4;\n"
			    "	add.u32 %r3, %r3, 1;\n"
			    "	setp.lt.u32 %p2, %r3, %r1;\n"
			    "	@%p2 bra LOAD;\n"
			    "	mul.wide.u32 %rd3, %r2, 4;\n"
			    "	add.u64 %rd4, %rd1, %rd3;\n"
			    "	st.global.u32 [%rd4], %r5;\n"
			    "	ret;\n"
			    "}\n";

static CUcontext context;
static CUfunction sum;
static CUstream stream;
static CUdeviceptr out, word;
static volatile uint32_t *results;
static volatile uint64_t *written;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode kernel_node, write_node;
static uint32_t n = WORDS;
static void *params[] = {&out, &n};
static unsigned n_changes;
static atomic_bool is_over;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void change_stack(void)
{
	CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, n_changes++ % 2 ? STACK_LOW : STACK_HIGH));
}

static void *changer(void *unused)
{
	(void)unused;
	CHECK(cuCtxSetCurrent(context));
	while (!is_over)
		change_stack();
	return NULL;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(void)
{
	CUDA_KERNEL_NODE_PARAMS node = node_of(sum);

	node.blockDimX = THREADS;
	node.kernelParams = params;
	return node;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS write_params(CUstreamBatchMemOpParams *op, uint64_t value)
{
	*op = (CUstreamBatchMemOpParams){.writeValue = {
						 .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
						 .address = word,
						 .value64 = value,
					 }};
	return (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = context, .count = 1, .paramArray = op};
}

static void make_graph(bool has_write)
{
	CUDA_KERNEL_NODE_PARAMS node = kernel_params();
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS write = write_params(&op, 0);

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&kernel_node, graph, NULL, 0, &node));
	if (has_write)
		CHECK(cuGraphAddBatchMemOpNode(&write_node, graph, &kernel_node, 1, &write));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
}

static void set_graph(bool has_write, uint64_t round)
{
	CUDA_KERNEL_NODE_PARAMS node = kernel_params();
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS write = write_params(&op, round);

	CHECK(cuGraphExecKernelNodeSetParams(exec, kernel_node, &node));
	if (has_write)
		CHECK(cuGraphExecBatchMemOpNodeSetParams(exec, write_node, &write));
}

static void wait_for_write(uint64_t round)
{
	double deadline = now_s() + LIMIT_S;

	while (*written != round)
		if (now_s() > deadline) {
			CHECK(cuStreamQuery(stream));
			printf(NAME ": round %llu has no end\n", (unsigned long long)round);
			exit(1);
		}
}

static void launch(const char *way, uint64_t round)
{
	bool has_write = !strcmp(way, "held") || !strcmp(way, "between");

	if (!strcmp(way, "launch")) {
		CHECK(cuLaunchKernel(sum, 1, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
	} else {
		if (strcmp(way, "kept") != 0)
			set_graph(has_write, round);
		if (!strcmp(way, "between") && round % 16 == 0)
			change_stack();
		CHECK(cuGraphLaunch(exec, stream));
	}
	if (has_write)
		wait_for_write(round);
	else
		CHECK(cuStreamSynchronize(stream));
}

static void check_results(uint64_t round)
{
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		uint32_t expected = n * thread + n * (n - 1) / 2;

		if (results[thread] != expected) {
			printf(NAME ": round %llu: thread %u has %u, not %u\n",
				(unsigned long long)round, thread, results[thread], expected);
			exit(1);
		}
		results[thread] = 0;
	}
}

static void open_all(const char *way)
{
	CUmodule module;
	void *pinned;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&sum, module, "sum"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc(&pinned, 8192, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(pinned, 0, 8192);
	results = pinned;
	written = (uint64_t *)((char *)pinned + 4096);
	CHECK(cuMemHostGetDevicePointer(&out, pinned, 0));
	word = out + 4096;
	if (strcmp(way, "launch") != 0)
		make_graph(!strcmp(way, "held") || !strcmp(way, "between"));
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "launch";
	double end = now_s() + (argc > 2 ? atof(argv[2]) : 1);
	pthread_t thread;
	uint64_t round = 0;

	open_all(way);
	if (strcmp(way, "between") != 0)
		MUST(pthread_create(&thread, NULL, changer, NULL) == 0);
	while (now_s() < end) {
		launch(way, ++round);
		check_results(round);
	}
	is_over = true;
	if (strcmp(way, "between") != 0)
		MUST(pthread_join(thread, NULL) == 0);
	printf("%s rounds=%llu changes=%u\n", way, (unsigned long long)round, n_changes);
	return 0;
}
