/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A Fourier transform of 1024 complex numbers in each of a few blocks, radix 2 in dynamic
 * shared memory, with twiddles from sincospif: the transform, compared with a sum in double,
 * and the inverse.
 */

#define NAME "fft"
#include <math.h>

#include "../helpers/program.h"

enum {
	BITS = 10,
	SIZE = 1 << BITS,
	BATCH = 4
};

static __global__ void transform(const float2 *in, float2 *out, float sign)
{
	extern __shared__ float2 data[];
	unsigned t = threadIdx.x;

	in += blockIdx.x * SIZE;
	out += blockIdx.x * SIZE;
	for (unsigned i = t; i < SIZE; i += SIZE / 2)
		data[__brev(i) >> (32 - BITS)] = in[i];
	for (unsigned half = 1; half < SIZE; half *= 2) {
		unsigned k = t & (half - 1), at = (t - k) * 2 + k;
		float s, c;
		float2 a, b;

		__syncthreads();
		sincospif(sign * (float)k / (float)half, &s, &c);
		a = data[at];
		b = data[at + half];
		b = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
		data[at] = make_float2(a.x + b.x, a.y + b.y);
		data[at + half] = make_float2(a.x - b.x, a.y - b.y);
	}
	__syncthreads();
	for (unsigned i = t; i < SIZE; i += SIZE / 2)
		out[i] = data[i];
}

/* A few of the frequencies, from their definition. */
static void verify_there(const float2 *host, const float2 *got)
{
	for (int k = 0; k < SIZE; k += 37) {
		double re = 0, im = 0;

		for (int i = 0; i < SIZE; i++) {
			double angle = -2 * M_PI * (double)(i * k % SIZE) / SIZE;

			re += host[i].x * cos(angle) - host[i].y * sin(angle);
			im += host[i].x * sin(angle) + host[i].y * cos(angle);
		}
		if (hypot(got[k].x - re, got[k].y - im) > 1e-3)
			FAIL("frequency %d is %g + %gi, not %g + %gi", k, got[k].x, got[k].y, re,
				im);
	}
}

int main(void)
{
	static float2 host[BATCH][SIZE], there[BATCH][SIZE], back[BATCH][SIZE];
	float2 *a = NULL, *b = NULL;
	unsigned state = 29;

	for (int n = 0; n < BATCH; n++)
		for (int i = 0; i < SIZE; i++) {
			host[n][i].x = (float)(next_random(&state) % 2001) / 1000.0f - 1;
			host[n][i].y = (float)(next_random(&state) % 2001) / 1000.0f - 1;
		}
	CHECK(cudaMalloc(&a, sizeof(host)));
	CHECK(cudaMalloc(&b, sizeof(host)));
	CHECK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
	transform<<<BATCH, SIZE / 2, SIZE * sizeof(float2)>>>(a, b, -1);
	transform<<<BATCH, SIZE / 2, SIZE * sizeof(float2)>>>(b, a, 1);
	CHECK(cudaMemcpy(there, b, sizeof(there), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(back, a, sizeof(back), cudaMemcpyDeviceToHost));
	for (int n = 0; n < BATCH; n++) {
		verify_there(host[n], there[n]);
		for (int i = 0; i < SIZE; i++)
			if (hypotf(back[n][i].x / SIZE - host[n][i].x,
				    back[n][i].y / SIZE - host[n][i].y) > 1e-5f)
				FAIL("element %d of %d does not come back", i, n);
	}
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	printf(NAME ": ok\n");
	return 0;
}
