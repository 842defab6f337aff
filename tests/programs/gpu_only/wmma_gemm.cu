/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tensor cores: a product in half precision with single-precision sums, one warp per tile of
 * 16 x 16. Small integers, so that the host's sums are exact.
 * Runs: on a GPU
 * Builds with: -arch=sm_75
 */

#define NAME "wmma_gemm"
#include <cuda_fp16.h>
#include <mma.h>

#include "../helpers/program.h"

using namespace nvcuda;

enum {
	TILE = 16,
	M = 64,
	N = 48,
	K = 96
};

static __global__ void multiply(const __half *a, const __half *b, float *c)
{
	wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, __half, wmma::row_major> left;
	wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, __half, wmma::col_major> right;
	wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> sum;
	int row = blockIdx.y * TILE, column = blockIdx.x * TILE;

	wmma::fill_fragment(sum, 0.0f);
	for (int k = 0; k < K; k += TILE) {
		wmma::load_matrix_sync(left, a + row * K + k, K);
		wmma::load_matrix_sync(right, b + column * K + k, K);
		wmma::mma_sync(sum, left, right, sum);
	}
	wmma::store_matrix_sync(c + row * N + column, sum, N, wmma::mem_row_major);
}

int main(void)
{
	static __half a[M * K], b[N * K];
	static float c[M * N];
	__half *da = NULL, *db = NULL;
	float *dc = NULL;
	unsigned state = 43;

	for (int i = 0; i < M * K; i++)
		a[i] = __half((float)((int)(next_random(&state) % 17) - 8));
	for (int i = 0; i < N * K; i++)
		b[i] = __half((float)((int)(next_random(&state) % 17) - 8));
	CHECK(cudaMalloc(&da, sizeof(a)));
	CHECK(cudaMalloc(&db, sizeof(b)));
	CHECK(cudaMalloc(&dc, sizeof(c)));
	CHECK(cudaMemcpy(da, a, sizeof(a), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b, sizeof(b), cudaMemcpyHostToDevice));
	multiply<<<dim3(N / TILE, M / TILE), 32>>>(da, db, dc);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost));
	for (int row = 0; row < M; row++)
		for (int column = 0; column < N; column++) {
			float want = 0;

			for (int k = 0; k < K; k++)
				want += (float)a[row * K + k] * (float)b[column * K + k];
			if (c[row * N + column] != want)
				FAIL("row %d, column %d is %g, not %g", row, column,
					c[row * N + column], want);
		}
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dc));
	printf(NAME ": ok\n");
	return 0;
}
