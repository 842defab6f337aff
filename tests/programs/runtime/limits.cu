/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a context that affect kernels: a recursion that needs more than the default stack,
 * and more memory from the device's heap.
 */

#define NAME "limits"
#include "../helpers/program.h"

#define STACK_FIRST 1024
#define STACK_WANTED ((size_t)16 << 10)
#define HEAP_WANTED ((size_t)24 << 20)

enum {
	DEPTH = 60,
	FRAME = 32,
	BLOCKS = 12,
	BLOCK_BYTES = 1 << 20
};

/* Each call keeps its words until the inner calls have returned. */
static __device__ __noinline__ unsigned descend(unsigned depth, unsigned seed)
{
	volatile unsigned words[FRAME];
	unsigned sum = 0;

	for (unsigned i = 0; i < FRAME; i++)
		words[i] = seed * (i + 1) + depth;
	if (depth > 0)
		sum = descend(depth - 1, seed + 1);
	for (unsigned i = 0; i < FRAME; i++)
		sum = sum * 3 + words[i];
	return sum;
}

static unsigned descend_here(unsigned depth, unsigned seed)
{
	unsigned sum = depth > 0 ? descend_here(depth - 1, seed + 1) : 0;

	for (unsigned i = 0; i < FRAME; i++)
		sum = sum * 3 + seed * (i + 1) + depth;
	return sum;
}

static __global__ void recurse(unsigned *out)
{
	out[threadIdx.x] = descend(DEPTH, threadIdx.x);
}

static __global__ void take(unsigned char **blocks)
{
	unsigned char *block = (unsigned char *)malloc(BLOCK_BYTES);

	if (block)
		block[BLOCK_BYTES - 1] = 7;
	blocks[blockIdx.x] = block;
}

static __global__ void give(unsigned char **blocks, unsigned *n_right)
{
	unsigned char *block = blocks[blockIdx.x];

	if (block && block[BLOCK_BYTES - 1] == 7)
		atomicAdd(n_right, 1u);
	free(block);
}

static void check_stack(void)
{
	unsigned *device, got[32];
	size_t size = 0;

	CHECK(cudaDeviceGetLimit(&size, cudaLimitStackSize));
	if (size != STACK_FIRST) {
		printf(NAME ": the stack has %zu bytes at first, not %d\n", size, STACK_FIRST);
		exit(1);
	}
	CHECK(cudaDeviceSetLimit(cudaLimitStackSize, STACK_WANTED));
	CHECK(cudaDeviceGetLimit(&size, cudaLimitStackSize));
	if (size < STACK_WANTED) {
		printf(NAME ": the stack has %zu bytes, not %zu\n", size, STACK_WANTED);
		exit(1);
	}
	CHECK(cudaMalloc(&device, sizeof(got)));
	recurse<<<1, 32>>>(device);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, device, sizeof(got), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < 32; i++)
		if (got[i] != descend_here(DEPTH, i)) {
			printf(NAME ": thread %u came back with %u\n", i, got[i]);
			exit(1);
		}
	CHECK(cudaFree(device));
}

static void check_heap(void)
{
	unsigned char **blocks;
	unsigned *n_right, got = 0;

	CHECK(cudaMalloc(&blocks, BLOCKS * sizeof(*blocks)));
	CHECK(cudaMalloc(&n_right, sizeof(*n_right)));
	CHECK(cudaMemset(n_right, 0, sizeof(*n_right)));
	take<<<BLOCKS, 1>>>(blocks);
	CHECK(cudaGetLastError());
	give<<<BLOCKS, 1>>>(blocks, n_right);
	CHECK(cudaMemcpy(&got, n_right, sizeof(got), cudaMemcpyDeviceToHost));
	if (got != BLOCKS) {
		printf(NAME ": the heap gave %u blocks of %d\n", got, BLOCKS);
		exit(1);
	}
	CHECK(cudaFree(n_right));
	CHECK(cudaFree(blocks));
}

int main(void)
{
	/* Before the heap is used. */
	CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, HEAP_WANTED));
	check_stack();
	check_heap();
	printf(NAME ": ok\n");
	return 0;
}
