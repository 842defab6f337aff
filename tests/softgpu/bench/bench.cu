/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The speed of the interpreter: thread instructions per second in six kernels. The count of
 * a kernel is its rounds times the PTX instructions of a round, which tests/softgpu/bench/run
 * reads in the PTX that nvcc makes of this file. So each kernel has one loop, which is not
 * unrolled.
 */

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	THREADS = 256,
	BLOCKS = 4,
	ROUNDS = 2000,
	TILE = 16
};

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			printf("bench: %s: %s\n", #call, cudaGetErrorString(error_));              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

extern "C" __global__ void integers(unsigned *data, unsigned rounds)
{
	unsigned x = data[threadIdx.x];

#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++)
		x = (x ^ x << 5) * 2654435761u + (x >> 7) + i;
	data[threadIdx.x] = x;
}

extern "C" __global__ void floats(unsigned *data, unsigned rounds)
{
	float x = (float)threadIdx.x, y = x + 1, z = x + 2, w = x + 3;

#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++) {
		x = fmaf(x, 0.5f, y);
		y = fmaf(y, 0.25f, z);
		z = fmaf(z, 0.5f, w);
		w = fmaf(w, 0.25f, x);
	}
	data[threadIdx.x] = __float_as_uint(x + y + z + w);
}

/* A round is one step of a product of matrices of 16 x 16 tiles. */
extern "C" __global__ void tiles(unsigned *data, unsigned rounds)
{
	__shared__ float a[TILE][TILE], b[TILE][TILE];
	unsigned row = threadIdx.x / TILE, column = threadIdx.x % TILE;
	float sum = 0;

#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++) {
		a[row][column] = (float)i;
		b[row][column] = sum;
		__syncthreads();
#pragma unroll
		for (unsigned k = 0; k < TILE; k++)
			sum = fmaf(a[row][k], b[k][column], sum);
		__syncthreads();
	}
	data[threadIdx.x] = __float_as_uint(sum);
}

/* Half of the lanes of each warp take either way. */
extern "C" __global__ void branches(unsigned *data, unsigned rounds)
{
	unsigned x = threadIdx.x;

#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++) {
		if ((threadIdx.x + i) & 1)
			asm volatile("mul.lo.u32 %0, %0, 3; xor.b32 %0, %0, 77;" : "+r"(x));
		else
			asm volatile("add.u32 %0, %0, 9; shr.u32 %0, %0, 1;" : "+r"(x));
	}
	data[threadIdx.x] = x;
}

extern "C" __global__ void streaming(unsigned *data, unsigned rounds)
{
	volatile unsigned *at = data + blockIdx.x * blockDim.x + threadIdx.x;

#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++)
		at[THREADS * BLOCKS] = at[0] + i;
}

extern "C" __global__ void atomics(unsigned *data, unsigned rounds)
{
#pragma unroll 1
	for (unsigned i = 0; i < rounds; i++)
		atomicAdd(&data[(threadIdx.x + i) % 64], 1u);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The least of three runs: other programs of the machine only add to it. */
static double measure(const void *kernel, unsigned *data, unsigned rounds)
{
	void *args[] = {&data, &rounds};
	double best = 1e9;

	for (int i = 0; i < 3; i++) {
		double start = seconds();

		CHECK(cudaLaunchKernel(kernel, dim3(BLOCKS), dim3(THREADS), args, 0, NULL));
		CHECK(cudaDeviceSynchronize());
		if (seconds() - start < best)
			best = seconds() - start;
	}
	return best;
}

/* Arguments: pairs of a kernel and the instructions of one of its rounds. */
int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const void *kernel;
	} kernels[] = {
		{"integers", (const void *)integers},
		{"floats", (const void *)floats},
		{"tiles", (const void *)tiles},
		{"branches", (const void *)branches},
		{"streaming", (const void *)streaming},
		{"atomics", (const void *)atomics},
	};
	unsigned *data;

	CHECK(cudaMalloc(&data, 2 * THREADS * BLOCKS * sizeof(*data)));
	CHECK(cudaMemset(data, 0, 2 * THREADS * BLOCKS * sizeof(*data)));
	for (int i = 1; i + 1 < argc; i += 2)
		for (unsigned k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
			double time, n = (double)THREADS * BLOCKS * ROUNDS * atoi(argv[i + 1]);

			if (strcmp(argv[i], kernels[k].name) != 0)
				continue;
			time = measure(kernels[k].kernel, data, ROUNDS);
			printf("%-10s %6.0f\n", argv[i], n / time / 1e6);
		}
	CHECK(cudaFree(data));
	return 0;
}
