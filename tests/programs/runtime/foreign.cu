/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with only machine code for another GPU: its kernel cannot be launched, for which the
 * runtime returns the right error, and everything that needs no kernel works.
 * Builds with: -gencode arch=compute_75,code=sm_75
 */

#define NAME "foreign"
#include "../helpers/program.h"

static __global__ void never(int *data)
{
	data[0] = 1;
}

int main(void)
{
	int host = 5, *data = NULL, major = 0;
	cudaError_t error;

	CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaMemset(data, 0, sizeof(host)));
	never<<<1, 1>>>(data);
	error = cudaGetLastError();
	if (major > 7 && error != cudaErrorNoKernelImageForDevice)
		FAIL("the launch says %s", cudaGetErrorString(error));
	CHECK(cudaMemcpy(&host, data, sizeof(host), cudaMemcpyDeviceToHost));
	if (host != (major > 7 ? 0 : 1))
		FAIL("the memory has %d", host);
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
