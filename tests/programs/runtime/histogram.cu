/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A histogram of 2^18 bytes: shared-memory atomics in a block, dynamic shared
 * memory, global atomics between blocks.
 */

#define NAME "histogram"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 18,
	BINS = 256,
	THREADS = 128,
	BLOCKS = 48
};

static __global__ void count(const unsigned char *data, unsigned *bins)
{
	extern __shared__ unsigned mine[];

	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		mine[i] = 0;
	__syncthreads();
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT;
		i += blockDim.x * gridDim.x)
		atomicAdd(&mine[data[i]], 1u);
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		atomicAdd(&bins[i], mine[i]);
}

int main(void)
{
	static unsigned char host[COUNT];
	static unsigned want[BINS], got[BINS];
	unsigned char *data = NULL;
	unsigned *bins = NULL;

	for (unsigned i = 0; i < COUNT; i++) {
		host[i] = (unsigned char)((i * 2246822519u >> 15) * (i >> 9));
		want[host[i]]++;
	}
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaMalloc(&bins, sizeof(got)));
	CHECK(cudaMemset(bins, 0, sizeof(got)));
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	count<<<BLOCKS, THREADS, BINS * sizeof(unsigned)>>>(data, bins);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, bins, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < BINS; i++) {
		if (got[i] == want[i])
			continue;
		printf(NAME ": bin %d has %u, not %u\n", i, got[i], want[i]);
		return 1;
	}
	CHECK(cudaFree(data));
	CHECK(cudaFree(bins));
	printf(NAME ": ok\n");
	return 0;
}
