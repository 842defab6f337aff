/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parameters of kernels: none, many small ones of mixed sizes and alignments,
 * structures of 4 KiB and of the 32 764 bytes that newer GPUs take.
 * Builds with: -arch=sm_75
 */

#define NAME "large_parameters"
#include "../helpers/program.h"

enum {
	MEDIUM = 4000 / 4,
	LARGE = (32764 - 16) / 4
};

template <int N> struct numbers {
	unsigned n[N];
};

struct odd {
	char a;
	short b;
	char c[3];
};

struct __align__(16) aligned
{
	double d;
	char c;
};

static __device__ unsigned calls;

static __global__ void nothing(void)
{
	atomicAdd(&calls, 1u);
}

static __global__ void mixed(char a, double b, short c, odd d, unsigned char e, aligned f, float g,
	long long h, bool i, float3 j, uchar2 k, double *out)
{
	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = d.a + d.b * 2 + d.c[0] * 3 + d.c[1] * 4 + d.c[2] * 5;
	out[4] = e;
	out[5] = f.d + f.c;
	out[6] = g;
	out[7] = (double)h;
	out[8] = i;
	out[9] = j.x + j.y * 2 + j.z * 3;
	out[10] = k.x + k.y * 2;
}

/* The thread's elements, at an index known only at run time. */
template <int N>
static __global__ void sum(const __grid_constant__ numbers<N> numbers, unsigned long long *out)
{
	unsigned long long mine = 0;

	for (int i = threadIdx.x; i < N; i += blockDim.x)
		mine += (unsigned long long)numbers.n[i] * (i + 1);
	atomicAdd(out, mine);
}

template <int N> static void try_size(void)
{
	static numbers<N> host;
	unsigned long long want = 0, got = 0, *out = NULL;
	unsigned state = N;

	CHECK(cudaMalloc(&out, sizeof(*out)));
	/* Launched before the structure changes again: each launch has its own copy. */
	CHECK(cudaMemset(out, 0, sizeof(*out)));
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < N; i++) {
			host.n[i] = next_random(&state) >> 8;
			want += (unsigned long long)host.n[i] * (i + 1);
		}
		sum<N><<<1, 128>>>(host, out);
		CHECK(cudaGetLastError());
	}
	CHECK(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
	if (got != want)
		FAIL("%d numbers: the sum is %llu, not %llu", N, got, want);
	CHECK(cudaFree(out));
}

static void try_mixed(void)
{
	static const double want[11] = {
		-3, 2.5, -300, 1 + 400 + 30 + 80 + 150, 250, 7.75, 0.125, -9e15, 1, 14, 5};
	double got[11], *out = NULL;
	odd odd = {1, 200, {10, 20, 30}};
	aligned aligned = {0.75, 7};

	CHECK(cudaMalloc(&out, sizeof(got)));
	mixed<<<1, 1>>>(-3, 2.5, -300, odd, 250, aligned, 0.125f, -9000000000000000ll, true,
		make_float3(1, 2, 3), make_uchar2(1, 2), out);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 11; i++)
		if (got[i] != want[i])
			FAIL("parameter %d is %g, not %g", i, got[i], want[i]);
	CHECK(cudaFree(out));
}

int main(void)
{
	unsigned n = 0;

	for (int i = 0; i < 10; i++)
		nothing<<<1, 32>>>();
	CHECK(cudaMemcpyFromSymbol(&n, calls, sizeof(n)));
	if (n != 320)
		FAIL("the kernel without parameters ran %u times, not 320", n);
	try_mixed();
	try_size<4>();
	try_size<MEDIUM>();
	try_size<LARGE>();
	printf(NAME ": ok\n");
	return 0;
}
