/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels that launch kernels: a sum over a tree, each level of which launches the next,
 * by the GPU's runtime.
 *
 * Runs: on a GPU
 * Builds with: -rdc=true -lcudadevrt
 */

#define NAME "dynamic_parallelism"
#include "../helpers/program.h"

enum {
	WORDS = 1 << 14,
	THREADS = 128
};

static __global__ void halve(unsigned *words, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		words[i] += words[i + n];
}

/* Launches of one thread into the NULL stream run one after the other. */
static __global__ void sum(unsigned *words, unsigned n)
{
	for (n /= 2; n > 0; n /= 2)
		halve<<<(n + THREADS - 1) / THREADS, THREADS>>>(words, n);
}

int main(void)
{
	static unsigned host[WORDS];
	unsigned *device, want = 0, got = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		host[i] = i * 2654435761u;
		want += host[i];
	}
	CHECK(cudaMalloc(&device, sizeof(host)));
	for (int round = 0; round < 3; round++) {
		CHECK(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
		sum<<<1, 1>>>(device, WORDS);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(&got, device, sizeof(got), cudaMemcpyDeviceToHost));
		if (got != want) {
			printf(NAME ": the sum is %u, not %u\n", got, want);
			return 1;
		}
	}
	CHECK(cudaFree(device));
	printf(NAME ": ok\n");
	return 0;
}
