/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pi from random points in a square, and the value of an integral, with a counter-based
 * generator, so that the host can generate the same points. Counts use a warp vote and a
 * 64-bit atomic.
 */

#define NAME "monte_carlo"
#include <math.h>

#include "../helpers/program.h"

enum {
	BLOCKS = 8,
	THREADS = 128,
	POINTS = 64 /* per thread */
};

static __host__ __device__ unsigned long long scramble(unsigned long long x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Whether point `n' is in the quarter circle; 31 bits per coordinate, so the test is exact. */
static __host__ __device__ bool is_inside(unsigned long long n)
{
	unsigned long long bits = scramble(n * 0x9e3779b97f4a7c15ull + 1);
	unsigned long long x = bits >> 33, y = bits & 0x7fffffff;

	return x * x + y * y < 1ull << 62;
}

static __global__ void throw_points(unsigned long long *inside, double *integral)
{
	unsigned me = blockIdx.x * THREADS + threadIdx.x;
	unsigned hits = 0;
	double sum = 0;

	for (unsigned k = 0; k < POINTS; k++) {
		unsigned long long n = (unsigned long long)me * POINTS + k;
		unsigned vote = __ballot_sync(~0u, is_inside(n));

		if (threadIdx.x % 32 == 0)
			hits += __popc(vote);
		sum += exp(-(double)(scramble(n) >> 11) * 0x1p-53);
	}
	if (hits)
		atomicAdd(inside, (unsigned long long)hits);
	for (int offset = 16; offset; offset /= 2)
		sum += __shfl_down_sync(~0u, sum, offset);
	if (threadIdx.x % 32 == 0)
		atomicAdd(integral, sum);
}

int main(void)
{
	const unsigned long long points = (unsigned long long)BLOCKS * THREADS * POINTS;
	unsigned long long want = 0, got = 0, *inside = NULL;
	double want_sum = 0, sum = 0, *integral = NULL;

	for (unsigned long long n = 0; n < points; n++) {
		want += is_inside(n);
		want_sum += exp(-(double)(scramble(n) >> 11) * 0x1p-53);
	}
	CHECK(cudaMalloc(&inside, sizeof(*inside)));
	CHECK(cudaMalloc(&integral, sizeof(*integral)));
	CHECK(cudaMemset(inside, 0, sizeof(*inside)));
	CHECK(cudaMemset(integral, 0, sizeof(*integral)));
	throw_points<<<BLOCKS, THREADS>>>(inside, integral);
	CHECK(cudaMemcpy(&got, inside, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&sum, integral, sizeof(sum), cudaMemcpyDeviceToHost));
	if (got != want)
		FAIL("%llu points are inside, not %llu", got, want);
	if (fabs(4.0 * (double)got / (double)points - M_PI) > 0.05)
		FAIL("pi is %g", 4.0 * (double)got / (double)points);
	if (fabs(sum - want_sum) > 1e-9 * want_sum)
		FAIL("the sum is %.12g, not %.12g", sum, want_sum);
	if (fabs(sum / (double)points - (1 - exp(-1.0))) > 0.01)
		FAIL("the integral is %g", sum / (double)points);
	CHECK(cudaFree(inside));
	CHECK(cudaFree(integral));
	printf(NAME ": ok\n");
	return 0;
}
