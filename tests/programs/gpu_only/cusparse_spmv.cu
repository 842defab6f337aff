/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuSPARSE: a sparse matrix in compressed rows times a vector, and times a dense matrix,
 * in integers that are exact in single precision.
 * Runs: on a GPU
 * Builds with: -lcusparse
 */

#define NAME "cusparse_spmv"
#include <cusparse.h>

#include "../helpers/program.h"

#define SPARSE(call) sparse_check((call), #call, __LINE__)

enum {
	ROWS = 500,
	COLUMNS = 400,
	EACH = 9, /* at most, a row */
	WIDTH = 6
};

static int starts[ROWS + 1], columns[ROWS * EACH];
static float values[ROWS * EACH], dense[COLUMNS * WIDTH], got[ROWS * WIDTH];

static void sparse_check(cusparseStatus_t status, const char *what, int line)
{
	if (status != CUSPARSE_STATUS_SUCCESS)
		FAIL("line %d: %s: %s", line, what, cusparseGetErrorString(status));
}

template <typename T> static T *to_device(const T *data, size_t size)
{
	T *copy = NULL;

	CHECK(cudaMalloc(&copy, size));
	CHECK(cudaMemcpy(copy, data, size, cudaMemcpyHostToDevice));
	return copy;
}

static void make_matrix(void)
{
	unsigned state = 21;

	for (int row = 0; row < ROWS; row++) {
		int n = (int)(next_random(&state) % (EACH + 1)), column = 0;

		starts[row + 1] = starts[row] + n;
		for (int i = starts[row]; i < starts[row + 1]; i++) {
			column += 1 + (int)(next_random(&state) % (COLUMNS / EACH - 1));
			columns[i] = column - 1;
			values[i] = (float)((int)(next_random(&state) % 19) - 9);
		}
	}
	for (int i = 0; i < COLUMNS * WIDTH; i++)
		dense[i] = (float)(i % 23 - 11);
}

static void verify(const float *result, int width, const char *what)
{
	CHECK(cudaMemcpy(
		got, result, (size_t)(ROWS * width) * sizeof(*got), cudaMemcpyDeviceToHost));
	for (int k = 0; k < width; k++)
		for (int row = 0; row < ROWS; row++) {
			float want = 0;

			for (int i = starts[row]; i < starts[row + 1]; i++)
				want += values[i] * dense[k * COLUMNS + columns[i]];
			if (got[k * ROWS + row] != want)
				FAIL("%s: row %d, column %d is %g, not %g", what, row, k,
					got[k * ROWS + row], want);
		}
}

static void try_vector(cusparseHandle_t sparse, cusparseSpMatDescr_t a, float *x, float *y)
{
	const float one = 1, zero = 0;
	cusparseDnVecDescr_t vx, vy;
	size_t size = 0;
	void *work = NULL;

	SPARSE(cusparseCreateDnVec(&vx, COLUMNS, x, CUDA_R_32F));
	SPARSE(cusparseCreateDnVec(&vy, ROWS, y, CUDA_R_32F));
	SPARSE(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero,
		vy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &size));
	CHECK(cudaMalloc(&work, size + 1));
	SPARSE(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy,
		CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, work));
	verify(y, 1, "times a vector");
	CHECK(cudaFree(work));
	SPARSE(cusparseDestroyDnVec(vx));
	SPARSE(cusparseDestroyDnVec(vy));
}

static void try_matrix(cusparseHandle_t sparse, cusparseSpMatDescr_t a, float *x, float *y)
{
	const float one = 1, zero = 0;
	cusparseDnMatDescr_t mx, my;
	size_t size = 0;
	void *work = NULL;

	SPARSE(cusparseCreateDnMat(
		&mx, COLUMNS, WIDTH, COLUMNS, x, CUDA_R_32F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseCreateDnMat(&my, ROWS, WIDTH, ROWS, y, CUDA_R_32F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseSpMM_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE,
		CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, mx, &zero, my, CUDA_R_32F,
		CUSPARSE_SPMM_ALG_DEFAULT, &size));
	CHECK(cudaMalloc(&work, size + 1));
	SPARSE(cusparseSpMM(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE,
		CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, mx, &zero, my, CUDA_R_32F,
		CUSPARSE_SPMM_ALG_DEFAULT, work));
	verify(y, WIDTH, "times a matrix");
	CHECK(cudaFree(work));
	SPARSE(cusparseDestroyDnMat(mx));
	SPARSE(cusparseDestroyDnMat(my));
}

int main(void)
{
	cusparseHandle_t sparse = NULL;
	cusparseSpMatDescr_t a;
	int *device_starts, *device_columns;
	float *device_values, *x, *y;

	make_matrix();
	device_starts = to_device(starts, sizeof(starts));
	device_columns = to_device(columns, sizeof(columns));
	device_values = to_device(values, sizeof(values));
	x = to_device(dense, sizeof(dense));
	y = to_device(got, sizeof(got));
	SPARSE(cusparseCreate(&sparse));
	SPARSE(cusparseCreateCsr(&a, ROWS, COLUMNS, starts[ROWS], device_starts, device_columns,
		device_values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
		CUDA_R_32F));
	try_vector(sparse, a, x, y);
	try_matrix(sparse, a, x, y);
	SPARSE(cusparseDestroySpMat(a));
	SPARSE(cusparseDestroy(sparse));
	CHECK(cudaFree(device_starts));
	CHECK(cudaFree(device_columns));
	CHECK(cudaFree(device_values));
	CHECK(cudaFree(x));
	CHECK(cudaFree(y));
	printf(NAME ": ok\n");
	return 0;
}
