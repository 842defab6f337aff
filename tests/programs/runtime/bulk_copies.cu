/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Large copies of pageable memory: sizes around the size of a piece, odd sizes and odd
 * addresses, several threads at once; every byte is checked. For the smaller copies, a kernel
 * changes each byte, so that the result shows the data were on the GPU.
 *
 * Builds with: -Xcompiler -pthread
 */

#define NAME "bulk_copies"
#include <pthread.h>

#include "../helpers/program.h"

#define MIB ((size_t)1 << 20)

enum {
	THREADS = 3
};

static __global__ void turn(unsigned char *bytes, size_t n, unsigned char by)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		bytes[i] ^= by;
}

static unsigned char pattern(size_t i, unsigned seed)
{
	return (unsigned char)((i * 2654435761u >> 13) + i + seed);
}

static bool round_trip(size_t size, size_t offset, unsigned seed, cudaStream_t stream)
{
	unsigned char *host = (unsigned char *)malloc(size + offset), *bytes = host + offset,
		      *device;
	bool is_right = true;

	for (size_t i = 0; i < size; i++)
		bytes[i] = pattern(i, seed);
	CHECK(cudaMalloc(&device, size + offset));
	CHECK(cudaMemcpyAsync(device + offset, bytes, size, cudaMemcpyHostToDevice, stream));
	/* The program may use its memory again. */
	memset(bytes, 0, size);
	if (size < MIB)
		turn<<<4, 64, 0, stream>>>(device + offset, size, (unsigned char)seed);
	CHECK(cudaMemcpyAsync(bytes, device + offset, size, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < size && is_right; i++) {
		unsigned char want = pattern(i, seed) ^ (size < MIB ? (unsigned char)seed : 0);

		if (bytes[i] != want) {
			printf(NAME ": byte %zu of %zu is %u, not %u\n", i, size, bytes[i], want);
			is_right = false;
		}
	}
	CHECK(cudaFree(device));
	free(host);
	return is_right;
}

static void *one_thread(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	cudaStream_t stream;
	bool is_right;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	is_right = round_trip(5 * MIB + seed, seed, seed, stream) &&
		   round_trip(9 * MIB - 1, 3 * seed, seed + 1, stream);
	CHECK(cudaStreamDestroy(stream));
	return is_right ? NULL : (void *)1;
}

int main(void)
{
	const size_t sizes[] = {
		4096, MIB - 1, MIB, MIB + 1, 2 * MIB + 4097, 16 * MIB, 20 * MIB + 7};
	pthread_t threads[THREADS];
	bool is_right = true;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		is_right = round_trip(sizes[i], i, (unsigned)i, 0) && is_right;
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, one_thread, (void *)(i + 11));
	for (int i = 0; i < THREADS; i++) {
		void *wrong = NULL;

		pthread_join(threads[i], &wrong);
		is_right = !wrong && is_right;
	}
	if (!is_right)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
