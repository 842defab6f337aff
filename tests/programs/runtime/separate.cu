/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Separate compilation: this file's kernels call functions and use variables of another file
 * (helpers/separate_part.cu), which calls back. Both have a static function with the same name,
 * a template function with the same name, and a kernel each. The default architecture is older
 * than the GPU, so the driver links.
 *
 * Builds with: -rdc=true tests/programs/helpers/separate_part.cu
 */

#define NAME "separate"
#include "../helpers/program.h"
#include "../helpers/separate.h"

__device__ int steps_taken;

static __device__ __noinline__ int own(int x)
{
	return x + 1;
}

__device__ int called_back(int x)
{
	atomicAdd(&steps_taken, 1);
	return own(x) * 2;
}

static __global__ void run(int *out)
{
	int i = threadIdx.x;

	out[i] = own(i) + part_step(i) + part_table[i % PART_TABLE] + part_apply(called_back, i) +
		 both<3>(i);
}

int main(void)
{
	int got[PART_COUNT], taken = 0, table[PART_TABLE] = {100, 200, 300, 400}, *data = NULL;

	CHECK(cudaMalloc(&data, sizeof(got)));
	run<<<1, PART_COUNT>>>(data);
	CHECK(cudaGetLastError());
	part_launch(data);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpyFromSymbol(&taken, steps_taken, sizeof(taken)));
	for (int i = 0; i < PART_COUNT; i++) {
		/* own() adds 1 here, subtracts 5 there; called_back() doubles its argument + 1. */
		int want = (i + 1) + (i - 5 + 2 * (i + 1)) + table[i % PART_TABLE] + 2 * (i + 1);

		want = (want + 6 * i) * 10 + (i - 5);
		if (got[i] != want)
			FAIL("element %d is %d, not %d", i, got[i], want);
	}
	if (taken != 2 * PART_COUNT)
		FAIL("called back %d times, not %d", taken, 2 * PART_COUNT);
	table[1] = -7;
	CHECK(cudaMemcpyToSymbol(part_table, table, sizeof(table)));
	run<<<1, PART_COUNT>>>(data);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	if (got[5] != 6 + (0 + 12) - 7 + 12 + 30)
		FAIL("with another table element 5 is %d", got[5]);
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
