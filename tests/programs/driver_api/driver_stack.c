/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the results of kernels while the stack of a thread changes, for which the driver moves the
 * local memory of the context.
 *
 *   driver_stack WAY [SECONDS [PAUSE_US]]
 *
 * launches kernels with local memory, waits for them and checks their results, again and again. The
 * ways, with `large' for a larger limit of the stack than at the start:
 *
 *   launch      plain launches
 *   set         a graph whose kernels are set before each launch
 *   held        the same with a write behind the kernels, which the program waits for
 *   between     like `held', but the thread itself changes the stack between setting and launching
 *   set_large   like `set', but the graph is made while the stack is large
 *   held_large  like `held', but the graph is made while the stack is large
 *   swap_large  like `held_large', but the graph is made of kernels without local memory
 *   kept        a graph that is never set
 *   kept_large  the same, but the graph is made while the stack is large
 *   once_large  a graph that is set once, while the stack is large
 *
 * Except in `between', another thread changes the stack meanwhile, with a pause after each change.
 * Prints `WAY rounds=N changes=M', or which calls have not returned.
 *
 * Runs: for a test of its own
 */

#define NAME "driver_stack"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

enum {
	KERNELS = 3, /* of the graph */
	THREADS = 128,
	WORDS = 128, /* of local memory of each thread: less than the smaller stack */
	STACK_LOW = 1024,
	STACK_HIGH = 24576,
	LIMIT_S = 5, /* of one round */
	HANG_S = 15  /* a call that is late by this much hangs */
};

/* The calls that the two threads are in. */
static const char *volatile launching, *volatile changing;

/* Makes a call, which is `in' one of the two threads. */
#define CALL(in, call) ((in) = #call, CHECK(call), (in) = "no call")

/*
 * Each thread stores thread, thread + 1, ... in n words of local memory, and their sum in out. The
 * kernel would print if n were 0: so its stack has no known size, and the driver gives it the
 * limit.
 */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".extern .func (.param .b32 n) vprintf(.param .b64 format, .param .b64 "
			    "values);\n"
			    ".global .align 1 .b8 text[4] = {46, 10, 0, 0};\n"
			    ".visible .entry sum(.param .u64 out, .param .u32 n)\n"
			    "{\n"
			    "	.local .align 4 .b8 words[512];\n"
			    "	.reg .pred %p<4>;\n"
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
			    "	setp.ne.u32 %p3, %r1, 0;\n"
			    "	@%p3 ret;\n"
			    "	mov.u64 %rd5, text;\n"
			    "	cvta.global.u64 %rd5, %rd5;\n"
			    "	{\n"
			    "	.param .b64 format;\n"
			    "	.param .b64 values;\n"
			    "	.param .b32 n;\n"
			    "	st.param.b64 [format], %rd5;\n"
			    "	st.param.b64 [values], 0;\n"
			    "	call.uni (n), vprintf, (format, values);\n"
			    "	ld.param.b32 %r6, [n];\n"
			    "	}\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry nothing()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n";

static const struct way {
	const char *name;
	bool has_graph, is_set, has_write, is_made_large, is_made_empty, is_set_large,
		changes_itself;
} ways[] = {
	{.name = "launch"},
	{.name = "set", .has_graph = true, .is_set = true},
	{.name = "held", .has_graph = true, .is_set = true, .has_write = true},
	{.name = "between",
		.has_graph = true,
		.is_set = true,
		.has_write = true,
		.changes_itself = true},
	{.name = "set_large", .has_graph = true, .is_set = true, .is_made_large = true},
	{.name = "held_large",
		.has_graph = true,
		.is_set = true,
		.has_write = true,
		.is_made_large = true},
	{.name = "swap_large",
		.has_graph = true,
		.is_set = true,
		.has_write = true,
		.is_made_large = true,
		.is_made_empty = true},
	{.name = "kept", .has_graph = true},
	{.name = "kept_large", .has_graph = true, .is_made_large = true},
	{.name = "once_large", .has_graph = true, .is_set_large = true},
};

