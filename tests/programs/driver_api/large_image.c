/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads an image of many megabytes and runs its kernel, then waits for a line, so that a
 * test can measure the cost of images. Images with the same number are identical.
 *
 *     large_image MEGABYTES NUMBER
 *
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "large_image"
#include "../helpers/driver_program.h"

/* PTX of one kernel, after comments that fill `size' bytes. */
static char *image_make(size_t size, int number)
{
	static const char kernel[] = "\n.visible .entry store(.param .u64 out)\n{\n"
				     "	.reg .b32 %%r<2>;\n	.reg .b64 %%rd<3>;\n"
				     "	ld.param.u64 %%rd1, [out];\n"
				     "	cvta.to.global.u64 %%rd2, %%rd1;\n"
				     "	mov.u32 %%r1, %d;\n	st.global.u32 [%%rd2], %%r1;\n"
				     "	ret;\n}\n";
	char *image = malloc(size + sizeof(kernel) + 128);
	size_t n;

	if (!image)
		exit(1);
	n = (size_t)sprintf(image, ".version 7.0\n.target sm_75\n.address_size 64\n//");
	for (; n < size; n++)
		image[n] = (char)(n % 100 == 0  ? '\n'
				  : n % 100 < 3 ? '/'
						: 'a' + (n * 7 + n / 977) % 26);
	sprintf(image + n, kernel, number);
	return image;
}

static void image_use(CUlibrary library, int number)
{
	CUfunction function;
	CUdeviceptr data;
	CUkernel kernel;
	void *params[] = {&data};
	int got = -1;

	CHECK(cuLibraryGetKernel(&kernel, library, "store"));
	CHECK(cuKernelGetFunction(&function, kernel));
	CHECK(cuMemAlloc(&data, sizeof(got)));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(&got, data, sizeof(got)));
	CHECK(cuMemFree(data));
	if (got != number) {
		printf(NAME ": the kernel stored %d instead of %d\n", got, number);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	CUlibrary library;
	CUcontext context;
	CUdevice device;
	char *image, line[16];
	int number;

	if (argc != 3) {
		fprintf(stderr, "usage: %s MEGABYTES NUMBER\n", argv[0]);
		return 2;
	}
	number = atoi(argv[2]);
	image = image_make((size_t)atoi(argv[1]) << 20, number);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	image_use(library, number);
	printf(NAME ": loaded\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	CHECK(cuLibraryUnload(library));
	free(image);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
