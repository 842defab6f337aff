/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills the SMs with blocks that only compute, in three ways: by single launches, by bursts of
 * launches and by graphs. Each block counts itself, and the program checks the counts.
 *
 *   saturate [--seconds S] [--at T] [--blocks N] [--turns N]
 *
 * With `--seconds', it repeats each way for S seconds and prints `WAY=BLOCKS', a second. `--at T'
 * begins the first way at second T of the epoch, and each further way S + 0.5 seconds later, so
 * that several processes work in the same way at the same time. A launch has N blocks of N turns.
 */

#define NAME "saturate"
#include "../helpers/program.h"

enum {
	THREADS = 256,
	BURST = 32
};

static double seconds, at;
static unsigned blocks = 8, turns = 4;
static unsigned long long *counter;
static cudaStream_t stream;
static cudaGraphExec_t graph;

static __global__ void work(unsigned long long *done, unsigned n)
{
	float a = (float)threadIdx.x, b = a + 1, c = a + 2, d = a + 3;

	for (unsigned i = 0; i < n; i++) {
		a = a * 0.5f + 1.0f;
		b = b * 0.5f + 1.0f;
		c = c * 0.5f + 1.0f;
		d = d * 0.5f + 1.0f;
	}
	/* Always so, but the compiler does not know it. */
	if (threadIdx.x == 0 && a + b + c + d >= 0)
		atomicAdd(done, 1ULL);
}

static void launch(void)
{
	work<<<blocks, THREADS, 0, stream>>>(counter, turns);
	CHECK(cudaGetLastError());
}

/* Each way returns how many launches it made. */
static unsigned plain(void)
{
	launch();
	return 1;
}

static unsigned burst(void)
{
	for (int i = 0; i < BURST; i++)
		launch();
	return BURST;
}

static unsigned graphs(void)
{
	CHECK(cudaGraphLaunch(graph, stream));
	return BURST;
}

static void capture(void)
{
	cudaGraph_t captured;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	burst();
	CHECK(cudaStreamEndCapture(stream, &captured));
	CHECK(cudaGraphInstantiate(&graph, captured, 0));
	CHECK(cudaGraphDestroy(captured));
}

static void run(const char *name, unsigned (*way)(void))
{
	unsigned long long n = 0, counted = 0;
	double began = now_s(), took;

	CHECK(cudaMemsetAsync(counter, 0, sizeof(*counter), stream));
	do {
		n += way();
		CHECK(cudaStreamSynchronize(stream));
		took = now_s() - began;
	} while (took < seconds);
	CHECK(cudaMemcpy(&counted, counter, sizeof(counted), cudaMemcpyDeviceToHost));
	if (counted != n * blocks)
		FAIL("%s: %llu blocks, not %llu", name, counted, n * blocks);
	if (seconds > 0)
		printf("%s=%.0f\n", name, (double)counted / took);
}

static void options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		double value = atof(argv[i + 1]);

		if (!strcmp(argv[i], "--seconds"))
			seconds = value;
		else if (!strcmp(argv[i], "--at"))
			at = value;
		else if (!strcmp(argv[i], "--blocks"))
			blocks = (unsigned)value;
		else if (!strcmp(argv[i], "--turns"))
			turns = (unsigned)value;
		else
			FAIL("no such option: %s", argv[i]);
	}
}

int main(int argc, char **argv)
{
	unsigned (*const ways[])(void) = {plain, burst, graphs};
	const char *const names[] = {"plain", "burst", "graph"};

	options(argc, argv);
	CHECK(cudaMalloc(&counter, sizeof(*counter)));
	CHECK(cudaStreamCreate(&stream));
	capture();
	for (int i = 0; i < 3; i++) {
		/* Its code is loaded by then, and the GPU at its usual clock. */
		ways[i]();
		CHECK(cudaStreamSynchronize(stream));
		if (at > 0)
			sleep_until(at + i * (seconds + 0.5));
		run(names[i], ways[i]);
	}
	CHECK(cudaGraphExecDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(counter));
	printf(NAME ": ok\n");
	return 0;
}
