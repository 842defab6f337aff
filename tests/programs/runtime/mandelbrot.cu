/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The Mandelbrot set in fixed point of 64 bits, which the host repeats exactly: loops that
 * threads leave at different times, and wide products.
 */

#define NAME "mandelbrot"
#include "../helpers/program.h"

enum {
	WIDTH = 96,
	HEIGHT = 64,
	ROUNDS = 60,
	FRACTION = 28
};

static __host__ __device__ int escapes_after(int column, int row)
{
	const long long one = 1ll << FRACTION;
	long long cx = column * (3 * one) / WIDTH - 2 * one;
	long long cy = row * (2 * one) / HEIGHT - one;
	long long x = 0, y = 0;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		long long xx = x * x >> FRACTION, yy = y * y >> FRACTION;

		if (xx + yy > 4 * one)
			break;
		y = (x * y >> (FRACTION - 1)) + cy;
		x = xx - yy + cx;
	}
	return round;
}

static __global__ void draw(unsigned char *picture)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	picture[row * WIDTH + column] = (unsigned char)escapes_after(column, row);
}

int main(void)
{
	static unsigned char got[HEIGHT][WIDTH];
	unsigned char *picture = NULL;
	int inside = 0;

	CHECK(cudaMalloc(&picture, sizeof(got)));
	draw<<<dim3(WIDTH / 16, HEIGHT / 8), dim3(16, 8)>>>(picture);
	CHECK(cudaMemcpy(got, picture, sizeof(got), cudaMemcpyDeviceToHost));
	for (int row = 0; row < HEIGHT; row++)
		for (int column = 0; column < WIDTH; column++) {
			int want = escapes_after(column, row);

			inside += want == ROUNDS;
			if (got[row][column] != want)
				FAIL("row %d, column %d escapes after %d, not %d", row, column,
					got[row][column], want);
		}
	if (inside < WIDTH * HEIGHT / 8 || inside > WIDTH * HEIGHT / 2)
		FAIL("%d points are in the set", inside);
	CHECK(cudaFree(picture));
	printf(NAME ": ok\n");
	return 0;
}
