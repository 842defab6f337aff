/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with eager loading: the load of a bad image returns the error, for modules
 * and libraries, and leaves nothing behind; a good image has all its kernels at once.
 * `--stay' loads a library with the environment's setting and then pauses.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "eager"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)

enum {
	KERNELS = 12,
	LOG_SIZE = 500,
	TEXT_MAX = 8192
};

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static void fail(const char *what)
{
	printf(NAME ": %s\n", what);
	exit(1);
}

/* PTX of several kernels; the nth stores n. `is_bad': one of them is invalid. */
static const char *make_ptx(int is_bad)
{
	static char text[TEXT_MAX];
	size_t n =
		(size_t)snprintf(text, TEXT_MAX, ".version 7.0\n.target sm_75\n.address_size 64\n");

	for (int i = 0; i < KERNELS; i++)
		n += (size_t)snprintf(text + n, TEXT_MAX - n,
			".visible .entry store_%d(.param .u64 out)\n{\n"
			"	.reg .b32 %%r<2>;\n	.reg .b64 %%rd<3>;\n"
			"	ld.param.u64 %%rd1, [out];\n	cvta.to.global.u64 %%rd2, %%rd1;\n"
			"	%s %%r1, %d;\n	st.global.u32 [%%rd2], %%r1;\n	ret;\n}\n",
			i, is_bad && i == KERNELS - 1 ? "no.such.instruction" : "mov.u32", i);
	return text;
}

static void launch(CUfunction function, CUdeviceptr data, int wanted)
{
	void *params[] = {&data};
	int got = -1;

	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(&got, data, sizeof(got)));
	if (got != wanted)
		fail("a kernel stored another's number");
}

static void try_good(CUdeviceptr data)
{
	CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
	CUfunction function = NULL;
	CUlibrary library = NULL;
	CUmodule module = NULL;
	CUkernel kernel = NULL;
	char name[32];

	CHECK(cuModuleLoadData(&module, make_ptx(0)));
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "store_%d", i);
		CHECK(cuModuleGetFunction(&function, module, name));
		CHECK(cuFuncIsLoaded(&state, function));
		if (state != CU_FUNCTION_LOADING_STATE_LOADED)
			fail("a function of a module is not loaded");
		launch(function, data, i);
	}
	CHECK(cuModuleUnload(module));
	CHECK(cuLibraryLoadData(&library, make_ptx(0), NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "store_5"));
	CHECK(cuKernelGetFunction(&function, kernel));
	launch(function, data, 5);
	CHECK(cuLibraryUnload(library));
}

static void try_bad(void)
{
	char log[LOG_SIZE] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)LOG_SIZE};
	CUlibrary library = NULL;
	CUmodule module = NULL;

	EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, make_ptx(1)));
	EXPECT(CUDA_ERROR_INVALID_PTX,
		cuModuleLoadDataEx(&module, make_ptx(1), 2, options, values));
	if (!memchr(log, 0, LOG_SIZE) || log[0] == 0)
		fail("the error log of bad code is empty");
	/* For a library, the first use of a kernel returns the error. */
	CHECK(cuLibraryLoadData(&library, make_ptx(1), NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryUnload(library));
}

static int stay(void)
{
	CUlibrary library;

	CHECK(cuLibraryLoadData(&library, make_ptx(0), NULL, NULL, 0, NULL, NULL, 0));
	printf(NAME ": loaded\n");
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	int stays = argc == 2 && !strcmp(argv[1], "--stay");
	CUmoduleLoadingMode mode = CU_MODULE_LAZY_LOADING;
	CUcontext context;
	CUdeviceptr data;
	CUdevice device;

	/* cuInit() reads it. */
	if (!stays)
		setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	CHECK(cuInit(0));
	CHECK(cuModuleGetLoadingMode(&mode));
	if (mode != CU_MODULE_EAGER_LOADING && !stays)
		fail("code is loaded lazily");
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (stays)
		return stay();
	CHECK(cuMemAlloc(&data, sizeof(int)));
	try_bad();
	try_good(data);
	try_bad();
	CHECK(cuMemFree(data));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
