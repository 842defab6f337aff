/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The flags of contexts: the driver adds CU_CTX_MAP_HOST to those of the primary context, and to no
 * others.
 */

#define NAME "context_flags"
#include "../helpers/driver_program.h"

static CUdevice device;

static unsigned flags_now(void)
{
	unsigned flags;

	CHECK(cuCtxGetFlags(&flags));
	return flags;
}

static unsigned flags_of_state(void)
{
	unsigned flags;
	int is_active;

	CHECK(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
	return flags;
}

static void look_at_primary(void)
{
	CUcontext primary;

	MUST(flags_of_state() == 0);
	CHECK(cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(cuCtxSetCurrent(primary));
	MUST(flags_now() == CU_CTX_MAP_HOST && flags_of_state() == 0);
	CHECK(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
	MUST(flags_now() == (CU_CTX_MAP_HOST | CU_CTX_SCHED_BLOCKING_SYNC));
	MUST(flags_of_state() == CU_CTX_SCHED_BLOCKING_SYNC);
	CHECK(cuDevicePrimaryCtxRelease(device));
}

static void look_at_created(void)
{
	CUcontext context;

	CHECK(cuCtxCreate(&context, NULL, 0, device));
	MUST(flags_now() == 0);
	CHECK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
	MUST(flags_now() == CU_CTX_SCHED_BLOCKING_SYNC);
	/* These are accepted, and not reported. */
	CHECK(cuCtxSetFlags(CU_CTX_COREDUMP_ENABLE));
	MUST(flags_now() == 0);
	CHECK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_USER_COREDUMP_ENABLE));
	MUST(flags_now() == CU_CTX_SCHED_BLOCKING_SYNC);
	/* Two ways to wait. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD));
	MUST(flags_now() == CU_CTX_SCHED_BLOCKING_SYNC);
	CHECK(cuCtxDestroy(context));
	CHECK(cuCtxCreate(&context, NULL, CU_CTX_LMEM_RESIZE_TO_MAX, device));
	MUST(flags_now() == CU_CTX_LMEM_RESIZE_TO_MAX);
	CHECK(cuCtxDestroy(context));
}

int main(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	look_at_primary();
	look_at_created();
	printf(NAME ": ok\n");
	return 0;
}
