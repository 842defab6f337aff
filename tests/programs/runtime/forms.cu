/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An image in several forms, compressed: machine code for other GPUs, and PTX for two
 * architectures, of which the driver takes the newest that it can. The runtime also returns
 * the architecture for which the kernel was compiled.
 * Builds with: -Xfatbin -compress-all -gencode arch=compute_75,code=sm_75
 * Builds with: -gencode arch=compute_75,code=compute_75
 * Builds with: -gencode arch=compute_80,code=compute_80
 */

#define NAME "forms"
#include "../helpers/program.h"

static __device__ int table[1000] = {7};

static __global__ void tell(int *out)
{
#ifdef __CUDA_ARCH__
	out[0] = __CUDA_ARCH__;
#endif
	out[1] = table[threadIdx.x];
}

int main(void)
{
	cudaFuncAttributes attributes;
	int got[2] = {0, 0}, *data = NULL, major = 0;

	CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	CHECK(cudaMalloc(&data, sizeof(got)));
	tell<<<1, 1>>>(data);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	if (major >= 8 && got[0] != 800)
		FAIL("the kernel is of architecture %d, not 800", got[0]);
	if (got[1] != 7)
		FAIL("the table begins with %d, not 7", got[1]);
	CHECK(cudaFuncGetAttributes(&attributes, tell));
	if (attributes.ptxVersion * 10 != got[0])
		FAIL("the PTX is of version %d", attributes.ptxVersion);
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
