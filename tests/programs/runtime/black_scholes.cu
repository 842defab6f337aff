/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Option prices by the Black-Scholes formula: logarithm, exponential, square root and error
 * function in float, compared with the host's in double; then the fast approximations, each
 * within the error bound of the manual.
 */

#define NAME "black_scholes"
#include <math.h>

#include "../helpers/program.h"

enum {
	COUNT = 2048,
	THREADS = 128
};

#define RATE 0.02f
#define VOLATILITY 0.30f

static __device__ float normal_below(float x)
{
	return 0.5f * erfcf(-x * 0.70710678f);
}

static __global__ void price(
	const float *stock, const float *strike, const float *years, float *call, float *put)
{
	int i = blockIdx.x * THREADS + threadIdx.x;
	float root = sqrtf(years[i]);
	float d1 =
		(logf(stock[i] / strike[i]) + (RATE + 0.5f * VOLATILITY * VOLATILITY) * years[i]) /
		(VOLATILITY * root);
	float d2 = d1 - VOLATILITY * root, worth = strike[i] * expf(-RATE * years[i]);

	call[i] = stock[i] * normal_below(d1) - worth * normal_below(d2);
	put[i] = worth * normal_below(-d2) - stock[i] * normal_below(-d1);
}

static __global__ void approximate(const float *x, float *out)
{
	int i = blockIdx.x * THREADS + threadIdx.x;
	float *mine = out + 8 * i;

	mine[0] = __expf(x[i]);
	mine[1] = __logf(x[i]);
	mine[2] = __sinf(x[i] - 2.0f);
	mine[3] = __cosf(x[i] - 2.0f);
	mine[4] = __fdividef(1.0f, x[i]);
	mine[5] = rsqrtf(x[i]);
	mine[6] = __powf(x[i], 1.5f);
	mine[7] = __frsqrt_rn(x[i]);
}

static double host_normal(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

static void verify_prices(const float (*options)[COUNT], const float *call, const float *put)
{
	for (int i = 0; i < COUNT; i++) {
		double stock = options[0][i], strike = options[1][i], years = options[2][i];
		double spread = (double)VOLATILITY * sqrt(years);
		double d1 = (log(stock / strike) + ((double)RATE + 0.5 * 0.09) * years) / spread;
		double worth = strike * exp(-(double)RATE * years);
		double want = stock * host_normal(d1) - worth * host_normal(d1 - spread);

		if (fabs(call[i] - want) > 1e-4)
			FAIL("call %d costs %g, not %g", i, call[i], want);
		want = worth * host_normal(spread - d1) - stock * host_normal(-d1);
		if (fabs(put[i] - want) > 1e-4)
			FAIL("put %d costs %g, not %g", i, put[i], want);
	}
}

static void near(const char *what, float x, float got, double want, double error)
{
	if (fabs(got - want) > error)
		FAIL("%s(%g) is %.9g, not %.9g", what, x, got, want);
}

static void verify_approximations(const float *x, const float *got)
{
	for (int i = 0; i < COUNT; i++, got += 8) {
		const double ulp = 0x1p-23, v = x[i];

		near("exp", x[i], got[0], exp(v), (2 + floor(fabs(1.173 * v)) + 1) * ulp * exp(v));
		near("log", x[i], got[1], log(v),
			v < 0.5 || v > 2 ? 4 * ulp * fabs(log(v)) : 0x1p-21);
		near("sin", x[i], got[2], sin(v - 2), 0x1p-20);
		near("cos", x[i], got[3], cos(v - 2), 0x1p-20);
		near("1/x", x[i], got[4], 1 / v, 3 * ulp / v);
		near("rsqrt", x[i], got[5], 1 / sqrt(v), 3 * ulp / sqrt(v));
		near("pow", x[i], got[6], pow(v, 1.5), 1e-5 * pow(v, 1.5));
		near("rsqrt_rn", x[i], got[7], 1 / sqrt(v), ulp / sqrt(v));
	}
}

int main(void)
{
	static float host[3][COUNT], got[2][COUNT], fast[8 * COUNT];
	float *in = NULL, *out = NULL;
	unsigned state = 11;

	for (int i = 0; i < COUNT; i++) {
		host[0][i] = 5.0f + (float)(next_random(&state) % 25000) / 1000.0f;
		host[1][i] = 1.0f + (float)(next_random(&state) % 49000) / 1000.0f;
		host[2][i] = 0.25f + (float)(next_random(&state) % 4750) / 1000.0f;
	}
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(fast)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	price<<<COUNT / THREADS, THREADS>>>(in, in + COUNT, in + 2 * COUNT, out, out + COUNT);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	verify_prices(host, got[0], got[1]);
	approximate<<<COUNT / THREADS, THREADS>>>(in + 2 * COUNT, out);
	CHECK(cudaMemcpy(fast, out, sizeof(fast), cudaMemcpyDeviceToHost));
	verify_approximations(host[2], fast);
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	printf(NAME ": ok\n");
	return 0;
}
