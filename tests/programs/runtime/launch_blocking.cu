/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA_LAUNCH_BLOCKING=1: when a launch returns, its kernel has ended, in every stream, and the
 * host sees what it wrote; launches into a capture are not waited for. With the argument
 * `fault', the launch itself returns the error of its kernel.
 */

#define NAME "launch_blocking"
#include "../helpers/program.h"

/* about 20 ms */
#define TICKS 30000000L

/* No driver puts an allocation here. */
#define NOWHERE 0x100000000000ULL

static __global__ void late(volatile int *where, int value, long ticks)
{
	for (long start = clock64(); clock64() - start < ticks;)
		;
	*where = value;
}

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	printf(NAME ": wrong: %s\n", what);
	exit(1);
}

static void launch(volatile int *flag, int value, cudaStream_t stream)
{
	late<<<1, 1, 0, stream>>>((int *)flag, value, TICKS);
	CHECK(cudaGetLastError());
	expect(*flag == value, "the kernel is over");
	CHECK(cudaStreamQuery(stream));
}

static void capture(volatile int *flag, int value, cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	late<<<1, 1, 0, stream>>>((int *)flag, value, TICKS);
	CHECK(cudaGetLastError());
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	expect(*flag != value, "a captured kernel does not run");
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect(*flag == value, "the graph ran");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void fault(void)
{
	late<<<1, 1>>>((int *)NOWHERE, 1, 0);
	expect(cudaGetLastError() == cudaErrorIllegalAddress, "the launch told the fault");
}

int main(int argc, char **argv)
{
	volatile int *flag = NULL;
	cudaStream_t stream, other;

	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	CHECK(cudaMallocHost((void **)&flag, sizeof(*flag)));
	*flag = 0;
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	launch(flag, 1, NULL);
	launch(flag, 2, stream);
	launch(flag, 3, other);
	launch(flag, 4, cudaStreamPerThread);
	capture(flag, 5, stream);
	if (argc > 1 && !strcmp(argv[1], "fault")) {
		fault();
	} else {
		CHECK(cudaStreamDestroy(stream));
		CHECK(cudaStreamDestroy(other));
		CHECK(cudaFreeHost((void *)flag));
	}
	printf(NAME ": ok\n");
	return 0;
}
