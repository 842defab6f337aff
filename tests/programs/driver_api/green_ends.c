/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Green contexts that end while they are current, and with the primary context: what
 * calls still return for them, and what they still hold; how many can exist at once, and
 * which requests are refused.
 * Runs: for a test of its own
 */

#define NAME "green_ends"
#include "../helpers/driver_program.h"

/* In one program at once. */
enum {
	MANY = 64
};

static CUdevice device;

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

/* Neither its own ID nor that of one which has replaced it. */
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

/* A reset ends them, with the references that they hold. */
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
	/* The reference of main() is left. */
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuDevicePrimaryCtxRelease(device));
	MUST(is_active());
	CHECK(cuGreenCtxDestroy(make()));
	MUST(is_active());
}

/* The driver accepts descriptions without meaning; their effect is unknown. */
static void of_nothing(void)
{
	CUdevResource all, parts[2], others[2], mixed[2];
	CUdevResourceDesc desc = NULL;
	CUgreenCtx green = NULL;
	unsigned n = 2;

	CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 8));
	CHECK(cuDevSmResourceSplitByCount(others, &n, &all, NULL, 0, 8));
	for (unsigned i = 0; i < 3; i++) {
		mixed[0] = i == 0 ? all : parts[0];
		mixed[1] = i == 2 ? others[1] : parts[0];
		CHECK(cuDevResourceGenerateDesc(&desc, mixed, 2));
		EXPECT(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
			cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	}
}

static void many(void)
{
	CUgreenCtx greens[MANY], more = NULL;

	for (unsigned i = 0; i < MANY; i++)
		greens[i] = make();
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
		cuGreenCtxCreate(&more, NULL, device, CU_GREEN_CTX_DEFAULT_STREAM));
	for (unsigned i = 0; i < MANY; i++)
		CHECK(cuGreenCtxDestroy(greens[i]));
	CHECK(cuGreenCtxDestroy(make()));
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
	of_nothing();
	many();
	CHECK(cuDevicePrimaryCtxRelease(device));
	MUST(!is_active());
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
