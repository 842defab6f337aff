/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_DRIVER_H
#define GRAPH_DRIVER_H

/*
 * Shared by the programs about graphs in the driver API: a kernel in PTX, its memory, and
 * checks. Each program defines NAME.
 */

#include <string.h>

#include "driver_program.h"

enum {
	COUNT = 3000,
	BYTES = COUNT * sizeof(unsigned)
};

/* mad: data[i] = data[i] * times + add, for i below count; same: an equal kernel */
#define MAD_ENTRY(name)                                                                            \
	".visible .entry " name "(.param .u64 data, .param .u32 count, .param .u32 times,\n"       \
	"	.param .u32 add)\n"                                                                      \
	"{\n"                                                                                      \
	"	.reg .pred %p<2>;\n"                                                                     \
	"	.reg .b32 %r<10>;\n"                                                                     \
	"	.reg .b64 %rd<5>;\n"                                                                     \
	"	ld.param.u64 %rd1, [data];\n"                                                            \
	"	ld.param.u32 %r1, [count];\n"                                                            \
	"	ld.param.u32 %r2, [times];\n"                                                            \
	"	ld.param.u32 %r9, [add];\n"                                                              \
	"	mov.u32 %r3, %ctaid.x;\n"                                                                \
	"	mov.u32 %r4, %ntid.x;\n"                                                                 \
	"	mov.u32 %r5, %tid.x;\n"                                                                  \
	"	mad.lo.s32 %r6, %r3, %r4, %r5;\n"                                                        \
	"	setp.ge.u32 %p1, %r6, %r1;\n"                                                            \
	"	@%p1 bra done;\n"                                                                        \
	"	cvta.to.global.u64 %rd2, %rd1;\n"                                                        \
	"	mul.wide.u32 %rd3, %r6, 4;\n"                                                            \
	"	add.s64 %rd4, %rd2, %rd3;\n"                                                             \
	"	ld.global.u32 %r7, [%rd4];\n"                                                            \
	"	mad.lo.s32 %r8, %r7, %r2, %r9;\n"                                                        \
	"	st.global.u32 [%rd4], %r8;\n"                                                            \
	"done:\n"                                                                                  \
	"	ret;\n"                                                                                  \
	"}\n"

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n" MAD_ENTRY("mad") MAD_ENTRY("mad_too");

/* For calls whose error the documentation does not specify. */
#define REFUSED(call) must((call) != CUDA_SUCCESS, #call " is refused", __LINE__)

static CUcontext context;
static CUmodule module;
static CUfunction mad, mad_too;
static CUstream stream;
static CUdeviceptr data;
static unsigned host[COUNT];

static inline void setup(void)
{
	CUdevice device = 0;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&mad, module, "mad"));
	CHECK(cuModuleGetFunction(&mad_too, module, "mad_too"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc(&data, BYTES));
}

static inline int finish(void)
{
	CHECK(cuMemFree(data));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}

/* The arguments of a kernel node; keep them until the node is created. */
struct mad_args {
	CUdeviceptr data;
	unsigned count, times, add;
	void *list[4];
};

static inline CUDA_KERNEL_NODE_PARAMS mad_node(struct mad_args *args, CUfunction function)
{
	CUDA_KERNEL_NODE_PARAMS params = {0};

	args->list[0] = &args->data;
	args->list[1] = &args->count;
	args->list[2] = &args->times;
	args->list[3] = &args->add;
	params.func = function;
	params.gridDimX = (COUNT + 127) / 128;
	params.gridDimY = params.gridDimZ = 1;
	params.blockDimX = 128;
	params.blockDimY = params.blockDimZ = 1;
	params.kernelParams = args->list;
	return params;
}

/* Adds a node of the kernel after `before', which may be NULL. */
static inline CUgraphNode mad_add(
	CUgraph graph, CUgraphNode before, CUdeviceptr at, unsigned times, unsigned add)
{
	struct mad_args args = {.data = at, .count = COUNT, .times = times, .add = add};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad);
	CUgraphNode node = NULL;

	CHECK(cuGraphAddKernelNode(&node, graph, before ? &before : NULL, before ? 1 : 0, &params));
	return node;
}

/* Checks the data: `first', and each element `step' more than the previous one. */
static inline void check_data(CUdeviceptr at, unsigned first, unsigned step, int line)
{
	CHECK(cuMemcpyDtoH(host, at, BYTES));
	for (unsigned i = 0; i < COUNT; i++) {
		if (host[i] == first + step * i)
			continue;
		printf(NAME ": line %d: element %u is %u, not %u\n", line, i, host[i],
			first + step * i);
		exit(1);
	}
}

#define CHECK_DATA(at, first, step) check_data((at), (first), (step), __LINE__)

static inline void fill_data(CUdeviceptr at, unsigned value)
{
	CHECK(cuMemsetD32(at, value, COUNT));
	CHECK(cuCtxSynchronize());
}

static inline void run(CUgraphExec exec)
{
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
}

#endif
