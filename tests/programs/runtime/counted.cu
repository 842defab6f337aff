/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Does known amounts of work, then says so, and waits for the end of its input: what the service
 * counts can be compared. Then it keeps the GPU at work for a second, and waits again.
 *
 * Runs: for a test of its own
 */

#define NAME "counted"
#include "../helpers/program.h"

enum {
	MIB = 1 << 20,
	LAUNCHES = 17,
	COPIES_IN = 3,
	COPIES_OUT = 2,
	COPIES_WITHIN = 4,
	FILLS = 5,
	GRAPH_LAUNCHES = 6
};

static __global__ void touch(char *bytes)
{
	bytes[threadIdx.x]++;
}

static void wait_for_line(const char *what)
{
	char line[16];

	printf(NAME ": %s\n", what);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void launch_graphs(cudaStream_t stream, char *bytes)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	touch<<<1, 32, 0, stream>>>(bytes);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < GRAPH_LAUNCHES; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void work(cudaStream_t stream, char *bytes, char *pinned)
{
	for (int i = 0; i < LAUNCHES; i++)
		touch<<<1, 32, 0, stream>>>(bytes);
	for (int i = 0; i < COPIES_IN; i++)
		CHECK(cudaMemcpyAsync(bytes, pinned, MIB, cudaMemcpyHostToDevice, stream));
	for (int i = 0; i < COPIES_OUT; i++)
		CHECK(cudaMemcpyAsync(pinned, bytes, MIB / 2, cudaMemcpyDeviceToHost, stream));
	for (int i = 0; i < COPIES_WITHIN; i++)
		CHECK(cudaMemcpyAsync(
			bytes + MIB, bytes, MIB / 4, cudaMemcpyDeviceToDevice, stream));
	for (int i = 0; i < FILLS; i++)
		CHECK(cudaMemsetAsync(bytes, i, 4096, stream));
	CHECK(cudaStreamSynchronize(stream));
	launch_graphs(stream, bytes);
}

int main(void)
{
	cudaStream_t stream;
	char *bytes, *pinned, *large;
	double start;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&bytes, 2 * MIB));
	CHECK(cudaMallocHost(&pinned, MIB));
	CHECK(cudaMalloc(&large, 64 * MIB));
	CHECK(cudaFree(large));
	work(stream, bytes, pinned);
	wait_for_line("worked");
	start = now_s();
	while (now_s() - start < 1) {
		for (int i = 0; i < 8; i++)
			CHECK(cudaMemcpyAsync(bytes, pinned, MIB, cudaMemcpyHostToDevice, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	wait_for_line("was busy");
	return 0;
}
