/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with only the driver API: PTX text, loaded as a module and as a library,
 * launched by both handles on a primary context.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "driver"
#include "../helpers/driver_program.h"

enum {
	COUNT = 10000
};

/* data[i] = data[i] * 3 + add, for i below count */
static const char image[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry mad3(.param .u64 data, .param .u32 count, .param .u32 add)\n"
	"{\n"
	"	.reg .pred %p<2>;\n"
	"	.reg .b32 %r<9>;\n"
	"	.reg .b64 %rd<5>;\n"
	"	ld.param.u64 %rd1, [data];\n"
	"	ld.param.u32 %r1, [count];\n"
	"	ld.param.u32 %r2, [add];\n"
	"	mov.u32 %r3, %ctaid.x;\n"
	"	mov.u32 %r4, %ntid.x;\n"
	"	mov.u32 %r5, %tid.x;\n"
	"	mad.lo.s32 %r6, %r3, %r4, %r5;\n"
	"	setp.ge.u32 %p1, %r6, %r1;\n"
	"	@%p1 bra done;\n"
	"	cvta.to.global.u64 %rd2, %rd1;\n"
	"	mul.wide.u32 %rd3, %r6, 4;\n"
	"	add.s64 %rd4, %rd2, %rd3;\n"
	"	ld.global.u32 %r7, [%rd4];\n"
	"	mad.lo.s32 %r8, %r7, 3, %r2;\n"
	"	st.global.u32 [%rd4], %r8;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

/* Sets data to 0, 1, 2, ..., runs `function' over it and compares. */
static void run(CUfunction function, CUdeviceptr data, CUstream stream, unsigned add)
{
	static unsigned host[COUNT];
	unsigned count = COUNT, i;
	void *params[] = {&data, &count, &add};

	for (i = 0; i < COUNT; i++)
		host[i] = i;
	CHECK(cuMemcpyHtoD(data, host, sizeof(host)));
	CHECK(cuLaunchKernel(
		function, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(host, data, sizeof(host)));
	for (i = 0; i < COUNT; i++) {
		if (host[i] == i * 3 + add)
			continue;
		printf(NAME ": element %u is %u, not %u\n", i, host[i], i * 3 + add);
		exit(1);
	}
}

static void work(void)
{
	CUdeviceptr data = 0;
	CUmodule module = NULL;
	CUlibrary library = NULL;
	CUfunction function = NULL;
	CUkernel kernel = NULL;
	CUstream stream = NULL;

	CHECK(cuMemAlloc(&data, COUNT * sizeof(unsigned)));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "mad3"));
	run(function, data, NULL, 5);
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "mad3"));
	run((CUfunction)kernel, data, stream, 6);
	CHECK(cuKernelGetFunction(&function, kernel));
	run(function, data, stream, 7);
	CHECK(cuLibraryUnload(library));
	CHECK(cuModuleUnload(module));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(data));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUmodule module = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	if (cuModuleLoadData(&module, image) != CUDA_ERROR_INVALID_CONTEXT) {
		printf(NAME ": a module was loaded without a context\n");
		return 1;
	}
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	work();
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
