/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A matrix product in tiles of shared memory, with sizes that are not multiples of the tile.
 * Small integers, so that the host's sum is exact.
 */

#define NAME "matmul"
#include "../helpers/program.h"

enum {
	TILE = 16,
	ROWS = 100,
	COLUMNS = 75,
	INNER = 130
};

static __global__ void product(const float *a, const float *b, float *c)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0.0f;

	for (int base = 0; base < INNER; base += TILE) {
		int ka = base + threadIdx.x, kb = base + threadIdx.y;

		tile_a[threadIdx.y][threadIdx.x] =
			row < ROWS && ka < INNER ? a[row * INNER + ka] : 0.0f;
		tile_b[threadIdx.y][threadIdx.x] =
			column < COLUMNS && kb < INNER ? b[kb * COLUMNS + column] : 0.0f;
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
		__syncthreads();
	}
	if (row < ROWS && column < COLUMNS)
		c[row * COLUMNS + column] = sum;
}

static float a[ROWS * INNER], b[INNER * COLUMNS], c[ROWS * COLUMNS];

static void verify(void)
{
	for (int row = 0; row < ROWS; row++) {
		for (int column = 0; column < COLUMNS; column++) {
			float want = 0.0f;

			for (int k = 0; k < INNER; k++)
				want += a[row * INNER + k] * b[k * COLUMNS + column];
			if (c[row * COLUMNS + column] == want)
				continue;
			printf(NAME ": c[%d][%d] is %g, not %g\n", row, column,
				c[row * COLUMNS + column], want);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double end = now_s() + options.seconds;
	dim3 grid((COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE), block(TILE, TILE);
	float *device_a = NULL, *device_b = NULL, *device_c = NULL;
	long round = 0;

	for (int i = 0; i < ROWS * INNER; i++)
		a[i] = (float)(i * 7 % 11 - 5);
	for (int i = 0; i < INNER * COLUMNS; i++)
		b[i] = (float)(i * 5 % 13 - 6);
	CHECK(cudaMalloc(&device_a, sizeof(a)));
	CHECK(cudaMalloc(&device_b, sizeof(b)));
	CHECK(cudaMalloc(&device_c, sizeof(c)));
	do {
		CHECK(cudaMemcpy(device_a, a, sizeof(a), cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(device_b, b, sizeof(b), cudaMemcpyHostToDevice));
		CHECK(cudaMemset(device_c, 0xff, sizeof(c)));
		product<<<grid, block>>>(device_a, device_b, device_c);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(c, device_c, sizeof(c), cudaMemcpyDeviceToHost));
		verify();
	} while (++round < options.rounds || now_s() < end);
	CHECK(cudaFree(device_a));
	CHECK(cudaFree(device_b));
	CHECK(cudaFree(device_c));
	printf(NAME ": ok\n");
	return 0;
}
