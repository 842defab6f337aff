/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NVRTC: a kernel's source is composed and compiled while the program runs; the compiler
 * returns its name; the runtime's library calls load and launch it. And the compiler's
 * messages for a source with an error.
 * Runs: on a GPU
 * Builds with: -lnvrtc
 */

#define NAME "nvrtc_kernel"
#include <nvrtc.h>

#include "../helpers/program.h"

#define RTC(call) rtc_check((call), #call, __LINE__)

enum {
	COUNT = 1000,
	THREADS = 128
};

static const char source[] = "template <typename T, int FACTOR>\n"
			     "__global__ void scale(T *data, int n)\n"
			     "{\n"
			     "	int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
			     "	if (i < n)\n"
			     "		data[i] = data[i] * FACTOR + OFFSET;\n"
			     "}\n";

static void rtc_check(nvrtcResult result, const char *what, int line)
{
	if (result != NVRTC_SUCCESS)
		FAIL("line %d: %s: %s", line, what, nvrtcGetErrorString(result));
}

/* The PTX, and the kernel's name in it; the caller frees both. */
static char *compile(char **ret_name)
{
	const char *options[] = {"--gpu-architecture=compute_75", "-DOFFSET=5"};
	const char *expression = "scale<int, 3>", *name = NULL;
	nvrtcProgram program = NULL;
	size_t size = 0;
	char *ptx;

	RTC(nvrtcCreateProgram(&program, source, "scale.cu", 0, NULL, NULL));
	RTC(nvrtcAddNameExpression(program, expression));
	RTC(nvrtcCompileProgram(program, 2, options));
	RTC(nvrtcGetPTXSize(program, &size));
	ptx = (char *)malloc(size);
	RTC(nvrtcGetPTX(program, ptx));
	RTC(nvrtcGetLoweredName(program, expression, &name));
	*ret_name = strdup(name);
	RTC(nvrtcDestroyProgram(&program));
	return ptx;
}

static void run(const char *ptx, const char *name)
{
	static int host[COUNT];
	int *data = NULL, count = COUNT;
	void *params[] = {&data, &count};
	cudaLibrary_t library;
	cudaKernel_t kernel;

	for (int i = 0; i < COUNT; i++)
		host[i] = i - 500;
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cudaLibraryGetKernel(&kernel, library, name));
	CHECK(cudaLaunchKernel((const void *)kernel, dim3((COUNT + THREADS - 1) / THREADS),
		dim3(THREADS), params, 0, NULL));
	CHECK(cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		if (host[i] != (i - 500) * 3 + 5)
			FAIL("element %d is %d, not %d", i, host[i], (i - 500) * 3 + 5);
	CHECK(cudaLibraryUnload(library));
	CHECK(cudaFree(data));
}

static void try_error(void)
{
	nvrtcProgram program = NULL;
	char said[4096] = "";
	size_t size = 0;

	RTC(nvrtcCreateProgram(
		&program, "__global__ void f() { nowhere(); }\n", "wrong.cu", 0, NULL, NULL));
	if (nvrtcCompileProgram(program, 0, NULL) != NVRTC_ERROR_COMPILATION)
		FAIL("a wrong source is compiled");
	RTC(nvrtcGetProgramLogSize(program, &size));
	if (size > sizeof(said))
		FAIL("the log has %zu bytes", size);
	RTC(nvrtcGetProgramLog(program, said));
	if (!strstr(said, "nowhere"))
		FAIL("the log does not say what is wrong: %s", said);
	RTC(nvrtcDestroyProgram(&program));
}

int main(void)
{
	char *name = NULL, *ptx = compile(&name);

	run(ptx, name);
	try_error();
	free(ptx);
	free(name);
	printf(NAME ": ok\n");
	return 0;
}
