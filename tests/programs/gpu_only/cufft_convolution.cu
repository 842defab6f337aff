/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuFFT: a circular convolution of real numbers through their spectra, with a kernel of
 * the program between two plans, for a batch of rows.
 * Runs: on a GPU
 * Builds with: -lcufft
 */

#define NAME "cufft_convolution"
#include <cufft.h>
#include <math.h>

#include "../helpers/program.h"

#define FFT(call) fft_check((call), #call, __LINE__)

enum {
	SIZE = 1000, /* not a power of two */
	HALF = SIZE / 2 + 1,
	ROWS = 3
};

static void fft_check(cufftResult result, const char *what, int line)
{
	if (result != CUFFT_SUCCESS)
		FAIL("line %d: %s: %d", line, what, (int)result);
}

/* Multiplies each row's spectrum by the first row's. */
static __global__ void multiply(const float2 *with, const float2 *in, float2 *out)
{
	int i = threadIdx.x + blockIdx.x * blockDim.x;
	float2 a, b;

	if (i >= ROWS * HALF)
		return;
	a = with[i % HALF];
	b = in[i];
	out[i] = make_float2((a.x * b.x - a.y * b.y) / SIZE, (a.x * b.y + a.y * b.x) / SIZE);
}

int main(void)
{
	static float host[ROWS][SIZE], got[ROWS][SIZE];
	float2 *spectrum = NULL, *product = NULL;
	float *data = NULL;
	cufftHandle there, back;
	unsigned state = 13;

	for (int i = 0; i < ROWS * SIZE; i++)
		host[i / SIZE][i % SIZE] = (float)(next_random(&state) % 2001) / 1000.0f - 1;
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaMalloc(&spectrum, ROWS * HALF * sizeof(*spectrum)));
	CHECK(cudaMalloc(&product, ROWS * HALF * sizeof(*product)));
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	FFT(cufftPlan1d(&there, SIZE, CUFFT_R2C, ROWS));
	FFT(cufftPlan1d(&back, SIZE, CUFFT_C2R, ROWS));
	FFT(cufftExecR2C(there, data, spectrum));
	multiply<<<(ROWS * HALF + 127) / 128, 128>>>(spectrum, spectrum, product);
	FFT(cufftExecC2R(back, product, data));
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int row = 0; row < ROWS; row++)
		for (int i = 0; i < SIZE; i++) {
			double want = 0;

			for (int k = 0; k < SIZE; k++)
				want += (double)host[0][k] * host[row][(i + SIZE - k) % SIZE];
			if (fabs(got[row][i] - want) > 1e-3)
				FAIL("row %d, element %d is %g, not %g", row, i, got[row][i], want);
		}
	FFT(cufftDestroy(there));
	FFT(cufftDestroy(back));
	CHECK(cudaFree(data));
	CHECK(cudaFree(spectrum));
	CHECK(cudaFree(product));
	printf(NAME ": ok\n");
	return 0;
}
