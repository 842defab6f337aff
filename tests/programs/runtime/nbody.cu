/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bodies that attract each other: every block reads all of them through a tile of float4 in
 * shared memory, for a few steps. The host computes in double.
 */

#define NAME "nbody"
#include <math.h>

#include "../helpers/program.h"

enum {
	BODIES = 256,
	TILE = 64,
	STEPS = 3
};

#define SOFTENING 0.05f
#define STEP 0.01f

static __global__ void accelerate(const float4 *bodies, float4 *speeds)
{
	__shared__ float4 tile[TILE];
	unsigned i = blockIdx.x * TILE + threadIdx.x;
	float4 me = bodies[i];
	float3 sum = make_float3(0, 0, 0);

	for (unsigned start = 0; start < BODIES; start += TILE) {
		tile[threadIdx.x] = bodies[start + threadIdx.x];
		__syncthreads();
		for (unsigned k = 0; k < TILE; k++) {
			float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
			float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
			float pull = tile[k].w * inverse * inverse * inverse;

			sum.x += dx * pull;
			sum.y += dy * pull;
			sum.z += dz * pull;
		}
		__syncthreads();
	}
	speeds[i].x += sum.x * STEP;
	speeds[i].y += sum.y * STEP;
	speeds[i].z += sum.z * STEP;
}

static __global__ void move(float4 *bodies, const float4 *speeds)
{
	unsigned i = blockIdx.x * TILE + threadIdx.x;

	bodies[i].x += speeds[i].x * STEP;
	bodies[i].y += speeds[i].y * STEP;
	bodies[i].z += speeds[i].z * STEP;
}

struct body {
	double at[3], speed[3], mass;
};

static void host_step(struct body *bodies)
{
	for (int i = 0; i < BODIES; i++) {
		double sum[3] = {0, 0, 0};

		for (int k = 0; k < BODIES; k++) {
			double d[3], square = SOFTENING, pull;

			for (int c = 0; c < 3; c++) {
				d[c] = bodies[k].at[c] - bodies[i].at[c];
				square += d[c] * d[c];
			}
			pull = bodies[k].mass / (square * sqrt(square));
			for (int c = 0; c < 3; c++)
				sum[c] += d[c] * pull;
		}
		for (int c = 0; c < 3; c++)
			bodies[i].speed[c] += sum[c] * STEP;
	}
	for (int i = 0; i < BODIES; i++)
		for (int c = 0; c < 3; c++)
			bodies[i].at[c] += bodies[i].speed[c] * STEP;
}

int main(void)
{
	static struct body want[BODIES];
	static float4 host[BODIES];
	float4 *bodies = NULL, *speeds = NULL;
	unsigned state = 7;

	for (int i = 0; i < BODIES; i++) {
		float *at = &host[i].x;

		for (int c = 0; c < 4; c++)
			at[c] = (float)(next_random(&state) % 2001) / 1000.0f - (c < 3 ? 1.0f : 0);
		for (int c = 0; c < 3; c++)
			want[i].at[c] = at[c];
		want[i].mass = host[i].w;
	}
	CHECK(cudaMalloc(&bodies, sizeof(host)));
	CHECK(cudaMalloc(&speeds, sizeof(host)));
	CHECK(cudaMemcpy(bodies, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(speeds, 0, sizeof(host)));
	for (int step = 0; step < STEPS; step++) {
		accelerate<<<BODIES / TILE, TILE>>>(bodies, speeds);
		move<<<BODIES / TILE, TILE>>>(bodies, speeds);
		host_step(want);
	}
	CHECK(cudaMemcpy(host, bodies, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < BODIES; i++)
		for (int c = 0; c < 3; c++)
			if (fabs((&host[i].x)[c] - want[i].at[c]) > 1e-3)
				FAIL("body %d is at %g, not %g", i, (&host[i].x)[c], want[i].at[c]);
	CHECK(cudaFree(bodies));
	CHECK(cudaFree(speeds));
	printf(NAME ": ok\n");
	return 0;
}