static CUcontext context;
static CUfunction sum, nothing;
static CUstream stream;
static CUdeviceptr out, word;
static volatile uint32_t *results;
static volatile uint64_t *written;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode kernel_nodes[KERNELS], write_node;
static uint32_t n = WORDS;
static void *params[] = {&out, &n};
static unsigned n_changes;
static useconds_t pause_us;
static uint64_t n_rounds;
static atomic_bool is_over;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void change_stack(void)
{
	CALL(changing, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, n_changes % 2 ? STACK_LOW : STACK_HIGH));
	n_changes++;
}

static void *changer(void *unused)
{
	(void)unused;
	CHECK(cuCtxSetCurrent(context));
	while (!is_over) {
		change_stack();
		if (pause_us)
			usleep(pause_us);
	}
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

static void make_graph(bool has_write, bool is_empty)
{
	CUDA_KERNEL_NODE_PARAMS node = is_empty ? node_of(nothing) : kernel_params();
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS write = write_params(&op, 0);

	CHECK(cuGraphCreate(&graph, 0));
	for (int i = 0; i < KERNELS; i++)
		CHECK(cuGraphAddKernelNode(&kernel_nodes[i], graph,
			i > 0 ? &kernel_nodes[i - 1] : NULL, i > 0, &node));
	if (has_write)
		CHECK(cuGraphAddBatchMemOpNode(
			&write_node, graph, &kernel_nodes[KERNELS - 1], 1, &write));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
}

static void set_graph(bool has_write, uint64_t round)
{
	CUDA_KERNEL_NODE_PARAMS node = kernel_params();
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS write = write_params(&op, round);

	for (int i = 0; i < KERNELS; i++)
		CALL(launching, cuGraphExecKernelNodeSetParams(exec, kernel_nodes[i], &node));
	if (has_write)
		CALL(launching, cuGraphExecBatchMemOpNodeSetParams(exec, write_node, &write));
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

static void launch(const struct way *way, uint64_t round)
{
	if (way->is_set)
		set_graph(way->has_write, round);
	if (way->changes_itself && round % 16 == 0)
		change_stack();
	if (way->has_graph)
		CALL(launching, cuGraphLaunch(exec, stream));
	else
		CALL(launching,
			cuLaunchKernel(sum, 1, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
	if (way->has_write)
		wait_for_write(round);
	else
		CALL(launching, cuStreamSynchronize(stream));
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

/* The calls hold locks of the driver, so nothing but the end can follow. */
static void *watch(void *limit_s)
{
	sleep(*(unsigned *)limit_s);
	printf(NAME ": hangs in round %llu, after %u changes: %s; %s\n",
		(unsigned long long)n_rounds, n_changes, launching, changing);
	fflush(stdout);
	_exit(1);
}

static void open_all(const struct way *way)
{
	CUmodule module;
	void *pinned;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&sum, module, "sum"));
	CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc(&pinned, 8192, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(pinned, 0, 8192);
	results = pinned;
	written = (uint64_t *)((char *)pinned + 4096);
	CHECK(cuMemHostGetDevicePointer(&out, pinned, 0));
	word = out + 4096;
	if (way->is_made_large)
		change_stack();
	if (way->has_graph)
		make_graph(way->has_write, way->is_made_empty);
	if (way->is_set_large) {
		change_stack();
		set_graph(false, 0);
	}
}

static const struct way *way_named(const char *name)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	printf(NAME ": no such way: %s\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	const struct way *way = way_named(argc > 1 ? argv[1] : "launch");
	double seconds = argc > 2 ? atof(argv[2]) : 1, end;
	unsigned limit_s = (unsigned)seconds + HANG_S;
	pthread_t thread, watcher;

	pause_us = argc > 3 ? (useconds_t)atoi(argv[3]) : 0;
	open_all(way);
	MUST(pthread_create(&watcher, NULL, watch, &limit_s) == 0);
	end = now_s() + seconds;
	if (!way->changes_itself)
		MUST(pthread_create(&thread, NULL, changer, NULL) == 0);
	while (now_s() < end) {
		launch(way, ++n_rounds);
		check_results(n_rounds);
	}
	is_over = true;
	if (!way->changes_itself)
		MUST(pthread_join(thread, NULL) == 0);
	printf("%s rounds=%llu changes=%u\n", way->name, (unsigned long long)n_rounds, n_changes);
	return 0;
}
