/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries about loaded code: the kernels of a library and the functions of a module,
 * their names, owners and parameters, and which calls accept which kind of handle.
 */

#include <string.h>

#define NAME "kernels"
#include "../helpers/driver_program.h"

enum {
	KERNELS = 3
};

#define ENTRY(name, params, store)                                                                 \
	".visible .entry " name "(" params ")\n"                                                   \
	"{\n"                                                                                      \
	"	.reg .b32 %r<2>;\n"                                                                      \
	"	.reg .b64 %rd<3>;\n"                                                                     \
	"	ld.param.u64 %rd1, [out];\n"                                                             \
	"	cvta.to.global.u64 %rd2, %rd1;\n"                                                        \
	"	mov.u32 %r1, " store ";\n"                                                         \
	"	st.global.u32 [%rd2], %r1;\n"                                                            \
	"	ret;\n"                                                                                  \
	"}\n"

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n" ENTRY("first", ".param .u64 out", "11")
				    ENTRY("second", ".param .u64 out, .param .u32 unused", "22")
					    ENTRY("third", ".param .u64 out", "33");

static unsigned stored_by(CUfunction function, CUdeviceptr data)
{
	unsigned host = 0, unused = 0;
	void *params[] = {&data, &unused};

	CHECK(cuMemsetD32(data, 0, 1));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(&host, data, sizeof(host)));
	return host;
}

static unsigned value_of(const char *name)
{
	return !strcmp(name, "first") ? 11 : !strcmp(name, "second") ? 22 : 33;
}

static void try_library(CUdeviceptr data)
{
	CUlibrary library = NULL, of = NULL;
	CUkernel kernels[KERNELS + 1] = {NULL}, again = NULL;
	CUfunction function = NULL;
	unsigned count = 0, seen = 0;
	size_t offset, size;
	int value;

	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernelCount(&count, library));
	MUST(count == KERNELS);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLibraryGetKernelCount(NULL, library));
	CHECK(cuLibraryEnumerateKernels(kernels, 1, library));
	MUST(kernels[0] && !kernels[1]);
	CHECK(cuLibraryEnumerateKernels(kernels, KERNELS + 1, library));
	MUST(kernels[KERNELS - 1] && !kernels[KERNELS]);
	for (unsigned i = 0; i < KERNELS; i++) {
		const char *name = NULL;

		CHECK(cuKernelGetName(&name, kernels[i]));
		CHECK(cuLibraryGetKernel(&again, library, name));
		MUST(again == kernels[i]);
		CHECK(cuKernelGetLibrary(&of, kernels[i]));
		MUST(of == library);
		seen += value_of(name);
		MUST(stored_by((CUfunction)kernels[i], data) == value_of(name));
	}
	MUST(seen == 11 + 22 + 33);
	CHECK(cuLibraryGetKernel(&again, library, "second"));
	CHECK(cuKernelGetFunction(&function, again));
	MUST((void *)function != (void *)again);
	MUST(stored_by(function, data) == 22);
	CHECK(cuKernelGetParamInfo(again, 1, &offset, &size));
	MUST(offset == 8 && size == 4);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetParamInfo((CUfunction)again, 1, &offset, &size));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)again));
	CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, (CUfunction)again, 32, 0));
	CHECK(cuLibraryUnload(library));
}

static void try_module(CUdeviceptr data)
{
	CUmodule module = NULL, of = NULL;
	CUfunction functions[KERNELS] = {NULL}, again = NULL;
	unsigned count = 0;
	size_t offset, size;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunctionCount(&count, module));
	MUST(count == KERNELS);
	CHECK(cuModuleEnumerateFunctions(functions, 0, module));
	CHECK(cuModuleEnumerateFunctions(functions, KERNELS, module));
	for (unsigned i = 0; i < KERNELS; i++) {
		const char *name = NULL;

		CHECK(cuFuncGetName(&name, functions[i]));
		CHECK(cuModuleGetFunction(&again, module, name));
		MUST(again == functions[i]);
		CHECK(cuFuncGetModule(&of, functions[i]));
		MUST(of == module);
		CHECK(cuFuncGetParamInfo(functions[i], 0, &offset, &size));
		MUST(offset == 0 && size == 8);
		MUST(stored_by(functions[i], data) == value_of(name));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(functions[0], 7, &offset, &size));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&again, module, "fourth"));
	CHECK(cuModuleUnload(module));
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
	try_library(data);
	try_module(data);
	CHECK(cuMemFree(data));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
