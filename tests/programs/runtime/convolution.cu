/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A picture blurred by rows, then by columns: the weights are in constant memory, written by
 * name before each pass; tiles with a border are in shared memory. Integers, so that the
 * host's sums are exact.
 */

#define NAME "convolution"
#include "../helpers/program.h"

enum {
	RADIUS = 4,
	TAPS = 2 * RADIUS + 1,
	WIDTH = 150,
	HEIGHT = 90,
	SIZE = WIDTH * HEIGHT,
	BLOCK = 64
};

static __constant__ int weights[TAPS];

/* One line per row of blocks; neighbours in a line are `step' apart. */
static __global__ void convolve(const int *in, int *out, int length, int step, int line_step)
{
	__shared__ int tile[BLOCK + 2 * RADIUS];
	int start = blockIdx.x * BLOCK, i = start + threadIdx.x, sum = 0;

	in += blockIdx.y * line_step;
	out += blockIdx.y * line_step;
	for (int k = threadIdx.x; k < BLOCK + 2 * RADIUS; k += BLOCK) {
		int at = start + k - RADIUS;

		tile[k] = at >= 0 && at < length ? in[at * step] : 0;
	}
	__syncthreads();
	if (i >= length)
		return;
#pragma unroll
	for (int k = 0; k < TAPS; k++)
		sum += weights[k] * tile[threadIdx.x + k];
	out[i * step] = sum;
}

static void host_convolve(
	const int *in, int *out, const int *weight, int length, int step, int lines, int line_step)
{
	for (int line = 0; line < lines; line++)
		for (int i = 0; i < length; i++) {
			int sum = 0;

			for (int k = -RADIUS; k <= RADIUS; k++)
				if (i + k >= 0 && i + k < length)
					sum += weight[k + RADIUS] *
					       in[line * line_step + (i + k) * step];
			out[line * line_step + i * step] = sum;
		}
}

int main(void)
{
	static const int rows[TAPS] = {1, 2, 4, 7, 11, 7, 4, 2, 1};
	static const int columns[TAPS] = {-3, 5, 1, 0, 8, -2, 9, 4, -6};
	static int host[SIZE], middle[SIZE], want[SIZE], got[SIZE];
	int *a = NULL, *b = NULL;
	unsigned state = 5;

	for (int i = 0; i < SIZE; i++)
		host[i] = (int)(next_random(&state) % 511) - 255;
	host_convolve(host, middle, rows, WIDTH, 1, HEIGHT, WIDTH);
	host_convolve(middle, want, columns, HEIGHT, WIDTH, WIDTH, 1);
	CHECK(cudaMalloc(&a, sizeof(host)));
	CHECK(cudaMalloc(&b, sizeof(host)));
	CHECK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyToSymbol(weights, rows, sizeof(rows)));
	convolve<<<dim3((WIDTH + BLOCK - 1) / BLOCK, HEIGHT), BLOCK>>>(a, b, WIDTH, 1, WIDTH);
	/* After the kernel that still reads the first weights. */
	CHECK(cudaMemcpyToSymbol(weights, columns, sizeof(columns)));
	convolve<<<dim3((HEIGHT + BLOCK - 1) / BLOCK, WIDTH), BLOCK>>>(b, a, HEIGHT, WIDTH, 1);
	CHECK(cudaMemcpy(got, a, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SIZE; i++)
		if (got[i] != want[i])
			FAIL("row %d, column %d is %d, not %d", i / WIDTH, i % WIDTH, got[i],
				want[i]);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	printf(NAME ": ok\n");
	return 0;
}
