/* SPDX-License-Identifier: Apache-2.0 */

/*
 * PTX that declares variables `.extern', with their sizes, and defines none. In a whole
 * program the declarations are definitions; a linker looks for the definitions elsewhere.
 */

#include <cuda.h>

#define NAME "extern_variables"
#include "../helpers/driver_program.h"

enum {
	SIZE = 256, /* bytes of each variable */
	DYNAMIC = 32,
};

static const char text[] = ".version 7.0\n"
			   ".target sm_75\n"
			   ".address_size 64\n"
			   ".extern .shared .align 4 .b8 block[256];\n"
			   ".extern .shared .align 16 .b8 rest[];\n"
			   ".extern .global .align 4 .b8 sum[256];\n"
			   ".extern .const .align 4 .b8 offset[256];\n"
			   ".visible .entry run()\n"
			   "{\n"
			   "	.reg .b32 %r<4>;\n"
			   "	ld.const.u32 %r1, [offset+4];\n"
			   "	st.shared.u32 [block+252], %r1;\n"
			   "	st.shared.u32 [rest+28], 1000;\n"
			   "	ld.shared.u32 %r1, [block+252];\n"
			   "	ld.shared.u32 %r2, [rest+28];\n"
			   "	ld.global.u32 %r3, [sum+8];\n"
			   "	add.u32 %r1, %r1, %r2;\n"
			   "	add.u32 %r1, %r1, %r3;\n"
			   "	st.global.u32 [sum+8], %r1;\n"
			   "	ret;\n"
			   "}\n";

static CUdeviceptr variable(CUmodule module, const char *name)
{
	CUdeviceptr address;
	size_t size;

	CHECK(cuModuleGetGlobal(&address, &size, module, name));
	MUST(size == SIZE);
	return address;
}

static void whole_program(void)
{
	unsigned seven = 7, words[SIZE / 4];
	CUdeviceptr sum, offset;
	CUfunction function;
	CUmodule module;
	int shared;

	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&function, module, "run"));
	CHECK(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
	MUST(shared == SIZE);
	sum = variable(module, "sum");
	offset = variable(module, "offset");
	CHECK(cuMemcpyHtoD(offset + 4, &seven, sizeof(seven)));
	for (int i = 0; i < 3; i++)
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, DYNAMIC, NULL, NULL, NULL));
	CHECK(cuMemcpyDtoH(words, sum, sizeof(words)));
	for (unsigned i = 0; i < SIZE / 4; i++)
		MUST(words[i] == (i == 2 ? 3021 : 0));
	CHECK(cuModuleUnload(module));
}

int main(void)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	whole_program();
	MUST(link_text(text, sizeof(text)) != CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
