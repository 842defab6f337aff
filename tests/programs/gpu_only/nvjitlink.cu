/* SPDX-License-Identifier: Apache-2.0 */

/*
 * nvJitLink: a kernel and the function that it calls, compiled separately by NVRTC, linked
 * into a cubin for the present GPU, loaded and launched.
 * Runs: on a GPU
 * Builds with: -lnvJitLink -lnvrtc
 */

#define NAME "nvjitlink"
#include <nvJitLink.h>
#include <nvrtc.h>

#include "../helpers/program.h"

#define RTC(call) rtc_check((call), #call, __LINE__)
#define LINK(call) link_check((call), #call, __LINE__)

enum {
	THREADS = 64
};

static const char caller[] = "extern __device__ int outside(int x);\n"
			     "extern \"C\" __global__ void run(int *out)\n"
			     "{\n"
			     "	out[threadIdx.x] = outside(threadIdx.x) + 1;\n"
			     "}\n";
static const char called[] = "__device__ int outside(int x) { return x * x; }\n";

static void rtc_check(nvrtcResult result, const char *what, int line)
{
	if (result != NVRTC_SUCCESS)
		FAIL("line %d: %s: %s", line, what, nvrtcGetErrorString(result));
}

static void link_check(nvJitLinkResult result, const char *what, int line)
{
	if (result != NVJITLINK_SUCCESS)
		FAIL("line %d: %s: %d", line, what, (int)result);
}

static void add(nvJitLinkHandle linker, const char *source, const char *name)
{
	const char *options[] = {"--gpu-architecture=compute_75", "-rdc=true"};
	nvrtcProgram program = NULL;
	size_t size = 0;
	char *ptx;

	RTC(nvrtcCreateProgram(&program, source, name, 0, NULL, NULL));
	RTC(nvrtcCompileProgram(program, 2, options));
	RTC(nvrtcGetPTXSize(program, &size));
	ptx = (char *)malloc(size);
	RTC(nvrtcGetPTX(program, ptx));
	LINK(nvJitLinkAddData(linker, NVJITLINK_INPUT_PTX, ptx, size, name));
	RTC(nvrtcDestroyProgram(&program));
	free(ptx);
}

static void *link_all(void)
{
	nvJitLinkHandle linker;
	char arch[32];
	const char *options[] = {arch};
	cudaDeviceProp facts;
	size_t size = 0;
	void *cubin;

	CHECK(cudaGetDeviceProperties(&facts, 0));
	snprintf(arch, sizeof(arch), "-arch=sm_%d%d", facts.major, facts.minor);
	LINK(nvJitLinkCreate(&linker, 1, options));
	add(linker, caller, "caller");
	add(linker, called, "called");
	LINK(nvJitLinkComplete(linker));
	LINK(nvJitLinkGetLinkedCubinSize(linker, &size));
	cubin = malloc(size);
	LINK(nvJitLinkGetLinkedCubin(linker, cubin));
	LINK(nvJitLinkDestroy(&linker));
	return cubin;
}

int main(void)
{
	void *cubin = link_all();
	int host[THREADS], *out = NULL;
	void *params[] = {&out};
	cudaLibrary_t library;
	cudaKernel_t kernel;

	CHECK(cudaMalloc(&out, sizeof(host)));
	CHECK(cudaLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cudaLibraryGetKernel(&kernel, library, "run"));
	CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(THREADS), params, 0, NULL));
	CHECK(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < THREADS; i++)
		if (host[i] != i * i + 1)
			FAIL("thread %d has %d, not %d", i, host[i], i * i + 1);
	CHECK(cudaLibraryUnload(library));
	CHECK(cudaFree(out));
	free(cubin);
	printf(NAME ": ok\n");
	return 0;
}
