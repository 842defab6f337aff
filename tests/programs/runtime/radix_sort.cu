/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A stable radix sort of 2^12 keys with values, four bits per pass: each block counts its digits
 * with shared atomics, one block adds up the counts, and ballots give the ranks within a block.
 */

#define NAME "radix_sort"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 12,
	THREADS = 128,
	WARPS = THREADS / 32,
	BLOCKS = COUNT / THREADS,
	DIGITS = 16,
	BITS = 16
};

static __global__ void count(const unsigned *keys, unsigned shift, unsigned *counts)
{
	__shared__ unsigned bins[DIGITS];

	if (threadIdx.x < DIGITS)
		bins[threadIdx.x] = 0;
	__syncthreads();
	atomicAdd(&bins[keys[blockIdx.x * THREADS + threadIdx.x] >> shift & (DIGITS - 1)], 1u);
	__syncthreads();
	if (threadIdx.x < DIGITS)
		counts[threadIdx.x * BLOCKS + blockIdx.x] = bins[threadIdx.x];
}

/* Exclusive prefix sums of all counts, by digit, then by block. */
static __global__ void add_up(unsigned *counts)
{
	__shared__ unsigned sums[2][DIGITS * BLOCKS];
	unsigned i = threadIdx.x, from = 0;

	sums[0][i] = i ? counts[i - 1] : 0;
	for (unsigned step = 1; step < DIGITS * BLOCKS; step *= 2) {
		__syncthreads();
		sums[!from][i] = sums[from][i] + (i >= step ? sums[from][i - step] : 0);
		from = !from;
	}
	counts[i] = sums[from][i];
}

static __global__ void scatter(
	const uint2 *in, uint2 *out, unsigned *keys, unsigned shift, const unsigned *starts)
{
	__shared__ unsigned of_warp[WARPS][DIGITS];
	unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, before = 0;
	uint2 pair = in[blockIdx.x * THREADS + threadIdx.x];
	unsigned digit = pair.x >> shift & (DIGITS - 1), peers = ~0u;

	for (unsigned bit = 1; bit < DIGITS; bit *= 2) {
		unsigned vote = __ballot_sync(~0u, digit & bit);

		peers &= digit & bit ? vote : ~vote;
	}
	if (lane < DIGITS)
		of_warp[warp][lane] = 0;
	__syncwarp();
	if (lane == __ffs(peers) - 1)
		of_warp[warp][digit] = __popc(peers);
	__syncthreads();
	for (unsigned w = 0; w < warp; w++)
		before += of_warp[w][digit];
	before += starts[digit * BLOCKS + blockIdx.x] + __popc(peers & ((1u << lane) - 1));
	out[before] = pair;
	keys[before] = pair.x;
}

int main(void)
{
	static uint2 host[COUNT], got[COUNT];
	static unsigned host_keys[COUNT];
	unsigned *keys = NULL, *counts = NULL, state = 17;
	uint2 *a = NULL, *b = NULL, *swap;

	for (unsigned i = 0; i < COUNT; i++) {
		host_keys[i] = next_random(&state) & ((1u << BITS) - 1);
		host[i] = make_uint2(host_keys[i], i);
	}
	CHECK(cudaMalloc(&a, sizeof(host)));
	CHECK(cudaMalloc(&b, sizeof(host)));
	CHECK(cudaMalloc(&keys, sizeof(host_keys)));
	CHECK(cudaMalloc(&counts, DIGITS * BLOCKS * sizeof(*counts)));
	CHECK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(keys, host_keys, sizeof(host_keys), cudaMemcpyHostToDevice));
	for (unsigned shift = 0; shift < BITS; shift += 4) {
		count<<<BLOCKS, THREADS>>>(keys, shift, counts);
		add_up<<<1, DIGITS * BLOCKS>>>(counts);
		scatter<<<BLOCKS, THREADS>>>(a, b, keys, shift, counts);
		swap = a;
		a = b;
		b = swap;
	}
	CHECK(cudaMemcpy(got, a, sizeof(got), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < COUNT; i++) {
		if (host[got[i].y % COUNT].x != got[i].x)
			FAIL("element %u has lost its value", i);
		/* Equal keys keep their order, so every value occurs once. */
		if (i && (got[i - 1].x > got[i].x ||
				 (got[i - 1].x == got[i].x && got[i - 1].y >= got[i].y)))
			FAIL("elements %u and %u are in the wrong order", i - 1, i);
	}
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(keys));
	CHECK(cudaFree(counts));
	printf(NAME ": ok\n");
	return 0;
}
