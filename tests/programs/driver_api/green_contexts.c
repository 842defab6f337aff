/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Green contexts: a GPU's SMs are divided; kernels report where they run, and those of
 * two parts are disjoint; streams, events and contexts of a part.
 */

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define NAME "green_contexts"
#include "../helpers/driver_program.h"

enum {
	SMS_MAX = 1024,
	BLOCKS = 600,
	WANTED = 16, /* SMs of a part */
	SLOW = 300000,
};

/* Each block writes the number of its SM, after a delay in which others can begin. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry where(.param .u64 out, .param .u32 spins)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n"
			    "	.reg .b32 %r<6>;\n"
			    "	.reg .b64 %rd<5>;\n"
			    "	ld.param.u32 %r3, [spins];\n"
			    "	mov.u32 %r4, 0;\n"
			    "AGAIN:\n"
			    "	add.u32 %r4, %r4, 1;\n"
			    "	mov.u32 %r5, %clock;\n"
			    "	setp.lt.u32 %p1, %r4, %r3;\n"
			    "	@%p1 bra AGAIN;\n"
			    "	mov.u32 %r1, %ctaid.x;\n"
			    "	mov.u32 %r2, %smid;\n"
			    "	ld.param.u64 %rd1, [out];\n"
			    "	cvta.to.global.u64 %rd2, %rd1;\n"
			    "	mul.wide.u32 %rd3, %r1, 4;\n"
			    "	add.u64 %rd4, %rd2, %rd3;\n"
			    "	st.global.u32 [%rd4], %r2;\n"
			    "	ret;\n"
			    "}\n";

static CUfunction where;
static CUdeviceptr out[2];
static CUdevice device;

struct sms {
	uint8_t has[SMS_MAX];
	unsigned n;
};

static void launch(CUstream stream, unsigned place)
{
	unsigned spins = 200;
	void *params[] = {&out[place], &spins};

	CHECK(cuMemsetD32Async(out[place], 0xffffffff, BLOCKS, stream));
	CHECK(cuLaunchKernel(where, BLOCKS, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static struct sms seen(unsigned place)
{
	static uint32_t host[BLOCKS];
	struct sms sms = {.n = 0};

	CHECK(cuMemcpyDtoH(host, out[place], sizeof(host)));
	for (unsigned i = 0; i < BLOCKS; i++) {
		MUST(host[i] < SMS_MAX);
		sms.n += !sms.has[host[i]];
		sms.has[host[i]] = 1;
	}
	return sms;
}

static struct sms run(CUstream stream)
{
	launch(stream, 0);
	CHECK(cuStreamSynchronize(stream));
	return seen(0);
}

static void must_be_apart(const struct sms *a, const struct sms *b)
{
	for (unsigned i = 0; i < SMS_MAX; i++)
		MUST(!a->has[i] || !b->has[i]);
}

static CUgreenCtx make(CUdevResource *resources, unsigned n)
{
	CUdevResourceDesc desc = NULL;
	CUgreenCtx green = NULL;

	CHECK(cuDevResourceGenerateDesc(&desc, resources, n));
	CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static CUstream stream_of(CUgreenCtx green)
{
	CUstream stream = NULL;

	CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	return stream;
}

static CUdevResource all_of(CUgreenCtx green)
{
	CUdevResource resource;

	if (green)
		CHECK(cuGreenCtxGetDevResource(green, &resource, CU_DEV_RESOURCE_TYPE_SM));
	else
		CHECK(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
	MUST(resource.type == CU_DEV_RESOURCE_TYPE_SM);
	return resource;
}

/* Two parts and the rest of the GPU, at the same time. */
static void divided(CUdevResource parts[2], CUdevResource *rest)
{
	CUdevResource all = all_of(NULL), in_primary;
	CUcontext primary = NULL;
	unsigned n = 0, most;
	int n_sms = 0;
	struct sms sms[3];
	CUgreenCtx greens[3];
	CUstream streams[3];

	CHECK(cuDeviceGetAttribute(&n_sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	MUST(all.sm.smCount == (unsigned)n_sms);
	CHECK(cuCtxGetCurrent(&primary));
	CHECK(cuCtxGetDevResource(primary, &in_primary, CU_DEV_RESOURCE_TYPE_SM));
	MUST(in_primary.sm.smCount == all.sm.smCount);

	CHECK(cuDevSmResourceSplitByCount(NULL, &most, &all, NULL, 0, WANTED));
	MUST(most >= 2 && most <= all.sm.smCount / WANTED);
	n = 2;
	CHECK(cuDevSmResourceSplitByCount(parts, &n, &all, rest, 0, WANTED));
	MUST(n == 2 && parts[0].sm.smCount >= WANTED);
	MUST(parts[0].sm.smCount == parts[1].sm.smCount);
	MUST(rest->sm.smCount + 2 * parts[0].sm.smCount == all.sm.smCount);

	greens[0] = make(&parts[0], 1);
	greens[1] = make(&parts[1], 1);
	greens[2] = make(rest, 1);
	for (unsigned i = 0; i < 3; i++) {
		MUST(all_of(greens[i]).sm.smCount == (i < 2 ? parts[i] : *rest).sm.smCount);
		streams[i] = stream_of(greens[i]);
	}
	launch(streams[0], 0);
	launch(streams[1], 1);
	CHECK(cuStreamSynchronize(streams[0]));
	CHECK(cuStreamSynchronize(streams[1]));
	sms[0] = seen(0);
	sms[1] = seen(1);
	sms[2] = run(streams[2]);
	for (unsigned i = 0; i < 3; i++) {
		MUST(sms[i].n > 0);
		MUST(sms[i].n <= all_of(greens[i]).sm.smCount);
		must_be_apart(&sms[i], &sms[(i + 1) % 3]);
	}
	for (unsigned i = 0; i < 3; i++) {
		CHECK(cuStreamDestroy(streams[i]));
		CHECK(cuGreenCtxDestroy(greens[i]));
	}
	/* Kernels without a part have all SMs again. */
	sms[0] = run(NULL);
	MUST(sms[0].n > 2 * WANTED);
}

/* Two parts together, then divided again. */
static void together(CUdevResource parts[2])
{
	CUgreenCtx both = make(parts, 2), half;
	CUdevResource all = all_of(both), again[2], rest;
	CUstream stream = stream_of(both);
	struct sms sms = run(stream), less;
	unsigned n = 1;

	MUST(all.sm.smCount == 2 * parts[0].sm.smCount);
	MUST(sms.n <= all.sm.smCount);
	CHECK(cuDevSmResourceSplitByCount(again, &n, &all, &rest, 0, WANTED));
	MUST(n == 1 && again[0].sm.smCount < all.sm.smCount);
	half = make(again, 1);
	CHECK(cuStreamDestroy(stream));
	stream = stream_of(half);
	less = run(stream);
	MUST(less.n <= again[0].sm.smCount);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuGreenCtxDestroy(half));
	CHECK(cuGreenCtxDestroy(both));
}

/* While a part is current, its default stream and new streams have its SMs. */
static void current(CUdevResource *part)
{
	CUgreenCtx green = make(part, 1), found = NULL;
	CUcontext primary = NULL, context = NULL, got = NULL;
	unsigned long long id = 0, primary_id = 0;
	CUdeviceptr memory = 0;
	CUstream stream = NULL;
	CUdevice on = -1;
	uint32_t word = 0;

	CHECK(cuCtxGetCurrent(&primary));
	CHECK(cuCtxFromGreenCtx(&context, green));
	MUST(context && context != primary);
	CHECK(cuCtxPushCurrent(context));
	CHECK(cuCtxGetCurrent(&got));
	MUST(got == context);
	CHECK(cuCtxGetDevice(&on));
	MUST(on == device);
	launch(NULL, 0);
	CHECK(cuCtxSynchronize());
	MUST(seen(0).n <= part->sm.smCount);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(run(stream).n <= part->sm.smCount);
	CHECK(cuStreamGetGreenCtx(stream, &found));
	MUST(found == green);
	CHECK(cuStreamGetCtx_v2(stream, &got, &found));
	MUST(found == green && got == primary);
	CHECK(cuGreenCtxGetId(green, &id));
	CHECK(cuCtxGetId(primary, &primary_id));
	MUST(id != primary_id);
	CHECK(cuMemAlloc(&memory, 4096));
	CHECK(cuMemsetD32(memory, 77, 1024));
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamDestroy(stream));
	CHECK(cuCtxPopCurrent(&got));
	MUST(got == context);
	CHECK(cuCtxGetCurrent(&got));
	MUST(got == primary);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamGetGreenCtx(stream, &found));
	MUST(found == NULL);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuGreenCtxDestroy(green));
	/* Memory belongs to the primary context. */
	CHECK(cuMemcpyDtoH(&word, memory, sizeof(word)));
	MUST(word == 77);
	CHECK(cuMemFree(memory));
}

