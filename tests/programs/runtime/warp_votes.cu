/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Communication within a warp: all forms of vote, of shuffle (also of 64 bits, in parts of a warp,
 * and from lanes in another branch), match, and reductions in one instruction.
 * Builds with: -arch=sm_80
 */

#define NAME "warp_votes"
#include "../helpers/program.h"

enum {
	WARP = 32,
	RESULTS = 16
};

static __global__ void talk(const int *in, unsigned long long *out)
{
	int lane = threadIdx.x, x = in[lane], pred = 0;
	unsigned long long *mine = out + lane * RESULTS;
	double wide = x * 0.5;

	mine[0] = __ballot_sync(~0u, x > 10);
	mine[1] = __any_sync(~0u, x == in[7]) | __all_sync(~0u, x == in[7]) << 1 |
		  __all_sync(~0u, x > -100) << 2;
	mine[2] = (unsigned)__shfl_sync(~0u, x, (lane * 3 + 1) % WARP);
	mine[3] = (unsigned)__shfl_up_sync(~0u, x, 3);
	mine[4] = (unsigned)__shfl_down_sync(~0u, x, 5);
	mine[5] = (unsigned)__shfl_xor_sync(~0u, x, 21);
	/* In parts of 8 lanes. */
	mine[6] = (unsigned)__shfl_sync(~0u, x, 2, 8);
	mine[7] = (unsigned)__shfl_up_sync(~0u, x, 2, 8);
	mine[8] = (unsigned long long)__double_as_longlong(__shfl_xor_sync(~0u, wide, 1));
	mine[9] = __match_any_sync(~0u, x & 3);
	mine[10] = __match_all_sync(~0u, 42, &pred) | (unsigned long long)pred << 32;
	mine[11] = __match_all_sync(~0u, (long long)x, &pred) | (unsigned long long)pred << 32;
	mine[12] = (unsigned)__reduce_add_sync(~0u, x);
	mine[13] = (unsigned)__reduce_min_sync(~0u, x) |
		   (unsigned long long)(unsigned)__reduce_max_sync(~0u, x) << 32;
	mine[14] = __reduce_and_sync(~0u, (unsigned)x | 1) |
		   (unsigned long long)__reduce_xor_sync(~0u, (unsigned)x) << 32;
	/* Each half of the warp separately. */
	if (lane % 2)
		mine[15] = __ballot_sync(0xaaaaaaaa, x > 0) | (unsigned long long)__activemask()
								      << 32;
	else
		mine[15] = __ballot_sync(0x55555555, x > 0) | (unsigned long long)__activemask()
								      << 32;
}

static unsigned ballot_above(const int *x, int bound, unsigned mask)
{
	unsigned vote = 0;

	for (int i = 0; i < WARP; i++)
		vote |= (unsigned)(x[i] > bound) << i;
	return vote & mask;
}

static void fill_wanted(const int *x, int lane, unsigned long long *want)
{
	unsigned alike = 0, sum = 0, all_and = ~0u, all_xor = 0;
	int least = x[0], most = x[0], half = lane % 8;
	double wide = x[lane ^ 1] * 0.5;

	for (int i = 0; i < WARP; i++) {
		alike |= (unsigned)((x[i] & 3) == (x[lane] & 3)) << i;
		sum += (unsigned)x[i];
		all_and &= (unsigned)x[i] | 1;
		all_xor ^= (unsigned)x[i];
		least = x[i] < least ? x[i] : least;
		most = x[i] > most ? x[i] : most;
	}
	want[0] = ballot_above(x, 10, ~0u);
	want[1] = 1 | 4;
	want[2] = (unsigned)x[(lane * 3 + 1) % WARP];
	want[3] = (unsigned)x[lane >= 3 ? lane - 3 : lane];
	want[4] = (unsigned)x[lane < WARP - 5 ? lane + 5 : lane];
	want[5] = (unsigned)x[lane ^ 21];
	want[6] = (unsigned)x[lane - half + 2];
	want[7] = (unsigned)x[half >= 2 ? lane - 2 : lane];
	memcpy(&want[8], &wide, sizeof(wide));
	want[9] = alike;
	want[10] = 0x1ffffffffull;
	want[11] = 0;
	want[12] = sum;
	want[13] = (unsigned)least | (unsigned long long)(unsigned)most << 32;
	want[14] = all_and | (unsigned long long)all_xor << 32;
	want[15] = ballot_above(x, 0, lane % 2 ? 0xaaaaaaaa : 0x55555555);
}

int main(void)
{
	static unsigned long long got[WARP * RESULTS];
	unsigned long long want[RESULTS], *out = NULL;
	int host[WARP], *in = NULL;
	unsigned state = 3;

	for (int i = 0; i < WARP; i++)
		host[i] = (int)(next_random(&state) % 100) - 50;
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	talk<<<1, WARP>>>(in, out);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int lane = 0; lane < WARP; lane++) {
		fill_wanted(host, lane, want);
		for (int i = 0; i < RESULTS; i++) {
			unsigned long long have = got[lane * RESULTS + i];

			/* The GPU decides which lanes run together; this one is among them. */
			if (i == 15 && !(have >> 32 >> lane & 1))
				FAIL("lane %d is not active", lane);
			if (i == 15)
				have = (unsigned)have;
			if (have != want[i])
				FAIL("lane %d, result %d: %#llx, not %#llx", lane, i, have,
					want[i]);
		}
	}
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	printf(NAME ": ok\n");
	return 0;
}
