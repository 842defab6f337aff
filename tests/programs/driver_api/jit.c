/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's compiler: options, logs, and PTX with an error, as a module and as a
 * library.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "jit"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)

enum {
	LOG_SIZE = 2000,
	OPTIONS = 6
};

#define PTX(body)                                                                                  \
	".version 7.0\n"                                                                           \
	".target sm_75\n"                                                                          \
	".address_size 64\n"                                                                       \
	".visible .entry seven(.param .u64 out)\n"                                                 \
	"{\n"                                                                                      \
	"	.reg .b32 %r<2>;\n"                                                                      \
	"	.reg .b64 %rd<3>;\n" body "	ret;\n"                                                \
	"}\n"

static const char good[] = PTX("	ld.param.u64 %rd1, [out];\n"
			       "	cvta.to.global.u64 %rd2, %rd1;\n"
			       "	mov.u32 %r1, 7;\n"
			       "	st.global.u32 [%rd2], %r1;\n");
static const char bad[] = PTX("	no.such.instruction %r1, %r7;\n");

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

struct logs {
	char error[LOG_SIZE], info[LOG_SIZE];
	void *values[OPTIONS];
};

static CUjit_option options[OPTIONS] = {
	CU_JIT_ERROR_LOG_BUFFER,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_INFO_LOG_BUFFER,
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_MAX_REGISTERS,
	CU_JIT_OPTIMIZATION_LEVEL,
};

static void logs_init(struct logs *logs)
{
	memset(logs->error, 0, LOG_SIZE);
	memset(logs->info, 0, LOG_SIZE);
	logs->values[0] = logs->error;
	logs->values[1] = (void *)(uintptr_t)LOG_SIZE;
	logs->values[2] = logs->info;
	logs->values[3] = (void *)(uintptr_t)LOG_SIZE;
	logs->values[4] = (void *)(uintptr_t)32;
	logs->values[5] = (void *)(uintptr_t)3;
}

static void try_good(CUdeviceptr data)
{
	struct logs logs;
	CUmodule module = NULL;
	CUfunction function = NULL;
	void *params[] = {&data};
	unsigned got = 0;

	logs_init(&logs);
	CHECK(cuModuleLoadDataEx(&module, good, OPTIONS, options, logs.values));
	if (logs.error[0] != 0)
		fail("the error log of good code is not empty");
	if (!memchr(logs.info, 0, LOG_SIZE))
		fail("the info log has no end");
	CHECK(cuModuleGetFunction(&function, module, "seven"));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(&got, data, sizeof(got)));
	if (got != 7)
		fail("the kernel did not store 7");
	CHECK(cuModuleUnload(module));
}

static void try_bad(void)
{
	struct logs logs;
	CUmodule module = NULL;
	CUlibrary library = NULL;
	CUkernel kernel = NULL;

	EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, bad));
	logs_init(&logs);
	EXPECT(CUDA_ERROR_INVALID_PTX,
		cuModuleLoadDataEx(&module, bad, OPTIONS, options, logs.values));
	if (!memchr(logs.error, 0, LOG_SIZE) || logs.error[0] == 0)
		fail("the error log of bad code is empty");
	if ((uintptr_t)logs.values[1] == 0 || (uintptr_t)logs.values[1] > LOG_SIZE)
		fail("the size of the error log was not set");
	CHECK(cuLibraryLoadData(&library, bad, NULL, NULL, 0, NULL, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_PTX, cuLibraryGetKernel(&kernel, library, "seven"));
	CHECK(cuLibraryUnload(library));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr data = 0;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&data, sizeof(unsigned)));
	try_good(data);
	try_bad();
	CHECK(cuMemFree(data));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
