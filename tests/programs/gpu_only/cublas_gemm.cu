/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuBLAS: products of matrices in single and double precision, transposed and
 * not, batched, and in half precision with single sums, on a stream.
 * Runs: on a GPU
 * Builds with: -lcublas
 */

#define NAME "cublas_gemm"
#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "../helpers/program.h"

#define BLAS(call) blas_check((call), #call, __LINE__)

enum {
	M = 67,
	N = 45,
	K = 129,
	BATCH = 5
};

static void blas_check(cublasStatus_t status, const char *what, int line)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		FAIL("line %d: %s: %s", line, what, cublasGetStatusString(status));
}

/* Small integers: every precision here has their sums exactly. */
template <typename T> static void fill(T *data, int n, int seed)
{
	unsigned state = (unsigned)seed;

	for (int i = 0; i < n; i++)
		data[i] = T((float)((int)(next_random(&state) % 7) - 3));
}

/* Column-major as in BLAS; b is given by rows. */
template <typename A, typename C>
static void verify(const A *a, const A *b, const C *c, const char *what)
{
	for (int row = 0; row < M; row++)
		for (int column = 0; column < N; column++) {
			float want = 0;

			for (int k = 0; k < K; k++)
				want += (float)a[k * M + row] * (float)b[k * N + column];
			if ((float)c[column * M + row] != 2 * want)
				FAIL("%s: row %d, column %d is %g, not %g", what, row, column,
					(double)c[column * M + row], 2 * (double)want);
		}
}

static cublasStatus_t multiply(cublasHandle_t blas, const float *a, const float *b, float *c)
{
	const float alpha = 2, beta = 0;

	return cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, M, N, K, &alpha, a, M,
		M * K, b, N, N * K, &beta, c, M, M * N, BATCH);
}

static cublasStatus_t multiply(cublasHandle_t blas, const double *a, const double *b, double *c)
{
	const double alpha = 2, beta = 0;
	cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

	for (int i = 0; i < BATCH && status == CUBLAS_STATUS_SUCCESS; i++)
		status = cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, M, N, K, &alpha, a + i * M * K,
			M, b + i * N * K, N, &beta, c + i * M * N, M);
	return status;
}

static cublasStatus_t multiply(cublasHandle_t blas, const __half *a, const __half *b, float *c)
{
	const float alpha = 2, beta = 0;

	return cublasGemmStridedBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, M, N, K, &alpha, a,
		CUDA_R_16F, M, M * K, b, CUDA_R_16F, N, N * K, &beta, c, CUDA_R_32F, M, M * N,
		BATCH, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

template <typename A, typename C>
static void try_type(cublasHandle_t blas, cudaStream_t stream, const char *what)
{
	static A a[BATCH * M * K], b[BATCH * N * K];
	static C c[BATCH * M * N];
	A *da = NULL, *db = NULL;
	C *dc = NULL;

	fill(a, BATCH * M * K, 1);
	fill(b, BATCH * N * K, 2);
	CHECK(cudaMalloc(&da, sizeof(a)));
	CHECK(cudaMalloc(&db, sizeof(b)));
	CHECK(cudaMalloc(&dc, sizeof(c)));
	CHECK(cudaMemcpyAsync(da, a, sizeof(a), cudaMemcpyHostToDevice, stream));
	CHECK(cudaMemcpyAsync(db, b, sizeof(b), cudaMemcpyHostToDevice, stream));
	BLAS(multiply(blas, da, db, dc));
	CHECK(cudaMemcpyAsync(c, dc, sizeof(c), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < BATCH; i++)
		verify(a + i * M * K, b + i * N * K, c + i * M * N, what);
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dc));
}

int main(void)
{
	cublasHandle_t blas = NULL;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	BLAS(cublasCreate(&blas));
	BLAS(cublasSetStream(blas, stream));
	try_type<float, float>(blas, stream, "single");
	try_type<double, double>(blas, stream, "double");
	try_type<__half, float>(blas, stream, "half");
	BLAS(cublasDestroy(blas));
	CHECK(cudaStreamDestroy(stream));
	printf(NAME ": ok\n");
	return 0;
}
