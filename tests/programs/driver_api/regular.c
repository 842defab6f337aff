/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Does a small piece of work each second, and checks the result, until its standard input ends.
 * Prints `regular: worked' after the first piece.
 *
 * Runs: for a test of its own
 */

#define NAME "regular"
#include <poll.h>

#include "../helpers/driver_program.h"

enum {
	WORDS = 256,
	NAP_MS = 1000
};

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry add(.param .u64 data, .param .u32 step)\n"
			    "{\n"
			    "	.reg .b32 %r<4>;\n"
			    "	.reg .b64 %rd<4>;\n"
			    "	ld.param.u64 %rd1, [data];\n"
			    "	ld.param.u32 %r1, [step];\n"
			    "	mov.u32 %r2, %tid.x;\n"
			    "	mul.wide.u32 %rd2, %r2, 4;\n"
			    "	add.u64 %rd3, %rd1, %rd2;\n"
			    "	ld.global.u32 %r3, [%rd3];\n"
			    "	add.u32 %r3, %r3, %r1;\n"
			    "	st.global.u32 [%rd3], %r3;\n"
			    "	ret;\n"
			    "}\n";

static void work(CUfunction add, CUdeviceptr data, unsigned step)
{
	void *params[] = {&data, &step};
	unsigned host[WORDS];

	for (unsigned i = 0; i < WORDS; i++)
		host[i] = i * step;
	CHECK(cuMemcpyHtoD(data, host, sizeof(host)));
	CHECK(cuLaunchKernel(add, 1, 1, 1, WORDS, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(host, data, sizeof(host)));
	for (unsigned i = 0; i < WORDS; i++)
		MUST(host[i] == (i + 1) * step);
}

int main(void)
{
	struct pollfd end = {.fd = 0, .events = POLLIN};
	CUcontext context;
	CUmodule module;
	CUfunction add;
	CUdeviceptr data;
	unsigned step = 1;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&add, module, "add"));
	CHECK(cuMemAlloc(&data, WORDS * sizeof(unsigned)));
	do {
		work(add, data, step);
		if (step++ == 1) {
			printf(NAME ": worked\n");
			fflush(stdout);
		}
	} while (poll(&end, 1, NAP_MS) == 0);
	CHECK(cuMemFree(data));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
