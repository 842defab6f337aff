/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Wrong arguments: each call returns the driver's error, which is cleared once read and has no
 * other effect on the program.
 */

#define NAME "errors"
#include "../helpers/program.h"

static __global__ void store(int *where, int value)
{
	*where = value;
}

static int n_wrong;

static void expect(const char *what, cudaError_t got, cudaError_t want)
{
	if (got == want)
		return;
	n_wrong++;
	printf(NAME ": %s returned %d (%s), not %d (%s)\n", what, got, cudaGetErrorString(got),
		want, cudaGetErrorString(want));
}

/* The error is kept until it is read once. */
static void expect_last(const char *what, cudaError_t want)
{
	expect(what, cudaPeekAtLastError(), want);
	expect(what, cudaGetLastError(), want);
	expect("cudaGetLastError, again,", cudaGetLastError(), cudaSuccess);
}

static void memory(int *data)
{
	void *more = NULL;
	int host[4];
	int on_stack;

	expect("cudaMalloc(NULL)", cudaMalloc((void **)NULL, 4), cudaErrorInvalidValue);
	expect_last("after cudaMalloc(NULL)", cudaErrorInvalidValue);
	expect("cudaMalloc of 2^60 bytes", cudaMalloc(&more, 1ULL << 60),
		cudaErrorMemoryAllocation);
	expect_last("after cudaMalloc of 2^60 bytes", cudaErrorMemoryAllocation);
	expect("cudaFree of the stack", cudaFree(&on_stack), cudaErrorInvalidValue);
	expect("cudaFree(NULL)", cudaFree(NULL), cudaSuccess);
	expect("cudaMemcpy with direction 9",
		cudaMemcpy(data, host, sizeof(host), (cudaMemcpyKind)9),
		cudaErrorInvalidMemcpyDirection);
	expect("cudaMemcpy past the end",
		cudaMemcpy(data, host, 1ULL << 40, cudaMemcpyDeviceToDevice),
		cudaErrorInvalidValue);
	expect("cudaMemset(NULL)", cudaMemset(NULL, 0, 16), cudaErrorInvalidValue);
	cudaGetLastError();
}

static void launches(int *data)
{
	store<<<1, 4096>>>(data, 1);
	expect_last("a block of 4096 threads", cudaErrorInvalidValue); /* as in driver 580 */
	store<<<0, 1>>>(data, 1);
	expect_last("a grid of 0 blocks", cudaErrorInvalidValue);
	store<<<1, 1, 1 << 20>>>(data, 1);
	expect_last("1 MiB of shared memory", cudaErrorInvalidValue);
}

static void devices(void)
{
	int count = 0, value = 0;

	CHECK(cudaGetDeviceCount(&count));
	expect("cudaSetDevice(count)", cudaSetDevice(count), cudaErrorInvalidDevice);
	expect("cudaSetDevice(-1)", cudaSetDevice(-1), cudaErrorInvalidDevice);
	expect("cudaDeviceGetAttribute of 9999",
		cudaDeviceGetAttribute(&value, (cudaDeviceAttr)9999, 0), cudaErrorInvalidValue);
	cudaGetLastError();
}

int main(void)
{
	int *data = NULL, result = 0;

	CHECK(cudaMalloc(&data, 4096));
	memory(data);
	launches(data);
	devices();
	store<<<1, 1>>>(data, 7);
	CHECK(cudaMemcpy(&result, data, sizeof(result), cudaMemcpyDeviceToHost));
	if (result != 7) {
		printf(NAME ": after the errors a kernel stored %d, not 7\n", result);
		return 1;
	}
	CHECK(cudaFree(data));
	if (n_wrong)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
