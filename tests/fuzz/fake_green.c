/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Green contexts of the counting driver: a GPU of 32 SMs, divided into groups of
 * eight.
 */

#include <string.h>

#include "fake_tables.h"

#define SMS FAKE_SMS
#define PART 8u

struct fake_green {
	unsigned sms;
};

static void describe_sms(CUdevResource *resource, unsigned sms)
{
	memset(resource, 0, sizeof(*resource));
	resource->type = sms > 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
	resource->sm.smCount = sms;
	resource->sm.minSmPartitionSize = PART;
	resource->sm.smCoscheduledAlignment = PART;
}

static CUresult get_resource(CUdevice device, CUdevResource *ret, CUdevResourceType type)
{
	BEGIN();
	must(device == 0 && type == CU_DEV_RESOURCE_TYPE_SM, "an odd resource");
	describe_sms(ret, SMS);
	return CUDA_SUCCESS;
}

static CUresult green_resource(CUgreenCtx handle, CUdevResource *ret, CUdevResourceType type)
{
	BEGIN();
	must(handle && type == CU_DEV_RESOURCE_TYPE_SM, "an odd resource");
	describe_sms(ret, ((struct fake_green *)(void *)handle)->sms);
	return CUDA_SUCCESS;
}

static CUresult split(CUdevResource *groups, unsigned *n, const CUdevResource *whole,
	CUdevResource *rest, unsigned flags, unsigned count)
{
	unsigned most, wanted = *n;

	BEGIN();
	must(whole->type == CU_DEV_RESOURCE_TYPE_SM && flags < 4, "an odd division");
	if (count > whole->sm.smCount)
		return CUDA_ERROR_INVALID_VALUE;
	count = ALIGN_UP(MAX(count, PART), PART);
	most = whole->sm.smCount / count;
	*n = groups ? MIN(wanted, most) : most;
	for (unsigned i = 0; groups && i < *n; i++)
		describe_sms(&groups[i], count);
	if (rest)
		describe_sms(rest, whole->sm.smCount - *n * count);
	return CUDA_SUCCESS;
}

static CUresult describe(CUdevResourceDesc *ret, CUdevResource *resources, unsigned n)
{
	uintptr_t sms = 0;

	BEGIN();
	must(n > 0, "nothing to describe");
	for (unsigned i = 0; i < n; i++) {
		must(resources[i].type == CU_DEV_RESOURCE_TYPE_SM, "no resource");
		sms += resources[i].sm.smCount;
	}
	*ret = (CUdevResourceDesc)sms; /* NOLINT: a number is description enough */
	return CUDA_SUCCESS;
}

static CUresult create(CUgreenCtx *ret, CUdevResourceDesc desc, CUdevice device, unsigned flags)
{
	struct fake_green *green;

	BEGIN();
	must(desc && device == 0 && flags == CU_GREEN_CTX_DEFAULT_STREAM, "an odd green context");
	must((uintptr_t)desc <= SMS, "SMs that there are twice");
	green = fake_alloc(sizeof(*green));
	green->sms = (unsigned)(uintptr_t)desc;
	*ret = (CUgreenCtx)green;
	fake_counts.greens++;
	fake_calls.green_creates++;
	return CUDA_SUCCESS;
}

/* Its context is the green context itself. */
static CUresult as_context(CUcontext *ret, CUgreenCtx handle)
{
	BEGIN();
	must(handle != NULL, "the context of no green context");
	*ret = (CUcontext)handle;
	return CUDA_SUCCESS;
}

bool fake_is_green(CUcontext context)
{
	const struct fake_green *green = (const void *)context;

	return green && green->sms > 0 && green->sms <= SMS;
}

static CUresult destroy(CUgreenCtx handle)
{
	BEGIN();
	must(handle != NULL, "the end of no green context");
	free(handle);
	fake_counts.greens--;
	return CUDA_SUCCESS;
}

static CUresult stream(CUstream *ret, CUgreenCtx handle, unsigned flags, int priority)
{
	must(handle && flags == CU_STREAM_NON_BLOCKING, "an odd stream");
	return cuda.cuStreamCreateWithPriority(ret, flags, priority);
}

void fake_green_start(void)
{
	cuda.cuDeviceGetDevResource = get_resource;
	cuda.cuGreenCtxGetDevResource = green_resource;
	cuda.cuDevSmResourceSplitByCount = split;
	cuda.cuDevResourceGenerateDesc = describe;
	cuda.cuGreenCtxCreate = create;
	cuda.cuCtxFromGreenCtx = as_context;
	cuda.cuGreenCtxDestroy = destroy;
	cuda.cuGreenCtxStreamCreate = stream;
}
