/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Green contexts that end while they are current, and with the primary context:
 * what is still said of them, and what they still hold.
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "green_ends"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)
#define MUST(condition) must((condition), #condition, __LINE__)

static CUdevice device;

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static void must(int condition, const char *what, int line)
{
	if (condition)
		return;
	printf(NAME ": line %d: not so: %s\n", line, what);
	exit(1);
}

/* Of all SMs. */
static CUgreenCtx make(void)
{
	CUdevResourceDesc desc = NULL;
	CUdevResource all;
	CUgreenCtx green = NULL;

	CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevResourceGenerateDesc(&desc, &all, 1));
	CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

/* Neither its own number nor that of one which has taken its place. */
static void number_of_none(void)
{
	CUgreenCtx green = make();
	CUcontext context = NULL, got = NULL;
	unsigned long long id = 0, again = 0;

	CHECK(cuCtxFromGreenCtx(&context, green));
	CHECK(cuCtxPushCurrent(context));
	CHECK(cuGreenCtxGetId(green, &id));
	CHECK(cuGreenCtxGetId(NULL, &again));
	MUST(id == again);
	CHECK(cuGreenCtxDestroy(green));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGreenCtxGetId(NULL, &id));
	green = make();
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGreenCtxGetId(NULL, &id));
	CHECK(cuGreenCtxGetId(green, &id));
	MUST(id != again);
	CHECK(cuCtxPopCurrent(&got));
	MUST(got == context);
	CHECK(cuGreenCtxDestroy(green));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxGetId(NULL, &id));
}

static int is_active(void)
{
	unsigned flags;
	int active = -1;

	CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

/* A reset ends them, and with them what they have retained. */
static void reset(void)
{
	CUcontext context = NULL;
	CUgreenCtx greens[3];

	for (unsigned i = 0; i < 3; i++)
		greens[i] = make();
	CHECK(cuGreenCtxDestroy(greens[2]));
	CHECK(cuDevicePrimaryCtxReset(device));
	MUST(!is_active());
	for (unsigned i = 0; i < 3; i++)
		EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxDestroy(greens[i]));
	/* Ours of main() is left. */
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuDevicePrimaryCtxRelease(device));
	MUST(is_active());
	CHECK(cuGreenCtxDestroy(make()));
	MUST(is_active());
}

int main(void)
{
	CUcontext context = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	number_of_none();
	reset();
	CHECK(cuDevicePrimaryCtxRelease(device));
	MUST(!is_active());
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