/* An event of one part does not wait for the other's streams. */
static void events(CUdevResource parts[2])
{
	CUgreenCtx a = make(&parts[0], 1), b = make(&parts[1], 1);
	CUstream in_a = stream_of(a), in_b = stream_of(b);
	volatile uint32_t *gate = NULL;
	CUevent of_a = NULL, of_b = NULL;

	CHECK(cuMemHostAlloc((void **)&gate, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuEventCreate(&of_a, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&of_b, CU_EVENT_DISABLE_TIMING));
	gate[0] = 0;
	CHECK(cuStreamWaitValue32(in_a, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	CHECK(cuGreenCtxRecordEvent(a, of_a));
	CHECK(cuGreenCtxRecordEvent(b, of_b));
	CHECK(cuEventSynchronize(of_b));
	usleep(3000);
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(of_a));
	/* Later work in b waits for a. */
	CHECK(cuGreenCtxWaitEvent(b, of_a));
	gate[1] = 0;
	CHECK(cuStreamWriteValue32(in_b, (CUdeviceptr)(uintptr_t)(gate + 1), 5, 0));
	usleep(3000);
	MUST(gate[1] == 0);
	gate[0] = 1;
	CHECK(cuStreamSynchronize(in_b));
	MUST(gate[1] == 5);
	CHECK(cuStreamSynchronize(in_a));
	CHECK(cuEventDestroy(of_a));
	CHECK(cuEventDestroy(of_b));
	CHECK(cuMemFreeHost((void *)(uintptr_t)gate));
	CHECK(cuStreamDestroy(in_a));
	CHECK(cuStreamDestroy(in_b));
	CHECK(cuGreenCtxDestroy(a));
	CHECK(cuGreenCtxDestroy(b));
}

/* A capture of the primary context does not include a part. */
static void beside_capture(CUdevResource *part)
{
	CUgreenCtx green = make(part, 1);
	CUevent event = NULL;
	CUstream stream = NULL;
	CUgraph graph = NULL;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuGreenCtxRecordEvent(green, event));
	CHECK(cuGreenCtxWaitEvent(green, event));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuEventDestroy(event));
	CHECK(cuGreenCtxDestroy(green));
}

