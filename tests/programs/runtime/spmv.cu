/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A sparse matrix with rows of every length, including empty ones, times a vector: one thread per
 * row, then one warp per row, in float and in double.
 */

#define NAME "spmv"
#include "../helpers/program.h"

enum {
	ROWS = 600,
	COLUMNS = 500,
	LONGEST = 90,
	THREADS = 128
};

template <typename T>
static __global__ void by_thread(
	const int *starts, const int *columns, const T *values, const T *x, T *y)
{
	int row = blockIdx.x * THREADS + threadIdx.x;
	T sum = 0;

	if (row >= ROWS)
		return;
	for (int i = starts[row]; i < starts[row + 1]; i++)
		sum += values[i] * __ldg(&x[columns[i]]);
	y[row] = sum;
}

template <typename T>
static __global__ void by_warp(
	const int *starts, const int *columns, const T *values, const T *x, T *y)
{
	int row = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
	T sum = 0;

	if (row >= ROWS)
		return;
	for (int i = starts[row] + lane; i < starts[row + 1]; i += 32)
		sum += values[i] * __ldg(&x[columns[i]]);
	for (int offset = 16; offset; offset /= 2)
		sum += __shfl_xor_sync(~0u, sum, offset);
	if (lane == 0)
		y[row] = sum;
}

static int host_starts[ROWS + 1], host_columns[ROWS * LONGEST];

static void make_rows(void)
{
	unsigned state = 23;

	for (int row = 0; row < ROWS; row++) {
		int length = row % 7 ? (int)(next_random(&state) % LONGEST) : 0;

		host_starts[row + 1] = host_starts[row] + length;
		for (int i = host_starts[row]; i < host_starts[row + 1]; i++)
			host_columns[i] = (int)(next_random(&state) % COLUMNS);
	}
}

template <typename T> static void verify(const T *y, const T *want, const char *how)
{
	static T got[ROWS];

	CHECK(cudaMemcpy(got, y, sizeof(got), cudaMemcpyDeviceToHost));
	for (int row = 0; row < ROWS; row++)
		if (got[row] != want[row])
			FAIL("%s, %zu bytes: row %d is %g, not %g", how, sizeof(T), row,
				(double)got[row], (double)want[row]);
}

/* Integers below 2^24, so that every order of addition gives the same sum. */
template <typename T> static void try_type(const int *starts, const int *columns)
{
	static T host_values[ROWS * LONGEST], host_x[COLUMNS], want[ROWS];
	T *values = NULL, *x = NULL, *y = NULL;

	for (int i = 0; i < host_starts[ROWS]; i++)
		host_values[i] = (T)(i % 19 - 9);
	for (int i = 0; i < COLUMNS; i++)
		host_x[i] = (T)(i % 31 - 15);
	for (int row = 0; row < ROWS; row++)
		for (int i = host_starts[row]; i < host_starts[row + 1]; i++)
			want[row] += host_values[i] * host_x[host_columns[i]];
	CHECK(cudaMalloc(&values, sizeof(host_values)));
	CHECK(cudaMalloc(&x, sizeof(host_x)));
	CHECK(cudaMalloc(&y, sizeof(want)));
	CHECK(cudaMemcpy(values, host_values, sizeof(host_values), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
	by_thread<<<(ROWS + THREADS - 1) / THREADS, THREADS>>>(starts, columns, values, x, y);
	verify(y, want, "a thread a row");
	CHECK(cudaMemset(y, 0xff, sizeof(want)));
	by_warp<<<(ROWS * 32 + THREADS - 1) / THREADS, THREADS>>>(starts, columns, values, x, y);
	verify(y, want, "a warp a row");
	CHECK(cudaFree(values));
	CHECK(cudaFree(x));
	CHECK(cudaFree(y));
}

int main(void)
{
	int *starts = NULL, *columns = NULL;

	make_rows();
	CHECK(cudaMalloc(&starts, sizeof(host_starts)));
	CHECK(cudaMalloc(&columns, sizeof(host_columns)));
	CHECK(cudaMemcpy(starts, host_starts, sizeof(host_starts), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(columns, host_columns, sizeof(host_columns), cudaMemcpyHostToDevice));
	try_type<float>(starts, columns);
	try_type<double>(starts, columns);
	CHECK(cudaFree(starts));
	CHECK(cudaFree(columns));
	printf(NAME ": ok\n");
	return 0;
}
