/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queues as many small fills as its argument says, and waits for them: more events than a trace
 * takes of one client.
 *
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "many_fills"
#include "../helpers/driver_program.h"

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	CUdevice device;
	CUcontext context;
	CUdeviceptr bytes;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&bytes, 4096));
	for (long i = 0; i < n; i++)
		CHECK(cuMemsetD8Async(bytes, (unsigned char)i, 64, NULL));
	CHECK(cuCtxSynchronize());
	printf(NAME ": ok\n");
	return 0;
}
