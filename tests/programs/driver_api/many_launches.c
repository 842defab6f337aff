/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches a kernel a fixed number of times, and waits after each 16th launch.
 *
 *   many_launches [N]
 */

#define NAME "many_launches"
#include "../helpers/driver_program.h"

enum {
	LAUNCHES = 64,
	A_WAIT = 16
};

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : LAUNCHES;
	CUcontext context;
	CUmodule module;
	CUfunction function;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, IMAGE_OF_NOTHING));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	for (int i = 1; i <= n; i++) {
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		if (i % A_WAIT == 0)
			CHECK(cuCtxSynchronize());
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
