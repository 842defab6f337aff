/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Numbers of 16 bits, half and bfloat16, single and in pairs: arithmetic, comparisons,
 * conversions with each rounding, and atomics, compared with the host's arithmetic in float,
 * rounded once.
 * Builds with: -arch=sm_90
 */

#define NAME "half_precision"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

#include "../helpers/program.h"

enum {
	COUNT = 1024,
	THREADS = 128,
	OPS = 10
};

template <typename T, typename T2>
static __global__ void compute(const T *a, const T *b, T *out, T *sum, T2 *pair_sum)
{
	int i = blockIdx.x * THREADS + threadIdx.x;
	T *mine = out + i * OPS;
	T2 x, y, z;

	x.x = a[i];
	x.y = b[i];
	y.x = b[i];
	y.y = a[i];
	mine[0] = __hadd(a[i], b[i]);
	mine[1] = __hsub(a[i], b[i]);
	mine[2] = __hmul(a[i], b[i]);
	mine[3] = __hfma(a[i], b[i], a[i]);
	mine[4] = __hmax(a[i], b[i]);
	mine[5] = __hmin(a[i], b[i]);
	mine[6] = __hneg(__habs(a[i]));
	z = __hfma2(x, y, x);
	mine[7] = z.x;
	/* ..._rn: the compiler may not fuse the two operations. */
	z = __hadd2_rn(__hmul2_rn(x, y), y);
	mine[8] = z.y;
	mine[9] = __hlt(a[i], b[i]) ? T(1.0f) : __heq(a[i], b[i]) ? T(2.0f) : T(3.0f);
	/* Small integers, which add up exactly. */
	atomicAdd(sum, T((float)(i % 3)));
	z.x = T((float)(i % 2));
	z.y = T(1.0f);
	atomicAdd(pair_sum, z);
}

static float rounded(float x, const __half *)
{
	return __half2float(__float2half_rn(x));
}

static float rounded(float x, const __nv_bfloat16 *)
{
	return __bfloat162float(__float2bfloat16_rn(x));
}

static float to_float(__half x)
{
	return __half2float(x);
}

static float to_float(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}

/*
 * A product of two such numbers is exact in float, and its sum with another in double, so there is
 * only one rounding; it goes through float where that changes nothing.
 */
template <typename T> static void verify(const char *name, const T *a, const T *b, const T *got)
{
	for (int i = 0; i < COUNT; i++, got += OPS) {
		float x = to_float(a[i]), y = to_float(b[i]);
		float product = rounded(x * y, a);
		float want[OPS] = {rounded(x + y, a), rounded(x - y, a), product,
			rounded((float)((double)x * y + x), a), fmaxf(x, y), fminf(x, y), -fabsf(x),
			rounded((float)((double)x * y + x), a), rounded(product + x, a),
			x < y    ? 1.0f
			: x == y ? 2.0f
				 : 3.0f};

		for (int op = 0; op < OPS; op++)
			if (to_float(got[op]) != want[op])
				FAIL("%s, operation %d of %g and %g: %g, not %g", name, op, x, y,
					to_float(got[op]), want[op]);
	}
}

template <typename T, typename T2> static void try_type(const char *name)
{
	static T a[COUNT], b[COUNT], got[COUNT * OPS];
	T *in = NULL, *out = NULL, *sum = NULL, host_sum;
	T2 *pair_sum = NULL, host_pair;
	unsigned state = 123;

	/* Quarters and eighths: no sum with a product needs more bits than a float has. */
	for (int i = 0; i < COUNT; i++) {
		a[i] = T((float)((int)(next_random(&state) % 255) - 127) / 8.0f);
		b[i] = T((float)((int)(next_random(&state) % 255) - 127) / 4.0f);
	}
	CHECK(cudaMalloc(&in, 2 * sizeof(a)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMalloc(&sum, sizeof(*sum)));
	CHECK(cudaMalloc(&pair_sum, sizeof(*pair_sum)));
	CHECK(cudaMemset(sum, 0, sizeof(*sum)));
	CHECK(cudaMemset(pair_sum, 0, sizeof(*pair_sum)));
	CHECK(cudaMemcpy(in, a, sizeof(a), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(in + COUNT, b, sizeof(b), cudaMemcpyHostToDevice));
	compute<<<1, THREADS>>>(in, in + COUNT, out, sum, pair_sum);
	CHECK(cudaMemcpy(&host_sum, sum, sizeof(host_sum), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&host_pair, pair_sum, sizeof(host_pair), cudaMemcpyDeviceToHost));
	if (to_float(host_sum) != 127 || to_float(host_pair.x) != 64 ||
		to_float(host_pair.y) != 128)
		FAIL("%s: the sums are %g, %g and %g", name, to_float(host_sum),
			to_float(host_pair.x), to_float(host_pair.y));
	compute<<<COUNT / THREADS, THREADS>>>(in, in + COUNT, out, sum, pair_sum);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	verify(name, a, b, got);
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	CHECK(cudaFree(sum));
	CHECK(cudaFree(pair_sum));
}

static __global__ void convert(const float *in, unsigned short *out)
{
	int i = threadIdx.x;
	unsigned short *mine = out + 8 * i;

	mine[0] = __half_as_ushort(__float2half_rn(in[i]));
	mine[1] = __half_as_ushort(__float2half_rz(in[i]));
	mine[2] = __half_as_ushort(__float2half_ru(in[i]));
	mine[3] = __half_as_ushort(__float2half_rd(in[i]));
	mine[4] = __bfloat16_as_ushort(__float2bfloat16_rn(in[i]));
	mine[5] = __bfloat16_as_ushort(__float2bfloat16_rz(in[i]));
	mine[6] = (unsigned short)__half2int_rz(__float2half_rn(in[i]));
	mine[7] = __half_as_ushort(__short2half_rn((short)__float2int_rn(in[i])));
}

static void try_conversions(void)
{
	static float host[THREADS];
	static unsigned short got[THREADS * 8];
	float *in = NULL;
	unsigned short *out = NULL;

	for (int i = 0; i < THREADS; i++)
		host[i] = ldexpf((float)(i * 7919 % 4001 - 2000) / 3.0f, i % 12 - 8);
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	convert<<<1, THREADS>>>(in, out);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < THREADS; i++) {
		float x = host[i];
		__half h = __float2half_rn(x);
		const unsigned short want[8] = {__half_as_ushort(h),
			__half_as_ushort(__float2half_rz(x)), __half_as_ushort(__float2half_ru(x)),
			__half_as_ushort(__float2half_rd(x)),
			__bfloat16_as_ushort(__float2bfloat16_rn(x)),
			__bfloat16_as_ushort(__float2bfloat16_rz(x)),
			(unsigned short)(int)__half2float(h),
			__half_as_ushort(__float2half_rn((float)(short)rintf(x)))};

		for (int k = 0; k < 8; k++)
			if (got[8 * i + k] != want[k])
				FAIL("conversion %d of %g: %#x, not %#x", k, x, got[8 * i + k],
					want[k]);
	}
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
}

int main(void)
{
	try_type<__half, __half2>("half");
	try_type<__nv_bfloat16, __nv_bfloat162>("bfloat16");
	try_conversions();
	printf(NAME ": ok\n");
	return 0;
}