/* The primary context waits for the work of a part that was destroyed. */
static void left_behind(CUdevResource *part)
{
	const uint32_t unwritten = 0xffffffff;
	CUcontext primary = NULL;
	CUevent event = NULL;

	CHECK(cuCtxGetCurrent(&primary));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < 8; i++) {
		CUgreenCtx green = make(part, 1);
		CUstream stream = stream_of(green);
		unsigned spins = SLOW;
		void *params[] = {&out[0], &spins};
		uint32_t word = unwritten;

		CHECK(cuMemsetD32(out[0], unwritten, 1));
		CHECK(cuCtxSynchronize());
		CHECK(cuLaunchKernel(where, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		CHECK(cuGreenCtxDestroy(green));
		EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
		if (i % 2 == 0) {
			CHECK(cuCtxSynchronize());
		} else {
			CHECK(cuCtxRecordEvent(primary, event));
			CHECK(cuEventSynchronize(event));
		}
		EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
		CHECK(cuMemcpyDtoH(&word, out[0], sizeof(word)));
		MUST(word < SMS_MAX);
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuEventDestroy(event));
}

static void errors(CUdevResource parts[2])
{
	CUdevResource all = all_of(NULL), others[2], none, mixed[2];
	CUdevResourceDesc desc = NULL;
	CUcontext got = NULL, primary = NULL;
	CUgreenCtx green, found = NULL;
	CUstream stream;
	unsigned n = 2;

	memset(&none, 0, sizeof(none));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuDeviceGetDevResource(device, NULL, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_DEVICE,
		cuDeviceGetDevResource(99, &none, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuDeviceGetDevResource(device, &none, CU_DEV_RESOURCE_TYPE_INVALID));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuDevSmResourceSplitByCount(NULL, NULL, &all, NULL, 0, WANTED));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevResourceGenerateDesc(NULL, parts, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevResourceGenerateDesc(&desc, NULL, 1));
	CHECK(cuDevSmResourceSplitByCount(others, &n, &all, NULL, 0, WANTED));
	mixed[0] = parts[0];
	mixed[1] = others[1];
	/* Whether it is usable is another question. */
	CHECK(cuDevResourceGenerateDesc(&desc, mixed, 2));
	n = 2;
	CHECK(cuDevSmResourceSplitByCount(others, &n, &all, NULL, 4, WANTED));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuDevSmResourceSplitByCount(others, &n, &all, NULL, 3, WANTED));
	CHECK(cuDevResourceGenerateDesc(&desc, parts, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate(&green, desc, device, 0));
	CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0));
	CHECK(cuGreenCtxDestroy(green));
	/* Without a resource it has all SMs. */
	CHECK(cuGreenCtxCreate(&green, NULL, device, CU_GREEN_CTX_DEFAULT_STREAM));
	MUST(all_of(green).sm.smCount == all.sm.smCount);
	stream = stream_of(green);
	CHECK(cuStreamGetCtx_v2(stream, NULL, &found));
	MUST(found == green);
	CHECK(cuStreamGetCtx_v2(stream, &got, NULL));
	CHECK(cuCtxGetCurrent(&primary));
	MUST(got == primary);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuGreenCtxDestroy(green));
}

int main(void)
{
	CUcontext context = NULL;
	CUmodule module = NULL;
	CUdevResource parts[2], rest;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&where, module, "where"));
	CHECK(cuMemAlloc(&out[0], BLOCKS * sizeof(uint32_t)));
	CHECK(cuMemAlloc(&out[1], BLOCKS * sizeof(uint32_t)));
	divided(parts, &rest);
	together(parts);
	current(&parts[1]);
	events(parts);
	beside_capture(&parts[0]);
	left_behind(&parts[0]);
	errors(parts);
	for (unsigned i = 0; i < 30; i++)
		CHECK(cuGreenCtxDestroy(make(&parts[i % 2], 1)));
	CHECK(cuMemFree(out[0]));
	CHECK(cuMemFree(out[1]));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
