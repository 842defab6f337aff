/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ends without cleaning up: memory, streams and queued work. The service has to free what it
 * leaves.
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

int main(void)
{
	cudaStream_t stream[3];

	for (int i = 0; i < 3; i++) {
		unsigned *data = NULL;

		CHECK(cudaStreamCreate(&stream[i]));
		CHECK(cudaMalloc(&data, 1 << 20));
		CHECK(cudaMemsetAsync(data, i, 1 << 20, stream[i]));
		spin<<<4, 64, 0, stream[i]>>>(data, 1000);
		CHECK(cudaGetLastError());
	}
	printf(NAME ": ok\n");
	return 0;
}
