/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which SMs its kernels run on, according to %smid: with a plain launch, in a stream, many
 * in a burst, in a graph, captured, and cooperatively. Prints `WAY: 0-7,16-23' for each. A
 * launch has more blocks than there are SMs, so on the software GPU it must use all SMs of
 * MULTIPROCESSOR_COUNT.
 *
 * --fewer: a way may use fewer SMs. --sms N: no way may use more than N. --rounds N: repeats each
 * way. --wait FILE: prints `ready' and waits until FILE exists, then works, prints `done', and
 * waits until FILE is gone before it ends.
 *
 * Runs: for a test of its own
 */

#include <string.h>
#include <unistd.h>

#define NAME "smids"
#include "../helpers/driver_program.h"
#include "../helpers/smid_marks.h"

enum {
	BLOCKS = 600,
	THREADS = 32,
	BURST = 100,
	SPINS = 100,
	WAIT_MS_MAX = 300000,
};

static CUfunction mark;
static CUdeviceptr seen;
static CUstream stream;
static unsigned spins = SPINS;
static void *params[] = {&seen, &spins};
static unsigned n_sms; /* the device's attribute */
static unsigned limit; /* the largest number allowed; 0: n_sms */
static unsigned rounds = 1;
static int is_software;
static int may_be_fewer;
static const char *awaited; /* a file; NULL: none */

static void launch(CUstream on)
{
	CHECK(cuLaunchKernel(mark, BLOCKS, 1, 1, THREADS, 1, 1, 0, on, params, NULL));
}

static void plain(void)
{
	launch(NULL);
}

static void in_stream(void)
{
	launch(stream);
}

static void burst(void)
{
	spins = 1;
	for (unsigned i = 0; i < BURST; i++)
		launch(stream);
	spins = SPINS;
}

/* Launches a graph, and ends it. */
static void graph_run(CUgraph made)
{
	CUgraphExec exec = NULL;

	CHECK(cuGraphInstantiate(&exec, made, 0));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(made));
}

static void graph(void)
{
	CUDA_KERNEL_NODE_PARAMS node = node_of(mark);
	CUgraphNode first = NULL, second = NULL;
	CUgraph made = NULL;

	node.gridDimX = BLOCKS;
	node.blockDimX = THREADS;
	node.kernelParams = params;
	CHECK(cuGraphCreate(&made, 0));
	CHECK(cuGraphAddKernelNode(&first, made, NULL, 0, &node));
	CHECK(cuGraphAddKernelNode(&second, made, &first, 1, &node));
	graph_run(made);
}

static void captured(void)
{
	CUgraph made = NULL;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(stream);
	CHECK(cuStreamEndCapture(stream, &made));
	graph_run(made);
}

/* The largest number of blocks that fit at once, and one more, which is refused. */
static void cooperative(void)
{
	unsigned most = limit && limit < n_sms ? limit : n_sms;
	int of_sm = 0;

	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, mark, THREADS, 0));
	most *= (unsigned)of_sm;
	CHECK(cuLaunchCooperativeKernel(mark, most, 1, 1, THREADS, 1, 1, 0, stream, params));
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		cuLaunchCooperativeKernel(
			mark, n_sms * (unsigned)of_sm + 1, 1, 1, THREADS, 1, 1, 0, stream, params));
}

static void judge(const char *way, const unsigned *marks)
{
	unsigned n = 0;

	for (unsigned sm = 0; sm < SMS_MAX; sm++) {
		if (marks[sm] && sm >= marks[NSMID]) {
			printf(NAME ": %s: SM %u of %u\n", way, sm, marks[NSMID]);
			exit(1);
		}
		n += marks[sm];
	}
	if (n == 0 || n > n_sms || (limit && n > limit) ||
		(is_software && !may_be_fewer && n != n_sms && n != limit)) {
		printf(NAME ": %s: on %u SMs of %u, limit %u\n", way, n, n_sms, limit);
		exit(1);
	}
}

static void run(const char *way, void (*work)(void))
{
	unsigned marks[WORDS];

	CHECK(cuMemsetD32(seen, 0, WORDS));
	CHECK(cuCtxSynchronize());
	for (unsigned i = 0; i < rounds; i++)
		work();
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(marks, seen, sizeof(marks)));
	print_marks(way, marks);
	judge(way, marks);
}

static void wait_for_file(const char *what, int is_there)
{
	if (!awaited)
		return;
	printf("%s\n", what);
	fflush(stdout);
	for (unsigned ms = 0; (access(awaited, F_OK) == 0) != is_there; ms++) {
		if (ms == WAIT_MS_MAX) {
			printf(NAME ": %s: waited %u ms for %s\n", what, ms, awaited);
			exit(1);
		}
		usleep(1000);
	}
}

static unsigned number(const char *text)
{
	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void options(char **argv)
{
	while (*++argv) {
		if (!strcmp(*argv, "--wait") && argv[1])
			awaited = *++argv;
		else if (!strcmp(*argv, "--fewer"))
			may_be_fewer = 1;
		else if (!strcmp(*argv, "--sms") && number(argv[1]))
			limit = number(*++argv);
		else if (!strcmp(*argv, "--rounds") && number(argv[1]))
			rounds = number(*++argv);
		else {
			printf("usage: " NAME " [--wait FILE] [--fewer] [--sms N] [--rounds N]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	CUcontext context = NULL;
	CUmodule module = NULL;
	char name[64] = "";
	int value = 0;

	(void)argc;
	options(argv);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuDeviceGetName(name, sizeof(name), 0));
	is_software = !strcmp(name, "Software GPU");
	CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	n_sms = (unsigned)value;
	CHECK(cuModuleLoadData(&module, smid_image));
	CHECK(cuModuleGetFunction(&mark, module, "mark"));
	CHECK(cuMemAlloc(&seen, WORDS * sizeof(unsigned)));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	wait_for_file("ready", 1);
	run("plain", plain);
	run("stream", in_stream);
	run("burst", burst);
	run("graph", graph);
	run("captured", captured);
	run("cooperative", cooperative);
	wait_for_file("done", 0);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(seen));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
