/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuBLASLt: a product in bfloat16 with single-precision sums, chosen by its heuristic
 * within a workspace, with a bias added and negative values set to zero.
 * Runs: on a GPU
 * Builds with: -lcublasLt
 */

#define NAME "cublaslt_matmul"
#include <cublasLt.h>
#include <cuda_bf16.h>

#include "../helpers/program.h"

#define LT(call) lt_check((call), #call, __LINE__)

enum {
	M = 128,
	N = 96,
	K = 64,
	WORKSPACE = 4 << 20
};

static void lt_check(cublasStatus_t status, const char *what, int line)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		FAIL("line %d: %s: %d", line, what, (int)status);
}

static cublasLtMatmulDesc_t describe(const __nv_bfloat16 *bias)
{
	const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
	const cublasOperation_t transposed = CUBLAS_OP_T;
	cublasLtMatmulDesc_t desc = NULL;

	LT(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	LT(cublasLtMatmulDescSetAttribute(
		desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
	LT(cublasLtMatmulDescSetAttribute(
		desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
	LT(cublasLtMatmulDescSetAttribute(
		desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
	return desc;
}

static void multiply(
	const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *bias, __nv_bfloat16 *c)
{
	cublasLtMatmulDesc_t desc = describe(bias);
	cublasLtMatrixLayout_t la = NULL, lb = NULL, lc = NULL;
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t found;
	cublasLtHandle_t lt = NULL;
	const size_t workspace_size = WORKSPACE;
	const float alpha = 1, beta = 0;
	void *workspace = NULL;
	int n = 0;

	LT(cublasLtCreate(&lt));
	LT(cublasLtMatrixLayoutCreate(&la, CUDA_R_16BF, K, M, K));
	LT(cublasLtMatrixLayoutCreate(&lb, CUDA_R_16BF, K, N, K));
	LT(cublasLtMatrixLayoutCreate(&lc, CUDA_R_16BF, M, N, M));
	LT(cublasLtMatmulPreferenceCreate(&preference));
	LT(cublasLtMatmulPreferenceSetAttribute(preference,
		CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_size, sizeof(workspace_size)));
	LT(cublasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, lc, lc, preference, 1, &found, &n));
	if (n != 1)
		FAIL("no way is known to multiply them");
	CHECK(cudaMalloc(&workspace, WORKSPACE));
	LT(cublasLtMatmul(lt, desc, &alpha, a, la, b, lb, &beta, c, lc, c, lc, &found.algo,
		workspace, WORKSPACE, NULL));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(workspace));
	LT(cublasLtMatmulPreferenceDestroy(preference));
	LT(cublasLtMatrixLayoutDestroy(la));
	LT(cublasLtMatrixLayoutDestroy(lb));
	LT(cublasLtMatrixLayoutDestroy(lc));
	LT(cublasLtMatmulDescDestroy(desc));
	LT(cublasLtDestroy(lt));
}

/* Integers below 256, which are exact in bfloat16. */
int main(void)
{
	static __nv_bfloat16 a[M * K], b[N * K], bias[M], c[M * N];
	__nv_bfloat16 *da = NULL, *db = NULL, *dbias = NULL, *dc = NULL;
	unsigned state = 5;

	for (int i = 0; i < M * K; i++)
		a[i] = __nv_bfloat16((float)((int)(next_random(&state) % 3) - 1));
	for (int i = 0; i < N * K; i++)
		b[i] = __nv_bfloat16((float)((int)(next_random(&state) % 3) - 1));
	for (int i = 0; i < M; i++)
		bias[i] = __nv_bfloat16((float)(i % 21 - 10));
	CHECK(cudaMalloc(&da, sizeof(a)));
	CHECK(cudaMalloc(&db, sizeof(b)));
	CHECK(cudaMalloc(&dbias, sizeof(bias)));
	CHECK(cudaMalloc(&dc, sizeof(c)));
	CHECK(cudaMemcpy(da, a, sizeof(a), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b, sizeof(b), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(dbias, bias, sizeof(bias), cudaMemcpyHostToDevice));
	multiply(da, db, dbias, dc);
	CHECK(cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost));
	for (int row = 0; row < M; row++)
		for (int column = 0; column < N; column++) {
			float want = (float)bias[row];

			for (int k = 0; k < K; k++)
				want += (float)a[row * K + k] * (float)b[column * K + k];
			want = want > 0 ? want : 0;
			if ((float)c[column * M + row] != want)
				FAIL("row %d, column %d is %g, not %g", row, column,
					(float)c[column * M + row], want);
		}
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dbias));
	CHECK(cudaFree(dc));
	printf(NAME ": ok\n");
	return 0;
}
