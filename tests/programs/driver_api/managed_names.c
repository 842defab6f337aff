/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Questions for what does not exist in an image whose kernels have run: __managed__ variables, by
 * the name of a plain variable and by a name that the image lacks, and functions for the host. The
 * kernels stay usable.
 */

#define NAME "managed_names"
#include "../helpers/driver_program.h"

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .global .align 4 .u32 plain;\n"
			    ".visible .entry nothing()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n";

static void launch(CUkernel kernel)
{
	CHECK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cuCtxSynchronize());
}

static void ask(CUlibrary library)
{
	CUdeviceptr address;
	void *function;
	size_t size;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLibraryGetUnifiedFunction(&function, library, "absent"));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuLibraryGetUnifiedFunction(&function, library, "nothing"));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&address, &size, library, "plain"));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&address, &size, library, "absent"));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal(&address, &size, library, "absent"));
}

int main(void)
{
	CUcontext context;
	CUlibrary library;
	CUkernel kernel;
	CUdevice device;
	CUdeviceptr address;
	size_t size;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	ask(library);
	launch(kernel);
	ask(library);
	launch(kernel);
	CHECK(cuLibraryGetGlobal(&address, &size, library, "plain"));
	MUST(address != 0 && size == 4);
	ask(library);
	launch(kernel);
	CHECK(cuLibraryUnload(library));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
