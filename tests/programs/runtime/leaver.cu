/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ends without cleaning up: memory, streams and queued work. The service has to free what it
 * leaves. `leaver null ROUNDS' leaves work on the NULL stream of each GPU instead; a kernel of
 * 100 million rounds takes a quarter of a second.
 */

#define NAME "leaver"
#include "../helpers/program.h"

static __global__ void spin(unsigned *data, unsigned rounds)
{
	unsigned value = data[threadIdx.x];

	for (unsigned i = 0; i < rounds; i++)
		value = value * 1664525u + 1013904223u;
	data[threadIdx.x] = value;
}

static void leave(int value, unsigned rounds, cudaStream_t stream)
{
	unsigned *data = NULL;

	CHECK(cudaMalloc(&data, 1 << 20));
	CHECK(cudaMemsetAsync(data, value, 1 << 20, stream));
	spin<<<4, 64, 0, stream>>>(data, rounds);
	CHECK(cudaGetLastError());
}

static void leave_on_null_streams(unsigned rounds)
{
	int n_devices = 0;

	CHECK(cudaGetDeviceCount(&n_devices));
	for (int i = 0; i < n_devices; i++) {
		CHECK(cudaSetDevice(i));
		leave(i, rounds, 0);
	}
}

int main(int argc, char **argv)
{
	cudaStream_t stream[3];

	if (argc == 3 && !strcmp(argv[1], "null")) {
		leave_on_null_streams((unsigned)strtoul(argv[2], NULL, 10));
	} else {
		for (int i = 0; i < 3; i++) {
			CHECK(cudaStreamCreate(&stream[i]));
			leave(i, 1000, stream[i]);
		}
	}
	printf(NAME ": ok\n");
	return 0;
}
