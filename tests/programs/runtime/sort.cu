/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A bitonic sort of 2^13 keys with values: 91 launches in a row on one stream, each of which
 * depends on the previous one.
 */

#define NAME "sort"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 13,
	THREADS = 256
};

static __global__ void step(unsigned *keys, unsigned *values, unsigned size, unsigned distance)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ distance;

	if (other <= i)
		return;
	if ((keys[i] > keys[other]) == ((i & size) == 0)) {
		unsigned key = keys[i], value = values[i];

		keys[i] = keys[other];
		values[i] = values[other];
		keys[other] = key;
		values[other] = value;
	}
}

int main(void)
{
	static unsigned keys[COUNT], values[COUNT], sorted[COUNT];
	unsigned *device_keys = NULL, *device_values = NULL;

	for (unsigned i = 0; i < COUNT; i++) {
		keys[i] = i * 2654435761u;
		values[i] = i;
	}
	CHECK(cudaMalloc(&device_keys, sizeof(keys)));
	CHECK(cudaMalloc(&device_values, sizeof(values)));
	CHECK(cudaMemcpy(device_keys, keys, sizeof(keys), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_values, values, sizeof(values), cudaMemcpyHostToDevice));
	for (unsigned size = 2; size <= COUNT; size *= 2) {
		for (unsigned distance = size / 2; distance; distance /= 2)
			step<<<COUNT / THREADS, THREADS>>>(
				device_keys, device_values, size, distance);
	}
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(sorted, device_keys, sizeof(sorted), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(values, device_values, sizeof(values), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < COUNT; i++) {
		if (values[i] < COUNT && sorted[i] == keys[values[i]] &&
			(i == 0 || sorted[i - 1] < sorted[i]))
			continue;
		printf(NAME ": element %u is %u with value %u\n", i, sorted[i], values[i]);
		return 1;
	}
	CHECK(cudaFree(device_keys));
	CHECK(cudaFree(device_values));
	printf(NAME ": ok\n");
	return 0;
}
