/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cooperative groups: sums by a block, by tiles of every size, by the currently active threads,
 * and prefix sums by a whole grid with a barrier between its steps.
 * Builds with: -arch=sm_80
 */

#define NAME "reduction_cg"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "../helpers/program.h"

namespace cg = cooperative_groups;

enum {
	COUNT = 1 << 13,
	THREADS = 128,
	BLOCKS = 4
};

static __global__ void sum_block(const int *in, int *out)
{
	__shared__ int of_warp[THREADS / 32];
	cg::thread_block block = cg::this_thread_block();
	cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
	int sum = 0;

	for (unsigned i = block.group_index().x * THREADS + block.thread_rank(); i < COUNT;
		i += THREADS * BLOCKS)
		sum += in[i];
	sum = cg::reduce(warp, sum, cg::plus<int>());
	if (warp.thread_rank() == 0)
		of_warp[warp.meta_group_rank()] = sum;
	block.sync();
	if (block.thread_rank() == 0) {
		for (unsigned w = 1; w < warp.meta_group_size(); w++)
			sum += of_warp[w];
		atomicAdd(out, sum);
	}
}

template <int SIZE> static __device__ void by_tile(const int *in, int *out)
{
	cg::thread_block_tile<SIZE> tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
	int value = in[threadIdx.x], least = cg::reduce(tile, value, cg::less<int>());

	for (int offset = SIZE / 2; offset; offset /= 2)
		value += tile.shfl_xor(value, offset);
	out[threadIdx.x] = value + least * 1000 + tile.any(value > 0) - tile.all(value > 0);
}

static __global__ void by_tiles(const int *in, int *out)
{
	by_tile<2>(in, out);
	by_tile<4>(in, out + THREADS);
	by_tile<8>(in, out + 2 * THREADS);
	by_tile<16>(in, out + 3 * THREADS);
	by_tile<32>(in, out + 4 * THREADS);
}

/* The active threads share one atomic. */
static __global__ void filter(const int *in, int *out, int *n)
{
	int value = in[blockIdx.x * THREADS + threadIdx.x];

	if (value % 3 == 0) {
		cg::coalesced_group together = cg::coalesced_threads();
		int at = 0;

		if (together.thread_rank() == 0)
			at = atomicAdd(n, (int)together.size());
		at = together.shfl(at, 0) + (int)together.thread_rank();
		out[at] = value;
	}
}

/* Doubling steps over all data, alternating `a' and `b'. */
static __global__ void prefix(int *a, int *b)
{
	cg::grid_group grid = cg::this_grid();

	for (unsigned step = 1; step < COUNT; step *= 2) {
		int *swap = a;

		for (unsigned long long i = grid.thread_rank(); i < COUNT; i += grid.size())
			b[i] = a[i] + (i >= step ? a[i - step] : 0);
		grid.sync();
		a = b;
		b = swap;
	}
}

static __global__ void prefix_warp(const int *in, int *out)
{
	cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());

	out[threadIdx.x] = cg::inclusive_scan(warp, in[threadIdx.x], cg::plus<int>()) * 2 -
			   cg::exclusive_scan(warp, in[threadIdx.x], cg::plus<int>());
}

static int host[COUNT], got[COUNT];

static void try_tiles(const int *in, int *out)
{
	by_tiles<<<1, THREADS>>>(in, out);
	CHECK(cudaMemcpy(got, out, 5 * THREADS * sizeof(int), cudaMemcpyDeviceToHost));
	for (int n = 0, size = 2; size <= 32; n++, size *= 2)
		for (int i = 0; i < THREADS; i++) {
			int sum = 0, least = 1 << 30;

			for (int k = i / size * size; k < (i / size + 1) * size; k++) {
				sum += host[k];
				least = host[k] < least ? host[k] : least;
			}
			if (got[n * THREADS + i] != sum + least * 1000)
				FAIL("thread %d in a tile of %d has %d, not %d", i, size,
					got[n * THREADS + i], sum + least * 1000);
		}
}

static void try_filter(const int *in, int *out, int *n)
{
	int want = 0, want_sum = 0, sum = 0, found = 0;

	CHECK(cudaMemset(n, 0, sizeof(*n)));
	filter<<<COUNT / THREADS, THREADS>>>(in, out, n);
	CHECK(cudaMemcpy(&found, n, sizeof(found), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		if (host[i] % 3 == 0) {
			want++;
			want_sum += host[i];
		}
	for (int i = 0; i < found && i < COUNT; i++)
		sum += got[i];
	if (found != want || sum != want_sum)
		FAIL("%d numbers with sum %d pass, not %d with %d", found, sum, want, want_sum);
}

static void try_prefix(int *a, int *b)
{
	void *params[] = {&a, &b};
	int sum = 0;

	CHECK(cudaLaunchCooperativeKernel(prefix, dim3(BLOCKS), dim3(THREADS), params, 0, NULL));
	/* 13 steps: the last wrote into b. */
	CHECK(cudaMemcpy(got, b, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		sum += host[i];
		if (got[i] != sum)
			FAIL("prefix %d is %d, not %d", i, got[i], sum);
	}
	CHECK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
	prefix_warp<<<1, 32>>>(a, b);
	CHECK(cudaMemcpy(got, b, 32 * sizeof(int), cudaMemcpyDeviceToHost));
	sum = 0;
	for (int i = 0; i < 32; i++) {
		sum += host[i];
		if (got[i] != sum + host[i])
			FAIL("prefix %d of a warp is %d, not %d", i, got[i], sum + host[i]);
	}
}

int main(void)
{
	int *a = NULL, *b = NULL, *n = NULL, sum = 0, want = 0;
	unsigned state = 41;

	for (int i = 0; i < COUNT; i++)
		want += host[i] = (int)(next_random(&state) % 90) + 1;
	CHECK(cudaMalloc(&a, sizeof(host)));
	CHECK(cudaMalloc(&b, sizeof(host)));
	CHECK(cudaMalloc(&n, sizeof(*n)));
	CHECK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(n, 0, sizeof(*n)));
	sum_block<<<BLOCKS, THREADS>>>(a, n);
	CHECK(cudaMemcpy(&sum, n, sizeof(sum), cudaMemcpyDeviceToHost));
	if (sum != want)
		FAIL("the sum is %d, not %d", sum, want);
	try_tiles(a, b);
	try_filter(a, b, n);
	try_prefix(a, b);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(n));
	printf(NAME ": ok\n");
	return 0;
}
