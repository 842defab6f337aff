/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A variable of __managed__, which kernels and the host reach by one pointer;
 * ends with the launch's error where that is not served.
 *
 * Runs: for a test of its own
 */

#define NAME "managed_variable"

#include "program.h"

static __managed__ int counter = 5;

static __global__ void count(int *pointer)
{
	counter += 1;
	*pointer += 10;
}

int main(void)
{
	int *pointer = &counter;
	cudaError_t error;

	count<<<1, 1>>>(pointer);
	error = cudaGetLastError();
	if (error != cudaSuccess)
		FAIL("%s", cudaGetErrorName(error));
	CHECK(cudaDeviceSynchronize());
	if (counter != 16 || *pointer != 16)
		FAIL("it is %d", counter);
	printf(NAME ": ok\n");
	return 0;
}
