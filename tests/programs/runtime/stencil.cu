/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Heat that spreads over a plane of 96 x 96: two alternating buffers, borders, and the same
 * single-precision steps on the host, which must agree exactly.
 */

#define NAME "stencil"
#include "../helpers/program.h"

enum {
	SIDE = 96,
	STEPS = 20,
	TILE = 16
};

static __host__ __device__ float relax(const float *from, int x, int y)
{
	const float *at = from + y * SIDE + x;

	if (x == 0 || y == 0 || x == SIDE - 1 || y == SIDE - 1)
		return *at;
	/* Quarters are exact, so only the sums round. */
	return ((at[-1] + at[1]) + (at[-SIDE] + at[SIDE])) * 0.25f;
}

static __global__ void heat(const float *from, float *to)
{
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

	to[y * SIDE + x] = relax(from, x, y);
}

static float plane[2][SIDE * SIDE], got[SIDE * SIDE];

int main(void)
{
	dim3 grid(SIDE / TILE, SIDE / TILE), block(TILE, TILE);
	float *device[2] = {NULL, NULL};

	for (int i = 0; i < SIDE * SIDE; i++)
		plane[0][i] = (float)(i * 37 % 101);
	for (int i = 0; i < 2; i++)
		CHECK(cudaMalloc(&device[i], sizeof(got)));
	CHECK(cudaMemcpy(device[0], plane[0], sizeof(got), cudaMemcpyHostToDevice));
	for (int step = 0; step < STEPS; step++) {
		heat<<<grid, block>>>(device[step % 2], device[(step + 1) % 2]);
		CHECK(cudaGetLastError());
		for (int y = 0; y < SIDE; y++)
			for (int x = 0; x < SIDE; x++)
				plane[(step + 1) % 2][y * SIDE + x] = relax(plane[step % 2], x, y);
	}
	CHECK(cudaMemcpy(got, device[STEPS % 2], sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SIDE * SIDE; i++) {
		if (got[i] == plane[STEPS % 2][i])
			continue;
		printf(NAME ": point %d is %g, not %g\n", i, got[i], plane[STEPS % 2][i]);
		return 1;
	}
	CHECK(cudaFree(device[0]));
	CHECK(cudaFree(device[1]));
	printf(NAME ": ok\n");
	return 0;
}
