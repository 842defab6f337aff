/* SPDX-License-Identifier: Apache-2.0 */

/* The second file of `separate': a table, functions, a kernel, and another own(). */

#include "separate.h"

__device__ int part_table[PART_TABLE] = {100, 200, 300, 400};

static __device__ __noinline__ int own(int x)
{
	return x - 5;
}

__device__ int part_step(int x)
{
	return own(x) + called_back(x) + both<3>(x);
}

__device__ int part_apply(int (*f)(int), int x)
{
	return f(x);
}

static __global__ void run(int *data)
{
	int i = threadIdx.x;

	data[i] = data[i] * 10 + own(i);
}

void part_launch(int *data)
{
	run<<<1, PART_COUNT>>>(data);
}
