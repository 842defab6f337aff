/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuSOLVER: a system of equations in double precision, solved with the QR factors and
 * with the LU factors of its matrix.
 * Runs: on a GPU
 * Builds with: -lcusolver -lcublas
 */

#define NAME "cusolver_qr"
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <math.h>

#include "../helpers/program.h"

#define SOLVER(call) solver_check((call), #call, __LINE__)

enum {
	SIZE = 80
};

static double a[SIZE * SIZE], x[SIZE], b[SIZE], got[SIZE];

static void solver_check(int status, const char *what, int line)
{
	if (status != 0)
		FAIL("line %d: %s: %d", line, what, status);
}

static void verify(const double *result, const char *how)
{
	CHECK(cudaMemcpy(got, result, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SIZE; i++)
		if (fabs(got[i] - x[i]) > 1e-9)
			FAIL("by %s: unknown %d is %.12g, not %.12g", how, i, got[i], x[i]);
}

static double *to_device(const double *data, size_t size)
{
	double *copy = NULL;

	CHECK(cudaMalloc(&copy, size));
	CHECK(cudaMemcpy(copy, data, size, cudaMemcpyHostToDevice));
	return copy;
}

static void must_be_0(const int *info, const char *what)
{
	int value = 1;

	CHECK(cudaMemcpy(&value, info, sizeof(value), cudaMemcpyDeviceToHost));
	if (value != 0)
		FAIL("%s says %d", what, value);
}

static void try_qr(cusolverDnHandle_t solver, cublasHandle_t blas, int *info)
{
	double *da = to_device(a, sizeof(a)), *db = to_device(b, sizeof(b)), *tau, *work;
	const double one = 1;
	int size = 0, size_q = 0;

	CHECK(cudaMalloc(&tau, SIZE * sizeof(*tau)));
	SOLVER(cusolverDnDgeqrf_bufferSize(solver, SIZE, SIZE, da, SIZE, &size));
	SOLVER(cusolverDnDormqr_bufferSize(solver, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, SIZE, 1, SIZE, da,
		SIZE, tau, db, SIZE, &size_q));
	size = size > size_q ? size : size_q;
	CHECK(cudaMalloc(&work, (size_t)size * sizeof(*work)));
	SOLVER(cusolverDnDgeqrf(solver, SIZE, SIZE, da, SIZE, tau, work, size, info));
	must_be_0(info, "geqrf");
	SOLVER(cusolverDnDormqr(solver, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, SIZE, 1, SIZE, da, SIZE, tau,
		db, SIZE, work, size, info));
	must_be_0(info, "ormqr");
	SOLVER(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
		CUBLAS_DIAG_NON_UNIT, SIZE, 1, &one, da, SIZE, db, SIZE));
	verify(db, "QR");
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(tau));
	CHECK(cudaFree(work));
}

static void try_lu(cusolverDnHandle_t solver, int *info)
{
	double *da = to_device(a, sizeof(a)), *db = to_device(b, sizeof(b)), *work;
	int *pivots, size = 0;

	CHECK(cudaMalloc(&pivots, SIZE * sizeof(*pivots)));
	SOLVER(cusolverDnDgetrf_bufferSize(solver, SIZE, SIZE, da, SIZE, &size));
	CHECK(cudaMalloc(&work, (size_t)size * sizeof(*work)));
	SOLVER(cusolverDnDgetrf(solver, SIZE, SIZE, da, SIZE, work, pivots, info));
	must_be_0(info, "getrf");
	SOLVER(cusolverDnDgetrs(solver, CUBLAS_OP_N, SIZE, 1, da, SIZE, pivots, db, SIZE, info));
	must_be_0(info, "getrs");
	verify(db, "LU");
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(pivots));
	CHECK(cudaFree(work));
}

int main(void)
{
	cusolverDnHandle_t solver = NULL;
	cublasHandle_t blas = NULL;
	unsigned state = 3;
	int *info = NULL;

	/* Dominant on its diagonal, so that no digits are lost. */
	for (int i = 0; i < SIZE * SIZE; i++)
		a[i] = (double)(next_random(&state) % 1000) / 1000 + (i % (SIZE + 1) ? 0 : SIZE);
	for (int i = 0; i < SIZE; i++)
		x[i] = i % 13 - 6;
	for (int row = 0; row < SIZE; row++)
		for (int column = 0; column < SIZE; column++)
			b[row] += a[column * SIZE + row] * x[column];
	SOLVER(cusolverDnCreate(&solver));
	SOLVER(cublasCreate(&blas));
	CHECK(cudaMalloc(&info, sizeof(*info)));
	try_qr(solver, blas, info);
	try_lu(solver, info);
	CHECK(cudaFree(info));
	SOLVER(cublasDestroy(blas));
	SOLVER(cusolverDnDestroy(solver));
	printf(NAME ": ok\n");
	return 0;
}
