/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Repeats each call once that returns CUDA_ERROR_OUT_OF_MEMORY; the repeated call must
 * succeed. Natively, no call returns it.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "patient"

enum {
	WORDS = 1 << 19, /* 2 MiB */
	BLOCK = 256
};

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .global .align 4 .u32 step = 3;\n"
			    ".visible .entry add(.param .u64 data)\n"
			    "{\n"
			    "	.reg .b32 %r<7>;\n"
			    "	.reg .b64 %rd<5>;\n"
			    "	ld.param.u64 %rd1, [data];\n"
			    "	mov.u32 %r1, %ctaid.x;\n"
			    "	mov.u32 %r2, %ntid.x;\n"
			    "	mov.u32 %r3, %tid.x;\n"
			    "	mad.lo.u32 %r4, %r1, %r2, %r3;\n"
			    "	mul.wide.u32 %rd2, %r4, 4;\n"
			    "	add.u64 %rd3, %rd1, %rd2;\n"
			    "	ld.global.u32 %r5, [%rd3];\n"
			    "	ld.global.u32 %r6, [step];\n"
			    "	add.u32 %r5, %r5, %r6;\n"
			    "	st.global.u32 [%rd3], %r5;\n"
			    "	ret;\n"
			    "}\n";

static unsigned n_short;

static int is_short(CUresult result)
{
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return 0;
	n_short++;
	return 1;
}

static void check(CUresult result, const char *what, int line)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	printf(NAME ": line %d: %s: %s (%d)\n", line, what, name, result);
	exit(1);
}

#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
                                                                                                   \
		if (is_short(result_))                                                             \
			result_ = (call);                                                          \
		check(result_, #call, __LINE__);                                                   \
	} while (0)

static void count(void *data)
{
	(*(unsigned *)data)++;
}

static void contexts(CUdevice device)
{
	CUcontext primary = NULL, own = NULL, popped = NULL;

	TRY(cuDevicePrimaryCtxRetain(&primary, device));
	TRY(cuCtxPushCurrent(primary));
	TRY(cuCtxPushCurrent(primary));
	TRY(cuCtxCreate(&own, NULL, 0, device));
	TRY(cuCtxPopCurrent(&popped));
	TRY(cuCtxDestroy(own));
	TRY(cuCtxPopCurrent(&popped));
}

/* The result of a kernel on `data'. */
static void launch(CUstream stream, CUfunction add, CUdeviceptr data, unsigned *host)
{
	CUevent begin = NULL, end = NULL;
	void *params[] = {&data};
	unsigned n_called = 0;
	float ms = 0;

	TRY(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	TRY(cuEventCreate(&end, CU_EVENT_DEFAULT));
	for (unsigned i = 0; i < WORDS; i++)
		host[i] = i;
	TRY(cuMemcpyHtoD(data, host, WORDS * sizeof(*host)));
	TRY(cuEventRecord(begin, stream));
	TRY(cuLaunchKernel(add, WORDS / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
	TRY(cuLaunchHostFunc(stream, count, &n_called));
	TRY(cuEventRecord(end, stream));
	TRY(cuMemcpyDtoHAsync(host, data, WORDS * sizeof(*host), stream));
	TRY(cuStreamSynchronize(stream));
	TRY(cuEventElapsedTime(&ms, begin, end));
	TRY(cuEventDestroy(begin));
	TRY(cuEventDestroy(end));
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != i + 3) {
			printf(NAME ": word %u is %u\n", i, host[i]);
			exit(1);
		}
	if (n_called != 1) {
		printf(NAME ": the host function ran %u times\n", n_called);
		exit(1);
	}
}

static void memories(CUfunction add)
{
	unsigned *own = malloc(WORDS * sizeof(*own)), *pinned = NULL;
	CUdeviceptr data = 0, managed = 0;
	CUstream stream = NULL;

	TRY(cuMemAlloc(&data, WORDS * sizeof(*own)));
	TRY(cuMemAllocManaged(&managed, WORDS * sizeof(*own), CU_MEM_ATTACH_GLOBAL));
	TRY(cuMemHostAlloc((void **)&pinned, WORDS * sizeof(*own), 0));
	TRY(cuMemHostRegister(own, WORDS * sizeof(*own), 0));
	TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch(stream, add, data, own);
	launch(stream, add, managed, pinned);
	TRY(cuMemHostUnregister(own));
	launch(NULL, add, data, own);
	TRY(cuStreamDestroy(stream));
	TRY(cuMemFreeHost(pinned));
	TRY(cuMemFree(managed));
	TRY(cuMemFree(data));
	free(own);
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUmodule module = NULL;
	CUfunction add = NULL;
	CUdeviceptr step = 0;
	size_t size = 0;

	TRY(cuInit(0));
	TRY(cuDeviceGet(&device, 0));
	contexts(device);
	TRY(cuDevicePrimaryCtxRetain(&context, device));
	TRY(cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, image));
	TRY(cuModuleGetFunction(&add, module, "add"));
	TRY(cuModuleGetGlobal(&step, &size, module, "step"));
	memories(add);
	TRY(cuModuleUnload(module));
	TRY(cuDevicePrimaryCtxRelease(device));
	if (n_short)
		fprintf(stderr, NAME ": %u calls were made twice\n", n_short);
	printf(NAME ": ok\n");
	return 0;
}
