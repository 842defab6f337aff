/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of matrices of doubles by nvcuda::wmma, one warp for each tile of 8 x 8, with every
 * order of the elements in memory. The numbers are small integers, so that each sum is exact.
 * Builds with: -arch=sm_80
 */

#define NAME "wmma_double"
#include <mma.h>

#include "../helpers/program.h"

using namespace nvcuda;

enum {
	TILE = 8,
	DEPTH = 4,
	M = 16,
	N = 24,
	K = 12
};

/* The place of an element in memory. */
static __host__ __device__ int at(bool is_row, int row, int column, int rows, int columns)
{
	return is_row ? row * columns + column : column * rows + row;
}

template <typename A, typename B, bool C_ROW>
static __global__ void multiply(const double *a, const double *b, double *c)
{
#if __CUDA_ARCH__ >= 800
	const bool a_row = std::is_same<A, wmma::row_major>::value;
	const bool b_row = std::is_same<B, wmma::row_major>::value;
	const wmma::layout_t order = C_ROW ? wmma::mem_row_major : wmma::mem_col_major;
	wmma::fragment<wmma::matrix_a, TILE, TILE, DEPTH, double, A> left;
	wmma::fragment<wmma::matrix_b, TILE, TILE, DEPTH, double, B> right;
	wmma::fragment<wmma::accumulator, TILE, TILE, DEPTH, double> sum;
	int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
	double *tile = c + at(C_ROW, row, column, M, N);

	wmma::load_matrix_sync(sum, tile, C_ROW ? N : M, order);
	for (int k = 0; k < K; k += DEPTH) {
		wmma::load_matrix_sync(left, a + at(a_row, row, k, M, K), a_row ? K : M);
		wmma::load_matrix_sync(right, b + at(b_row, k, column, K, N), b_row ? N : K);
		wmma::mma_sync(sum, left, right, sum);
	}
	wmma::store_matrix_sync(tile, sum, C_ROW ? N : M, order);
#endif
}

template <typename A, typename B, bool C_ROW> static void check(double *a, double *b, double *c)
{
	const bool a_row = std::is_same<A, wmma::row_major>::value;
	const bool b_row = std::is_same<B, wmma::row_major>::value;

	for (int i = 0; i < M * K; i++)
		a[i] = 7 * i % 11 - 3;
	for (int i = 0; i < K * N; i++)
		b[i] = 5 * i % 13 - 4;
	for (int i = 0; i < M * N; i++)
		c[i] = 100 * i;
	multiply<A, B, C_ROW><<<dim3(N / TILE, M / TILE), 32>>>(a, b, c);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			double sum = 100 * at(C_ROW, i, j, M, N);
			double found = c[at(C_ROW, i, j, M, N)];

			for (int k = 0; k < K; k++)
				sum += a[at(a_row, i, k, M, K)] * b[at(b_row, k, j, K, N)];
			if (found != sum)
				FAIL("%d %d %d: element %d, %d is %g, not %g", a_row, b_row, C_ROW,
					i, j, found, sum);
		}
}

template <typename A, typename B> static void check_results(double *a, double *b, double *c)
{
	check<A, B, false>(a, b, c);
	check<A, B, true>(a, b, c);
}

int main(void)
{
	double *a, *b, *c;

	CHECK(cudaMallocManaged(&a, M * K * sizeof(*a)));
	CHECK(cudaMallocManaged(&b, K * N * sizeof(*b)));
	CHECK(cudaMallocManaged(&c, M * N * sizeof(*c)));
	check_results<wmma::row_major, wmma::row_major>(a, b, c);
	check_results<wmma::row_major, wmma::col_major>(a, b, c);
	check_results<wmma::col_major, wmma::row_major>(a, b, c);
	check_results<wmma::col_major, wmma::col_major>(a, b, c);
	CHECK(cudaFree(c));
	CHECK(cudaFree(b));
	CHECK(cudaFree(a));
	printf(NAME ": ok\n");
	return 0;
}
