/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A kernel that waits for another kernel: prints `await_kernel: running' when it runs, and launches
 * the other one after a line on stdin.
 *
 * Runs: for a test of its own
 */

#define NAME "await_kernel"
#include "../helpers/driver_program.h"

static const char image[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n" ENTRY_OF_SPIN ".visible .entry release(.param .u64 word)\n"
	"{\n"
	"	.reg .b64 %d<2>;\n"
	"	ld.param.u64 %d1, [word];\n"
	"	st.volatile.global.u32 [%d1], 1;\n"
	"	ret;\n"
	"}\n";

static CUfunction spin, release;
static CUstream streams[2];
static CUdeviceptr word;

static void launch(CUfunction function, CUstream stream)
{
	void *params[] = {&word};

	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Then nothing has to be loaded, or made, any more. */
static void launch_all_once(void)
{
	for (int i = 0; i < 2; i++) {
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		launch(release, streams[i]);
		launch(spin, streams[i]);
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuMemsetD32(word, 0, 1));
	CHECK(cuCtxSynchronize());
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	size_t n_free, total;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&word, 4));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuModuleGetFunction(&release, module, "release"));
	launch_all_once();
	launch(spin, streams[0]);
	/* The server replies in order: the launch is then on the GPU. */
	CHECK(cuMemGetInfo(&n_free, &total));
	printf(NAME ": running\n");
	fflush(stdout);
	MUST(getchar() == '\n');
	launch(release, streams[1]);
	CHECK(cuCtxSynchronize());
	CHECK(cuMemFree(word));
	printf(NAME ": ok\n");
	return 0;
}
