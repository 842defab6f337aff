/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocations in the order of streams when all memory of the GPU is in a pool, and other
 * streams are about to free it: the program waits for the frees, or work of the allocating
 * stream does. Needs most of the GPU's memory.
 *
 *   pool_full [--semaphore]
 *
 * with streams that wait for the host, too: no allocation may wait for these for ever.
 *
 * Runs: for a test of its own
 */

#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME "pool_full"
#include "../helpers/driver_program.h"

enum {
	UNITS = 8, /* of which the GPU's free memory consists */
	SLOW_US = 200000,
	WAIT_S = 60,
};

static size_t unit;
static CUstream first, second;

static void slow(void *arg)
{
	(void)arg;
	usleep(SLOW_US);
}

static CUdeviceptr take(unsigned n, CUstream stream)
{
	CUdeviceptr made = 0;

	CHECK(cuMemAllocAsync(&made, n * unit, stream));
	return made;
}

/* The legacy stream frees two blocks, neither of which is large enough. */
static void merged(void)
{
	CUdeviceptr blocks[2], large;

	for (unsigned i = 0; i < 2; i++)
		blocks[i] = take(3, first);
	CHECK(cuLaunchHostFunc(first, slow, NULL));
	for (unsigned i = 0; i < 2; i++)
		CHECK(cuMemFreeAsync(blocks[i], NULL));
	large = take(6, second);
	CHECK(cuMemsetD8Async(large, 1, 6 * unit, second));
	CHECK(cuMemFreeAsync(large, second));
	CHECK(cuCtxSynchronize());
}

static unsigned char byte_at(CUdeviceptr at)
{
	unsigned char byte = 0;

	CHECK(cuMemcpyDtoH(&byte, at, 1));
	return byte;
}

/* The memory's new owner does not touch it before its last owner is done. */
static void handed_over(void)
{
	CUdeviceptr old, new, copy = take(1, first);

	old = take(5, first);
	CHECK(cuMemsetD8Async(old, 1, unit, first));
	CHECK(cuLaunchHostFunc(first, slow, NULL));
	CHECK(cuMemcpyDtoDAsync(copy, old, unit, first));
	CHECK(cuMemFreeAsync(old, first));
	new = take(5, second);
	CHECK(cuMemsetD8Async(new, 2, unit, second));
	CHECK(cuCtxSynchronize());
	MUST(byte_at(copy) == 1 && byte_at(copy + unit - 1) == 1);
	MUST(byte_at(new) == 2 && byte_at(new + unit - 1) == 2);
	CHECK(cuMemFreeAsync(copy, first));
	CHECK(cuMemFreeAsync(new, second));
	CHECK(cuCtxSynchronize());
}

/* The same while the last owner waits for this thread. */
static void behind_semaphore(volatile uint32_t *word, CUdeviceptr at)
{
	CUdeviceptr old = take(5, first), new;

	*word = 0;
	CHECK(cuStreamWaitValue32(first, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	CHECK(cuMemFreeAsync(old, first));
	new = take(5, second);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
	*word = 1;
	CHECK(cuMemFreeAsync(new, second));
	CHECK(cuCtxSynchronize());
}

/* No single piece is large enough, and no wait can help. */
static void in_vain(volatile uint32_t *word, CUdeviceptr at)
{
	CUdeviceptr blocks[2], large = 0;
	time_t start;

	for (unsigned i = 0; i < 2; i++)
		blocks[i] = take(3, first);
	*word = 0;
	CHECK(cuStreamWaitValue32(first, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (unsigned i = 0; i < 2; i++)
		CHECK(cuMemFreeAsync(blocks[i], first));
	start = time(NULL);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&large, 6 * unit, second));
	MUST(time(NULL) - start < WAIT_S);
	*word = 1;
	CHECK(cuStreamSynchronize(first));
	CHECK(cuMemFreeAsync(take(6, second), second));
	CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	CUcontext context = NULL;
	volatile uint32_t *word;
	size_t n_free, total;
	CUdeviceptr at;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemGetInfo(&n_free, &total));
	unit = n_free / UNITS / (2 << 20) * (2 << 20);
	CHECK(cuStreamCreate(&first, CU_STREAM_DEFAULT));
	CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	merged();
	handed_over();
	if (argc > 1 && strcmp(argv[1], "--semaphore") == 0) {
		CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
		CHECK(cuMemHostGetDevicePointer(&at, (void *)(uintptr_t)word, 0));
		behind_semaphore(word, at);
		in_vain(word, at);
		CHECK(cuMemFreeHost((void *)(uintptr_t)word));
	}
	CHECK(cuStreamDestroy(first));
	CHECK(cuStreamDestroy(second));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
