/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A matrix transposed through tiles of shared memory with a padded row, for elements of 1, 2, 4, 8
 * and 16 bytes and sides that are not multiples of a tile.
 */

#define NAME "transpose"
#include "../helpers/program.h"

enum {
	TILE = 16,
	ROWS = 70,
	COLUMNS = 101,
	SIZE = ROWS * COLUMNS
};

template <typename T> static __global__ void transpose(const T *in, T *out, int rows, int columns)
{
	__shared__ T tile[TILE][TILE + 1];
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

	if (x < columns && y < rows)
		tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
	__syncthreads();
	x = blockIdx.y * TILE + threadIdx.x;
	y = blockIdx.x * TILE + threadIdx.y;
	if (x < rows && y < columns)
		out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

template <typename T> static void try_type(const char *name)
{
	static unsigned char from[SIZE * sizeof(T)], to[SIZE * sizeof(T)];
	T *in = NULL, *out = NULL;
	unsigned state = 99;

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)next_random(&state);
	CHECK(cudaMalloc(&in, sizeof(from)));
	CHECK(cudaMalloc(&out, sizeof(to)));
	CHECK(cudaMemcpy(in, from, sizeof(from), cudaMemcpyHostToDevice));
	transpose<<<dim3((COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE),
		dim3(TILE, TILE)>>>(in, out, ROWS, COLUMNS);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(to, out, sizeof(to), cudaMemcpyDeviceToHost));
	for (int y = 0; y < ROWS; y++)
		for (int x = 0; x < COLUMNS; x++)
			if (memcmp(from + (y * COLUMNS + x) * sizeof(T),
				    to + (x * ROWS + y) * sizeof(T), sizeof(T)))
				FAIL("%s: row %d, column %d", name, y, x);
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
}

int main(void)
{
	try_type<unsigned char>("char");
	try_type<unsigned short>("short");
	try_type<float>("float");
	try_type<double>("double");
	try_type<uint4>("uint4");
	printf(NAME ": ok\n");
	return 0;
}
