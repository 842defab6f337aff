/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prefix sums of 2^16 integers in three dependent launches: those of each block, those of the
 * blocks' totals, and both added.
 */

#define NAME "scan"
#include "../helpers/program.h"

enum {
	THREADS = 256,
	COUNT = THREADS * THREADS
};

static __device__ unsigned block_scan(unsigned *shared, unsigned value)
{
	shared[threadIdx.x] = value;
	__syncthreads();
	for (unsigned distance = 1; distance < THREADS; distance *= 2) {
		unsigned before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0;

		__syncthreads();
		shared[threadIdx.x] += before;
		__syncthreads();
	}
	return shared[threadIdx.x];
}

static __global__ void scan(unsigned *data, unsigned *totals)
{
	__shared__ unsigned shared[THREADS];
	unsigned i = blockIdx.x * THREADS + threadIdx.x;

	data[i] = block_scan(shared, data[i]);
	if (totals && threadIdx.x == THREADS - 1)
		totals[blockIdx.x] = data[i];
}

static __global__ void add(unsigned *data, const unsigned *totals)
{
	if (blockIdx.x > 0)
		data[blockIdx.x * THREADS + threadIdx.x] += totals[blockIdx.x - 1];
}

int main(void)
{
	static unsigned host[COUNT], got[COUNT];
	unsigned *data = NULL, *totals = NULL, sum = 0;

	for (unsigned i = 0; i < COUNT; i++)
		host[i] = i * 7919u % 1009u;
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaMalloc(&totals, THREADS * sizeof(unsigned)));
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	scan<<<THREADS, THREADS>>>(data, totals);
	scan<<<1, THREADS>>>(totals, NULL);
	add<<<THREADS, THREADS>>>(data, totals);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < COUNT; i++) {
		sum += host[i];
		if (got[i] == sum)
			continue;
		printf(NAME ": element %u is %u, not %u\n", i, got[i], sum);
		return 1;
	}
	CHECK(cudaFree(data));
	CHECK(cudaFree(totals));
	printf(NAME ": ok\n");
	return 0;
}
