/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of small matrices of doubles in the registers of a warp, in the shape of every
 * architecture since sm_80. The numbers are small integers, so that each sum is exact.
 * Builds with: -arch=sm_80
 */

#define NAME "mma_double"
#include "../helpers/program.h"

enum {
	M = 8,
	N = 8,
	K = 4
};

static __global__ void multiply(double *d, const double *a, const double *b, const double *c)
{
#if __CUDA_ARCH__ >= 800
	unsigned lane = threadIdx.x, row = lane / 4, at = lane % 4;
	double d0, d1;

	asm volatile(
		"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
		: "=d"(d0), "=d"(d1)
		: "d"(a[row * K + at]), "d"(b[at * N + row]), "d"(c[row * N + 2 * at]),
		"d"(c[row * N + 2 * at + 1]));
	d[row * N + 2 * at] = d0;
	d[row * N + 2 * at + 1] = d1;
#endif
}

int main(void)
{
	double *a, *b, *c, *d;

	CHECK(cudaMallocManaged(&a, M * K * sizeof(*a)));
	CHECK(cudaMallocManaged(&b, K * N * sizeof(*b)));
	CHECK(cudaMallocManaged(&c, M * N * sizeof(*c)));
	CHECK(cudaMallocManaged(&d, M * N * sizeof(*d)));
	for (int i = 0; i < M * K; i++)
		a[i] = 7 * i % 11 - 3;
	for (int i = 0; i < K * N; i++)
		b[i] = 5 * i % 13 - 4;
	for (int i = 0; i < M * N; i++)
		c[i] = 100 * i;
	multiply<<<1, 32>>>(d, a, b, c);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			double sum = c[i * N + j];

			for (int k = 0; k < K; k++)
				sum += a[i * K + k] * b[k * N + j];
			if (d[i * N + j] != sum)
				FAIL("element %d, %d is %g, not %g", i, j, d[i * N + j], sum);
		}
	CHECK(cudaFree(d));
	CHECK(cudaFree(c));
	CHECK(cudaFree(b));
	CHECK(cudaFree(a));
	printf(NAME ": ok\n");
	return 0;
}
