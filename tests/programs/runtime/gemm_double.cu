/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A matrix product in double precision: asynchronous copies fill tiles of shared memory in two
 * buffers, each thread has 2 x 2 results in registers, and the host repeats the fused
 * multiply-adds exactly.
 * Builds with: -arch=sm_80
 */

#define NAME "gemm_double"
#include <cuda_pipeline.h>
#include <math.h>

#include "../helpers/program.h"

enum {
	SIZE = 64,
	TILE = 16,
	SIDE = TILE / 2 /* of a block */
};

struct tiles {
	double a[TILE][TILE], b[TILE][TILE];
};

static __device__ void fetch(struct tiles *to, const double *a, const double *b, int k)
{
	for (int i = threadIdx.y * SIDE + threadIdx.x; i < TILE * TILE; i += SIDE * SIDE) {
		int row = i / TILE, column = i % TILE;

		__pipeline_memcpy_async(&to->a[row][column],
			&a[(blockIdx.y * TILE + row) * SIZE + k + column], sizeof(double));
		__pipeline_memcpy_async(&to->b[row][column],
			&b[(k + row) * SIZE + blockIdx.x * TILE + column], sizeof(double));
	}
	__pipeline_commit();
}

static __global__ void multiply(const double *a, const double *b, double *c)
{
	__shared__ struct tiles tiles[2];
	double sum[2][2] = {};
	int x = threadIdx.x, y = threadIdx.y;

	fetch(&tiles[0], a, b, 0);
	for (int k = 0; k < SIZE; k += TILE) {
		struct tiles *now = &tiles[k / TILE % 2];

		if (k + TILE < SIZE) {
			fetch(&tiles[(k / TILE + 1) % 2], a, b, k + TILE);
			__pipeline_wait_prior(1);
		} else {
			__pipeline_wait_prior(0);
		}
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			for (int n = 0; n < 4; n++)
				sum[n / 2][n % 2] = fma(now->a[y + n / 2 * SIDE][i],
					now->b[i][x + n % 2 * SIDE], sum[n / 2][n % 2]);
		__syncthreads();
	}
	for (int n = 0; n < 4; n++)
		c[(blockIdx.y * TILE + y + n / 2 * SIDE) * SIZE + blockIdx.x * TILE + x +
			n % 2 * SIDE] = sum[n / 2][n % 2];
}

int main(void)
{
	static double host[2][SIZE * SIZE], got[SIZE * SIZE];
	double *in = NULL, *out = NULL;
	unsigned state = 77;

	for (int i = 0; i < 2 * SIZE * SIZE; i++)
		host[i / (SIZE * SIZE)][i % (SIZE * SIZE)] =
			(double)next_random(&state) / 4294967296.0 - 0.5;
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	multiply<<<dim3(SIZE / TILE, SIZE / TILE), dim3(SIDE, SIDE)>>>(in, in + SIZE * SIZE, out);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int row = 0; row < SIZE; row++)
		for (int column = 0; column < SIZE; column++) {
			double want = 0;

			for (int k = 0; k < SIZE; k++)
				want = fma(
					host[0][row * SIZE + k], host[1][k * SIZE + column], want);
			if (got[row * SIZE + column] != want)
				FAIL("row %d, column %d is %.17g, not %.17g", row, column,
					got[row * SIZE + column], want);
		}
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	printf(NAME ": ok\n");
	return 0;
}
