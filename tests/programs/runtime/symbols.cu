/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables of a program's image: __constant__ and __device__, with and
 * without initial values, written and read by name, and by address.
 */

#define NAME "symbols"
#include "../helpers/program.h"

enum {
	COUNT = 64
};

static __constant__ int factors[COUNT];
static __device__ int offsets[4] = {10, 20, 30, 40};
static __device__ int counter;

static __global__ void work(int *out)
{
	unsigned i = threadIdx.x;

	out[i] = factors[i] * (int)i + offsets[i % 4];
	atomicAdd(&counter, 1);
}

static void verify(const int *data, const int *factor, const int *offset, const char *when)
{
	int got[COUNT];

	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		if (got[i] == factor[i] * i + offset[i % 4])
			continue;
		printf(NAME ": %s element %d is %d\n", when, i, got[i]);
		exit(1);
	}
}

int main(void)
{
	int factor[COUNT], offset[4] = {10, 20, 30, 40}, launches = 0, *data = NULL;
	void *address = NULL;
	size_t size = 0;

	for (int i = 0; i < COUNT; i++)
		factor[i] = 3 * i + 1;
	CHECK(cudaMalloc(&data, sizeof(factor)));
	CHECK(cudaMemcpyToSymbol(factors, factor, sizeof(factor)));
	work<<<1, COUNT>>>(data);
	verify(data, factor, offset, "with the first values");

	CHECK(cudaGetSymbolAddress(&address, offsets));
	CHECK(cudaGetSymbolSize(&size, offsets));
	if (size != sizeof(offset)) {
		printf(NAME ": the symbol has %zu bytes\n", size);
		return 1;
	}
	offset[2] = -5;
	CHECK(cudaMemcpy(address, offset, sizeof(offset), cudaMemcpyHostToDevice));
	factor[7] = 1000;
	CHECK(cudaMemcpyToSymbol(factors, &factor[7], sizeof(int), 7 * sizeof(int)));
	work<<<1, COUNT>>>(data);
	verify(data, factor, offset, "with changed values");

	CHECK(cudaMemcpyFromSymbol(&launches, counter, sizeof(launches)));
	if (launches != 2 * COUNT) {
		printf(NAME ": the counter is %d, not %d\n", launches, 2 * COUNT);
		return 1;
	}
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
