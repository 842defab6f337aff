/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures figures of server/driver/driver_facts.h, natively; `tests/gpu/facts' makes a row of
 * them. driver_queues.c measures the figure that is missing here.
 *
 *   driver_facts [NAME...]
 *
 * Measures each figure in a separate process and prints `NAME=VALUE'. The first process makes no
 * call of the driver, which need not work in children of a process that has used it.
 *
 * Runs: for a test of its own
 */

#define _GNU_SOURCE
#define NAME "driver_facts"
#include <pthread.h>

#include "../helpers/driver_graphs.h"
#include "../helpers/each_thing.h"

enum {
	PATIENCE_US = 1000000, /* each call takes less time by itself */
	LOOK_US = 10000,
	LIMIT_S = 60,
	CALLS_MAX = 4000,
	BODIES = 64,
	BODY_NODES = 16,
};

static CUstream waiting;
static volatile uint32_t *word;
static volatile unsigned n_back; /* calls that have returned */
static volatile int is_over;     /* a call has waited for the blocked stream */

static void setup(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	CHECK(cuKernelGetFunction(&function, kernel));
	CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void back(void)
{
	n_back++;
}

/* Releases the stream when no call has returned for that long. */
static void *watch(void *arg)
{
	unsigned last = 0, quiet_us = 0;

	(void)arg;
	while (quiet_us < PATIENCE_US) {
		usleep(LOOK_US);
		quiet_us = n_back == last ? quiet_us + LOOK_US : 0;
		last = n_back;
	}
	is_over = 1;
	*word = 1;
	return NULL;
}

/* How often `call' returns beside a blocked stream before it waits for that. */
static unsigned calls_that_return(void (*call)(void))
{
	unsigned n = 0;
	pthread_t thread;

	CHECK(cuCtxSynchronize());
	*word = 0;
	CHECK(cuStreamWaitValue32(
		waiting, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	MUST(pthread_create(&thread, NULL, watch, NULL) == 0);
	while (n < CALLS_MAX) {
		call();
		if (is_over)
			break;
		n++;
		back();
	}
	*word = 1;
	return n;
}

/* ---- the figures */

static uint64_t version(void)
{
	int found = 0;

	CHECK(cuDriverGetVersion(&found));
	return (uint64_t)found;
}

static void launch_behind(void)
{
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, waiting, NULL, NULL));
}

static uint64_t queue_calls(void)
{
	return calls_that_return(launch_behind);
}

static void green_stream(void)
{
	CUstream made;

	CHECK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
}

static uint64_t channels_green(void)
{
	make_green();
	return calls_that_return(green_stream);
}

static void chain(void)
{
	make_graph(CHAIN);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, stream));
}

/* There are channels for the graphs, so what runs out is memory for their nodes. */
static uint64_t graph_kernels(void)
{
	make_streams();
	return (uint64_t)calls_that_return(chain) * CHAIN_NODES;
}

static CUgraphExec make_bodies(unsigned n)
{
	CHECK(cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < n; i++)
		add_conditional(graph, context, function, BODY_NODES);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	return exec;
}

/* The first such graph costs more. */
static uint64_t body_node_memory(void)
{
	size_t before, after, total;

	(void)make_bodies(1);
	CHECK(cuMemGetInfo(&before, &total));
	(void)make_bodies(BODIES);
	CHECK(cuMemGetInfo(&after, &total));
	return (before - after) / ((size_t)BODIES * BODY_NODES);
}

static const struct figure {
	const char *name;
	uint64_t (*measure)(void);
} figures[] = {
	{"version", version},
	{"n_queue_calls", queue_calls},
	{"n_channels_green", channels_green},
	{"n_graph_kernels", graph_kernels},
	{"body_node_memory", body_node_memory},
};

static void print_figure(const void *data)
{
	const struct figure *figure = data;

	setup();
	printf("%s=%llu\n", figure->name, (unsigned long long)figure->measure());
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	int n_bad = 0;

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		if (is_named(figures[i].name, argc, argv))
			n_bad += in_a_process(figures[i].name, LIMIT_S, print_figure, &figures[i]);
	if (n_bad > 0)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
