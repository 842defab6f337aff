/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Concurrent threads that allocate and free, each on its own stream from one pool:
 * each thread reads back what it wrote, whichever thread had the memory before.
 *
 * Builds with: -pthread
 */

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "alloc_threads"
#define CHECK(call) check((call), #call, __LINE__)

enum {
	THREADS = 6,
	LIVE = 8,
	ROUNDS = 150
};

static CUcontext context;
static unsigned first_seed; /* MPS_TEST_SEED, or 0 */
static int is_right;

static void check(CUresult result, const char *what, int line)
{
	if (result == CUDA_SUCCESS)
		return;
	printf(NAME ": line %d: %s: %d\n", line, what, result);
	exit(1);
}

static void check_ends(CUdeviceptr ptr, size_t size, unsigned char value, CUstream stream)
{
	unsigned char first = 0, last = 0;

	CHECK(cuMemcpyDtoHAsync(&first, ptr, 1, stream));
	CHECK(cuMemcpyDtoHAsync(&last, ptr + size - 1, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	if (first == value && last == value)
		return;
	printf(NAME ": %zu bytes hold %d and %d, not %d\n", size, first, last, value);
	exit(1);
}

static void *run(void *arg)
{
	unsigned seed = first_seed + (unsigned)(size_t)arg + 1;
	CUdeviceptr ptrs[LIVE] = {0};
	size_t sizes[LIVE] = {0};
	unsigned char values[LIVE] = {0};
	CUstream stream;

	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int round = 0; round < ROUNDS; round++) {
		int i = rand_r(&seed) % LIVE;

		if (ptrs[i]) {
			check_ends(ptrs[i], sizes[i], values[i], stream);
			CHECK(cuMemFreeAsync(ptrs[i], stream));
			ptrs[i] = 0;
			continue;
		}
		sizes[i] = 1 + (size_t)rand_r(&seed) % (1u << (8 + rand_r(&seed) % 14));
		values[i] = (unsigned char)rand_r(&seed);
		if (rand_r(&seed) % 4)
			CHECK(cuMemAllocAsync(&ptrs[i], sizes[i], stream));
		else
			CHECK(cuMemAlloc(&ptrs[i], sizes[i]));
		CHECK(cuMemsetD8Async(ptrs[i], values[i], sizes[i], stream));
	}
	for (int i = 0; i < LIVE; i++)
		if (ptrs[i]) {
			check_ends(ptrs[i], sizes[i], values[i], stream);
			CHECK(cuMemFree(ptrs[i]));
		}
	CHECK(cuStreamDestroy(stream));
	return NULL;
}

/* The seed repeats a failed run. */
static void tell_seed(void)
{
	if (!is_right)
		fprintf(stderr, NAME ": MPS_TEST_SEED=%u\n", first_seed);
}

int main(void)
{
	const char *seed = getenv("MPS_TEST_SEED");
	pthread_t threads[THREADS];
	CUdevice device;

	first_seed = seed ? (unsigned)strtoul(seed, NULL, 10) : 0;
	atexit(tell_seed);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
			return 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	is_right = 1;
	return 0;
}
