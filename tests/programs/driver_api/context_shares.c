/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contexts with different shares of SMs in one process: each reports its number of
 * SMs, and its kernels run only there, according to %smid, for every way of launching.
 * Prints `CONTEXT WAY: 0-7,16-23' for each. Needs
 * CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1.
 *
 * --many N: exactly N contexts can exist at once. --none: without the variable, no
 * context has fewer SMs than the process.
 * Runs: for a test of its own
 */

#include <string.h>

#define NAME "context_shares"
#include "../helpers/driver_program.h"
#include "../helpers/smid_marks.h"

#define VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"

enum {
	BLOCKS = 600,
	THREADS = 32,
	BURST = 100,
	SPINS = 20,
	LONG_SPINS = 100000,
	ROUNDS = 40,
	MANY_MAX = 64,
	CONTEXTS = 4,
};

static struct place {
	const char *name;
	const char *percentage; /* at the creation of the context; NULL: none */
	unsigned affinity;      /* 0: none */
	unsigned most;          /* percent of the GPU's SMs */
	CUcontext context;
	CUmodule module;
	CUfunction mark;
	CUdeviceptr seen;
	CUstream blocking, unordered;
	unsigned n_sms;
} places[CONTEXTS] = {
	{.name = "half", .percentage = "50", .most = 50},
	{.name = "counted", .percentage = "50", .affinity = 35, .most = 27},
	{.name = "eighth", .percentage = "12.5", .most = 13},
	{.name = "primary", .most = 100},
};

static struct place *here; /* the current context's */
static unsigned n_all;     /* SMs of the process */
static unsigned spins = SPINS;
static int is_software;

static void launch(CUstream on)
{
	void *params[] = {&here->seen, &spins};

	CHECK(cuLaunchKernel(here->mark, BLOCKS, 1, 1, THREADS, 1, 1, 0, on, params, NULL));
}

static void plain(void)
{
	launch(NULL);
}

static void in_stream(void)
{
	launch(here->blocking);
}

static void unordered(void)
{
	launch(here->unordered);
}

static void of_thread(void)
{
	launch(CU_STREAM_PER_THREAD);
}

static void burst(void)
{
	spins = 1;
	for (unsigned i = 0; i < BURST; i++)
		launch(here->blocking);
	spins = SPINS;
}

static CUgraphExec graph_of(struct place *place, CUgraphNode *ret_node, CUgraph *ret_graph)
{
	CUDA_KERNEL_NODE_PARAMS node = node_of(place->mark);
	void *params[] = {&place->seen, &spins};
	CUgraphExec exec = NULL;

	node.gridDimX = BLOCKS;
	node.blockDimX = THREADS;
	node.kernelParams = params;
	CHECK(cuGraphCreate(ret_graph, 0));
	CHECK(cuGraphAddKernelNode(ret_node, *ret_graph, NULL, 0, &node));
	CHECK(cuGraphInstantiate(&exec, *ret_graph, 0));
	return exec;
}

static void graph_run(CUgraph graph, CUgraphExec exec, CUstream on)
{
	CHECK(cuGraphLaunch(exec, on));
	CHECK(cuStreamSynchronize(on));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void graph(void)
{
	CUgraphNode node = NULL;
	CUgraph made = NULL;
	CUgraphExec exec = graph_of(here, &node, &made);

	graph_run(made, exec, here->unordered);
}

/* A node keeps its context, whichever stream the graph is launched into. */
static void afar(void)
{
	CUgraphNode node = NULL;
	CUgraph made = NULL;
	CUgraphExec exec = graph_of(here, &node, &made);
	struct place *other = &places[(here - places + 1) % CONTEXTS];

	graph_run(made, exec, other->unordered);
}

/* ... and after a change of the node. */
static void changed(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(here->mark);
	void *values[] = {&here->seen, &spins};
	CUgraphNode node = NULL;
	CUgraph made = NULL;
	CUgraphExec exec = graph_of(here, &node, &made);

	params.gridDimX = BLOCKS + 1;
	params.blockDimX = THREADS;
	params.kernelParams = values;
	CHECK(cuGraphExecKernelNodeSetParams(exec, node, &params));
	graph_run(made, exec, here->blocking);
}

static void captured(void)
{
	CUgraph made = NULL;
	CUgraphExec exec = NULL;

	CHECK(cuStreamBeginCapture(here->unordered, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(here->unordered);
	CHECK(cuStreamEndCapture(here->unordered, &made));
	CHECK(cuGraphInstantiate(&exec, made, 0));
	graph_run(made, exec, here->blocking);
}

/* The largest number of blocks that fit at once, and one more, which is refused. */
static void cooperative(void)
{
	void *params[] = {&here->seen, &spins};
	unsigned most;
	int of_sm = 0;

	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, here->mark, THREADS, 0));
	most = here->n_sms * (unsigned)of_sm;
	CHECK(cuLaunchCooperativeKernel(
		here->mark, most, 1, 1, THREADS, 1, 1, 0, here->blocking, params));
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		cuLaunchCooperativeKernel(
			here->mark, most + 1, 1, 1, THREADS, 1, 1, 0, here->blocking, params));
}

static void run(const char *way, void (*work)(void))
{
	char name[64];
	unsigned marks[WORDS], n = 0;

	CHECK(cuMemsetD32(here->seen, 0, WORDS));
	CHECK(cuCtxSynchronize());
	work();
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(marks, here->seen, sizeof(marks)));
	snprintf(name, sizeof(name), "%s %s", here->name, way);
	print_marks(name, marks);
	for (unsigned sm = 0; sm < SMS_MAX; sm++)
		n += marks[sm];
	MUST(n > 0 && n <= here->n_sms);
	MUST(!is_software || n == here->n_sms);
}

static void one_block(CUstream on)
{
	unsigned n = LONG_SPINS;
	void *params[] = {&here->seen, &n};

	CHECK(cuLaunchKernel(here->mark, 1, 1, 1, 1, 1, 1, 0, on, params, NULL));
}

/* The NULL stream of a context and its blocking streams wait for each other. */
static void order(void)
{
	CUstream streams[] = {here->blocking, NULL};
	CUdeviceptr count = here->seen + NSMID * sizeof(unsigned);
	unsigned value;

	for (unsigned i = 0; i < 6; i++) {
		CUstream first = streams[i % 2], then = streams[(i + 1) % 2];
		CUdeviceptr copy = here->seen;

		CHECK(cuMemsetD32(here->seen, 0, WORDS));
		CHECK(cuCtxSynchronize());
		one_block(first);
		CHECK(cuMemcpyDtoDAsync(copy, count, sizeof(value), then));
		CHECK(cuStreamSynchronize(then));
		value = 0;
		CHECK(cuMemcpyDtoH(&value, copy, sizeof(value)));
		MUST(value >= n_all);
	}
	/* A call that waits for the NULL stream waits for the blocking streams too. */
	CHECK(cuMemsetD32(here->seen, 0, WORDS));
	one_block(here->blocking);
	value = 0;
	CHECK(cuMemcpyDtoH(&value, count, sizeof(value)));
	MUST(value >= n_all);
	one_block(here->blocking);
	CHECK(cuStreamSynchronize(NULL));
	EXPECT(CUDA_SUCCESS, cuStreamQuery(here->blocking));
}

static unsigned sms_told(void)
{
	int value = 0;

	CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	return (unsigned)value;
}

static CUcontext create(const char *percentage, unsigned affinity)
{
	CUexecAffinityParam param = {
		.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = affinity};
	CUctxCreateParams how = {.execAffinityParams = &param, .numExecAffinityParams = 1};
	CUcontext context = NULL;

	if (percentage)
		setenv(VARIABLE, percentage, 1);
	else
		unsetenv(VARIABLE);
	CHECK(cuCtxCreate_v4(&context, affinity ? &how : NULL, 0, 0));
	return context;
}

static void begin(struct place *place)
{
	here = place;
	if (place->percentage) {
		place->context = create(place->percentage, place->affinity);
	} else {
		unsetenv(VARIABLE);
		CHECK(cuDevicePrimaryCtxRetain(&place->context, 0));
		CHECK(cuCtxPushCurrent(place->context));
	}
	place->n_sms = sms_told();
	MUST(place->n_sms > 0 && place->n_sms <= n_all);
	MUST(100 * place->n_sms <= place->most * 132);
	CHECK(cuModuleLoadData(&place->module, smid_image));
	CHECK(cuModuleGetFunction(&place->mark, place->module, "mark"));
	CHECK(cuMemAlloc(&place->seen, WORDS * sizeof(unsigned)));
	CHECK(cuStreamCreate(&place->blocking, CU_STREAM_DEFAULT));
	CHECK(cuStreamCreate(&place->unordered, CU_STREAM_NON_BLOCKING));
	CHECK(cuCtxPopCurrent(NULL));
}

static void told(void)
{
	CUexecAffinityParam param;
	int grid = 0, block = 0, of_sm = 0;

	MUST(sms_told() == here->n_sms);
	CHECK(cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	MUST(param.param.smCount.val == here->n_sms);
	CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, here->mark, NULL, 0, 0));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, here->mark, block, 0));
	MUST(grid == of_sm * (int)here->n_sms);
}

static void use(struct place *place)
{
	here = place;
	CHECK(cuCtxPushCurrent(place->context));
	told();
	run("plain", plain);
	run("stream", in_stream);
	run("unordered", unordered);
	run("thread", of_thread);
	run("burst", burst);
	run("graph", graph);
	run("afar", afar);
	run("changed", changed);
	run("captured", captured);
	run("cooperative", cooperative);
	order();
	CHECK(cuCtxPopCurrent(NULL));
	MUST(sms_told() == n_all);
}

/* With work in its streams, which ends with it. */
static void end(struct place *place)
{
	here = place;
	CHECK(cuCtxPushCurrent(place->context));
	one_block(place->blocking);
	one_block(NULL);
	CHECK(cuCtxPopCurrent(NULL));
	if (place->percentage)
		CHECK(cuCtxDestroy(place->context));
	else
		CHECK(cuDevicePrimaryCtxRelease(0));
}

/* One after the other, any number is possible. */
static void again(void)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct place place = {.name = "again", .percentage = "25", .most = 25};

		begin(&place);
		end(&place);
	}
}

static void many(unsigned n)
{
	CUcontext contexts[MANY_MAX], more = NULL;

	MUST(n < MANY_MAX);
	for (unsigned i = 0; i < n; i++)
		contexts[i] = create("25", 0);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v4(&more, NULL, 0, 0));
	CHECK(cuCtxDestroy(contexts[0]));
	contexts[0] = create("25", 0);
	while (n > 0)
		CHECK(cuCtxDestroy(contexts[--n]));
}

/* Without the variable, contexts have the SMs of the process. */
static void none(void)
{
	CUexecAffinityParam param = {
		.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = n_all - 1};
	CUctxCreateParams how = {.execAffinityParams = &param, .numExecAffinityParams = 1};
	CUcontext context = NULL;
	int is_supported = 1;

	CHECK(cuDeviceGetExecAffinitySupport(&is_supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
	MUST(!is_supported);
	EXPECT(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate_v4(&context, &how, 0, 0));
	context = create("25", n_all);
	MUST(sms_told() == n_all);
	CHECK(cuCtxDestroy(context));
}

int main(int argc, char **argv)
{
	char name[64] = "";

	CHECK(cuInit(0));
	CHECK(cuDeviceGetName(name, sizeof(name), 0));
	is_software = !strcmp(name, "Software GPU");
	n_all = sms_told();
	if (argc == 3 && !strcmp(argv[1], "--many")) {
		many((unsigned)strtoul(argv[2], NULL, 10));
	} else if (argc == 2 && !strcmp(argv[1], "--none")) {
		none();
	} else {
		for (unsigned i = 0; i < CONTEXTS; i++)
			begin(&places[i]);
		for (unsigned i = 0; i < CONTEXTS; i++)
			use(&places[i]);
		for (unsigned i = 0; i < CONTEXTS; i++)
			end(&places[i]);
		again();
	}
	printf(NAME ": ok\n");
	return 0;
}
