/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GPU instructions in inline PTX: bit fields, byte permutations, funnel shifts, products of small
 * vectors, three-way logic, carries, loads with cache hints, a table of branch targets, special
 * registers.
 * Builds with: -arch=sm_80
 */

#define NAME "inline_ptx"
#include "../helpers/program.h"

enum {
	COUNT = 64,
	RESULTS = 20
};

static __device__ unsigned branch(unsigned which)
{
	unsigned result;

	asm volatile("{\n\t"
		     ".reg .pred p;\n\t"
		     "there: .branchtargets zero, one, two;\n\t"
		     "brx.idx %1, there;\n\t"
		     "zero: mov.u32 %0, 100; bra out;\n\t"
		     "one: mov.u32 %0, 201; bra out;\n\t"
		     "two: mov.u32 %0, 302;\n\t"
		     "out:\n\t"
		     "}"
		     : "=r"(result)
		     : "r"(which));
	return result;
}

static __device__ void compute(unsigned x, unsigned y, const unsigned *in, unsigned *out)
{
	unsigned long long wide;

	asm("bfe.u32 %0, %1, 5, 9;" : "=r"(out[0]) : "r"(x));
	asm("bfe.s32 %0, %1, 20, 6;" : "=r"(out[1]) : "r"(x));
	asm("bfi.b32 %0, %1, %2, 7, 11;" : "=r"(out[2]) : "r"(x), "r"(y));
	asm("prmt.b32 %0, %1, %2, 0x6240;" : "=r"(out[3]) : "r"(x), "r"(y));
	asm("shf.l.wrap.b32 %0, %1, %2, 13;" : "=r"(out[4]) : "r"(x), "r"(y));
	asm("shf.r.clamp.b32 %0, %1, %2, 40;" : "=r"(out[5]) : "r"(x), "r"(y));
	asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out[6]) : "r"(x), "r"(y), "r"(1000));
	asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out[7]) : "r"(x), "r"(y), "r"(1000));
	asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(out[8]) : "r"(x), "r"(y), "r"(7));
	asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(out[9]) : "r"(x), "r"(y), "r"(x >> 3));
	asm("brev.b32 %0, %1;" : "=r"(out[10]) : "r"(x));
	asm("clz.b32 %0, %1;" : "=r"(out[11]) : "r"(x >> (y & 31)));
	asm("popc.b32 %0, %1;" : "=r"(out[12]) : "r"(x));
	asm("bfind.shiftamt.u32 %0, %1;" : "=r"(out[13]) : "r"(y | 1));
	asm("sad.u32 %0, %1, %2, %3;" : "=r"(out[14]) : "r"(x), "r"(y), "r"(5));
	asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(wide) : "r"(x), "r"(y), "l"(1ull << 40));
	out[15] = (unsigned)(wide >> 32);
	asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %2, 0;"
		: "=&r"(out[16]), "=r"(out[17])
		: "r"(x), "r"(y));
	asm volatile("ld.global.cg.L2::128B.u32 %0, [%1];" : "=r"(out[18]) : "l"(in));
	out[19] = branch(x % 3);
}

static __global__ void run(const unsigned *in, unsigned *out, unsigned *lanes)
{
	unsigned i = threadIdx.x, results[RESULTS], lane, warp, mask;

	compute(in[i], in[i + 1], &in[i], results);
	for (int k = 0; k < RESULTS; k++)
		asm volatile("st.global.cs.u32 [%0], %1;"
			     :
			     : "l"(&out[i * RESULTS + k]), "r"(results[k])
			     : "memory");
	asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(warp));
	asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
	lanes[i] = lane + (warp / 32) * 100 + __popc(mask) * 10000;
}

static unsigned majority(unsigned a, unsigned b, unsigned c)
{
	return (a & b) | (a & c) | (b & c);
}

static unsigned dot(unsigned x, unsigned y, int is_signed)
{
	unsigned sum = 1000;

	for (int i = 0; i < 32; i += 8)
		sum += is_signed ? (unsigned)((signed char)(x >> i) * (signed char)(y >> i))
				 : (x >> i & 255) * (y >> i & 255);
	return sum;
}

static void fill_wanted(unsigned x, unsigned y, unsigned *want)
{
	unsigned long long wide = (unsigned long long)x * y + (1ull << 40);
	unsigned reversed = 0, shifted = x >> (y & 31);

	for (int i = 0; i < 32; i++)
		reversed |= (x >> i & 1) << (31 - i);
	want[0] = x >> 5 & 511;
	want[1] = (unsigned)((int)(x << 6) >> 26);
	want[2] = (y & ~(2047u << 7)) | (x & 2047) << 7;
	want[3] = (x & 255) | (y & 255) << 8 | (x >> 16 & 255) << 16 | (y >> 16 & 255) << 24;
	want[4] = y << 13 | x >> 19;
	want[5] = y;
	want[6] = dot(x, y, 0);
	want[7] = dot(x, y, 1);
	want[8] = 7 + (x & 0xffff) * (y & 255) + (x >> 16) * (y >> 8 & 255);
	want[9] = majority(x, y, x >> 3);
	want[10] = reversed;
	want[11] = shifted ? (unsigned)__builtin_clz(shifted) : 32;
	want[12] = (unsigned)__builtin_popcount(x);
	want[13] = (unsigned)__builtin_clz(y | 1);
	want[14] = (x > y ? x - y : y - x) + 5;
	want[15] = (unsigned)(wide >> 32);
	want[16] = x + y;
	want[17] = x + (x + y < x);
	want[18] = x;
	want[19] = x % 3 == 0 ? 100 : x % 3 == 1 ? 201 : 302;
}

int main(void)
{
	static unsigned host[COUNT + 1], got[COUNT * RESULTS], lanes[COUNT], want[RESULTS];
	unsigned *in = NULL, *out = NULL, *out_lanes = NULL, state = 61;

	for (int i = 0; i <= COUNT; i++)
		host[i] = next_random(&state);
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMalloc(&out_lanes, sizeof(lanes)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	run<<<1, COUNT>>>(in, out, out_lanes);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(lanes, out_lanes, sizeof(lanes), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		fill_wanted(host[i], host[i + 1], want);
		for (int k = 0; k < RESULTS; k++)
			if (got[i * RESULTS + k] != want[k])
				FAIL("thread %d, result %d: %#x, not %#x", i, k,
					got[i * RESULTS + k], want[k]);
		if (lanes[i] != (unsigned)(i % 32 + i / 32 * 100 + i % 32 * 10000))
			FAIL("thread %d is in lane %u", i, lanes[i]);
	}
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	CHECK(cudaFree(out_lanes));
	printf(NAME ": ok\n");
	return 0;
}
