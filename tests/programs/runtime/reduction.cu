/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sum, minimum and maximum of 2^18 integers: shuffles within a warp, shared
 * memory within a block, atomics between blocks.
 */

#define NAME "reduction"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 18,
	THREADS = 256,
	BLOCKS = 64
};

struct result {
	unsigned long long sum;
	int min, max;
};

static __device__ int warp_sum(int value)
{
	for (int distance = 16; distance; distance /= 2)
		value += __shfl_down_sync(0xffffffffu, value, distance);
	return value;
}

static __global__ void reduce(const int *data, struct result *result)
{
	__shared__ int sums[THREADS / 32];
	int first = blockIdx.x * THREADS + threadIdx.x, sum = 0;
	int low = data[first], high = data[first];

	for (int i = first; i < COUNT; i += THREADS * BLOCKS) {
		sum += data[i];
		low = min(low, data[i]);
		high = max(high, data[i]);
	}
	atomicMin(&result->min, low);
	atomicMax(&result->max, high);
	sum = warp_sum(sum);
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = sum;
	__syncthreads();
	if (threadIdx.x < 32) {
		sum = warp_sum(threadIdx.x < THREADS / 32 ? sums[threadIdx.x] : 0);
		if (threadIdx.x == 0)
			atomicAdd(&result->sum, (unsigned long long)sum);
	}
}

int main(void)
{
	struct result want = {0, 1 << 30, 0}, got = want, *result = NULL;
	int *host = (int *)malloc(COUNT * sizeof(int)), *data = NULL;

	for (int i = 0; i < COUNT; i++) {
		host[i] = (int)((i * 2654435761u >> 12) % 10000);
		want.sum += (unsigned long long)host[i];
		want.min = host[i] < want.min ? host[i] : want.min;
		want.max = host[i] > want.max ? host[i] : want.max;
	}
	CHECK(cudaMalloc(&data, COUNT * sizeof(int)));
	CHECK(cudaMalloc(&result, sizeof(got)));
	CHECK(cudaMemcpy(data, host, COUNT * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(result, &got, sizeof(got), cudaMemcpyHostToDevice));
	reduce<<<BLOCKS, THREADS>>>(data, result);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, result, sizeof(got), cudaMemcpyDeviceToHost));
	if (got.sum != want.sum || got.min != want.min || got.max != want.max) {
		printf(NAME ": sum %llu, minimum %d, maximum %d, not %llu, %d, %d\n", got.sum,
			got.min, got.max, want.sum, want.min, want.max);
		return 1;
	}
	CHECK(cudaFree(data));
	CHECK(cudaFree(result));
	free(host);
	printf(NAME ": ok\n");
	return 0;
}
