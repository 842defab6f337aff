/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many SMs a program sees: before it has a context, after, and in everything that depends on
 * the number. --sms N: the number must be N.
 */

#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

#define NAME "sm_share"
#define CHECK(call) check((call), #call, __LINE__)
#define MUST(condition) must((condition), #condition, __LINE__)

enum {
	THREADS = 64
};

static void check(cudaError_t result, const char *what, int line)
{
	if (result == cudaSuccess)
		return;
	printf(NAME ": line %d: %s: %s\n", line, what, cudaGetErrorName(result));
	exit(1);
}

static void must(bool is_so, const char *what, int line)
{
	if (is_so)
		return;
	printf(NAME ": line %d: not so: %s\n", line, what);
	exit(1);
}

static __global__ void count(unsigned *n)
{
	atomicAdd(n, 1);
	cooperative_groups::this_grid().sync();
	if (threadIdx.x == 0 && blockIdx.x == 0)
		n[1] = n[0];
}

/* A driver call by its name, as the runtime finds it. */
template <typename Call> static Call driver_call(const char *name)
{
	void *call = nullptr;
	cudaDriverEntryPointQueryResult how;

	/* The runtime may be newer than the driver, which would refuse its version. */
	CHECK(cudaGetDriverEntryPointByVersion(name, &call, 12040, cudaEnableDefault, &how));
	MUST(how == cudaDriverEntryPointSuccess);
	return reinterpret_cast<Call>(call);
}

static void resources(unsigned n_sms)
{
	auto affinity = driver_call<CUresult (*)(CUexecAffinityParam *, CUexecAffinityType)>(
		"cuCtxGetExecAffinity");
	auto resource = driver_call<CUresult (*)(CUdevice, CUdevResource *, CUdevResourceType)>(
		"cuDeviceGetDevResource");
	CUexecAffinityParam param;
	CUdevResource sms;

	MUST(affinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT) == CUDA_SUCCESS);
	MUST(param.param.smCount.val == n_sms);
	MUST(resource(0, &sms, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
	MUST(sms.sm.smCount == n_sms);
}

/* Blocks that wait for each other: as many as fit, and one more, which is refused. */
static void cooperative(unsigned n_sms)
{
	unsigned *n, seen[2];
	void *params[] = {&n};
	int blocks = 0;

	CHECK(cudaMalloc(&n, sizeof(seen)));
	CHECK(cudaMemset(n, 0, sizeof(seen)));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, THREADS, 0));
	MUST(cudaLaunchCooperativeKernel((void *)count, n_sms * blocks + 1, THREADS, params, 0,
		     nullptr) == cudaErrorCooperativeLaunchTooLarge);
	(void)cudaGetLastError();
	CHECK(cudaLaunchCooperativeKernel((void *)count, n_sms, THREADS, params, 0, nullptr));
	CHECK(cudaMemcpy(seen, n, sizeof(seen), cudaMemcpyDeviceToHost));
	MUST(seen[1] == n_sms * THREADS);
	CHECK(cudaFree(n));
}

int main(int argc, char **argv)
{
	cudaDeviceProp before, after;
	int value = 0, grid = 0, block = 0, blocks = 0;
	unsigned n_sms;

	CHECK(cudaGetDeviceProperties(&before, 0));
	n_sms = (unsigned)before.multiProcessorCount;
	CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	MUST(value == (int)n_sms);
	CHECK(cudaFree(nullptr));
	CHECK(cudaGetDeviceProperties(&after, 0));
	MUST(after.multiProcessorCount == (int)n_sms);
	CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, count));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, block, 0));
	MUST(grid == blocks * (int)n_sms);
	resources(n_sms);
	cooperative(n_sms);
	if (argc == 3 && !strcmp(argv[1], "--sms") && n_sms != strtoul(argv[2], nullptr, 10)) {
		printf(NAME ": %u SMs, not %s\n", n_sms, argv[2]);
		return 1;
	}
	printf(NAME ": ok\n");
	return 0;
}
