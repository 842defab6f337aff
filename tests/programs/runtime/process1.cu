/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adds 1 to each of 2^20 floats. With process2, this is the pair that shares a GPU in the demo.
 * Every round copies in, computes, copies out and compares.
 */

#define NAME "process1"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 20,
	THREADS = 256
};

static __global__ void add_one(float *data, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] += 1.0f;
}

static void round_run(float *host, float *data, long round)
{
	int i;

	for (i = 0; i < COUNT; i++)
		host[i] = (float)((i + round) % 65536);
	CHECK(cudaMemcpy(data, host, COUNT * sizeof(float), cudaMemcpyHostToDevice));
	add_one<<<COUNT / THREADS, THREADS>>>(data, COUNT);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(host, data, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
	for (i = 0; i < COUNT; i++) {
		float want = (float)((i + round) % 65536) + 1.0f;

		if (host[i] == want)
			continue;
		printf(NAME ": element %d is %g, not %g\n", i, host[i], want);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double end = now_s() + options.seconds;
	float *host = (float *)malloc(COUNT * sizeof(float));
	float *data = NULL;
	long round = 0;

	CHECK(cudaMalloc(&data, COUNT * sizeof(float)));
	do
		round_run(host, data, round);
	while (++round < options.rounds || now_s() < end);
	CHECK(cudaFree(data));
	free(host);
	printf(NAME ": ok\n");
	return 0;
}
