/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: a set of a device's SMs, whose numbers and count the kernels of
 * its streams see.
 *
 * Runs in any thread, under the driver's lock. A resource has its set in the hidden
 * bytes, as the driver's resources do.
 */

#include "green.h"

#include <string.h>

#include "context.h"
#include "stream.h"

/* Sizes of parts on devices of compute capability 9.0, and sizes without support for clusters. */
#define PART 8u
#define PART_FINE 2u

struct hidden {
	int device;
	uint32_t division; /* 0: a whole */
	struct sm_set sms;
};

struct desc {
	struct object object;
	int device;
	struct sm_set sms;
};

static uint32_t last_division;

static void resource_write(CUdevResource *resource, int device, uint32_t division,
	const struct sm_set *sms, unsigned part)
{
	const struct hidden hidden = {device, division, *sms};

	memset(resource, 0, sizeof(*resource));
	if (sm_set_count(sms) == 0)
		return;
	resource->type = CU_DEV_RESOURCE_TYPE_SM;
	memcpy(resource->_internal_padding, &hidden, sizeof(hidden));
	resource->sm.smCount = sm_set_count(sms);
	resource->sm.minSmPartitionSize = part;
	resource->sm.smCoscheduledAlignment = part;
}

static CUresult resource_read(const CUdevResource *resource, struct hidden *ret_hidden)
{
	if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memcpy(ret_hidden, resource->_internal_padding, sizeof(*ret_hidden));
	return CUDA_SUCCESS;
}

static CUresult check(const void *resource, CUdevResourceType type)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

/* As programs name the device, which differs from its ordinal in the machine. */
static CUdevice number_of(const struct device *device)
{
	return (CUdevice)(device - driver.devices);
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	struct sm_set all = sm_set_all();
	CUresult result;

	ENTER(CALL_ALIVE);
	result = check(resource, type);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	resource_write(resource, device, 0, &all, PART);
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	const struct green *green;
	CUresult result;

	ENTER(CALL_ALIVE);
	green = object_find(OBJECT_GREEN, hCtx);
	result = check(resource, type);
	if (result == CUDA_SUCCESS && !green)
		result = CUDA_ERROR_INVALID_CONTEXT;
	if (result == CUDA_SUCCESS)
		resource_write(resource, number_of(green->context->device), 0, &green->sms, PART);
	return result;
}

/* A green context reports its SMs, any other context all SMs. */
CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct context *context;
	struct sm_set sms;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = check(resource, type);
	if (result == CUDA_SUCCESS)
		result = context_get(hCtx, &context);
	if (result != CUDA_SUCCESS)
		return result;
	sms = green_sms(context_green(hCtx));
	resource_write(resource, number_of(context->device), 0, &sms, PART);
	return CUDA_SUCCESS;
}

/* The largest number of groups with `*count_min' SMs each, rounded up to whole parts. */
static unsigned groups_max(const struct sm_set *sms, unsigned flags, unsigned *count_min)
{
	unsigned part = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? PART_FINE : PART;

	*count_min = MIN(ALIGN_UP(MAX(*count_min, part), part), sm_set_count(sms));
	return sm_set_count(sms) / *count_min;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
	const CUdevResource *input, CUdevResource *remaining, unsigned int useFlags,
	unsigned int minCount)
{
	struct hidden hidden;
	unsigned n;
	CUresult read;

	ENTER(CALL_ALIVE);
	/* At most one flag; other bits are ignored. */
	if (!nbGroups || !input || (useFlags & 3u) == 3u || (result && *nbGroups == 0))
		return CUDA_ERROR_INVALID_VALUE;
	read = resource_read(input, &hidden);
	if (read != CUDA_SUCCESS)
		return read;
	if (hidden.division != 0)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (minCount > sm_set_count(&hidden.sms))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	n = groups_max(&hidden.sms, useFlags, &minCount);
	*nbGroups = result ? MIN(*nbGroups, n) : n;
	if (!result)
		return CUDA_SUCCESS;
	last_division++;
	for (unsigned i = 0; i < *nbGroups; i++) {
		struct sm_set sms = sm_set_take(&hidden.sms, minCount);

		resource_write(&result[i], hidden.device, last_division, &sms, 0);
	}
	if (remaining)
		resource_write(remaining, hidden.device, last_division, &hidden.sms, 0);
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(
	CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
	struct desc *made; /* never freed: the driver has no call for it */
	struct hidden first, hidden;
	struct sm_set sms = {0};

	ENTER(CALL_ALIVE);
	if (!phDesc || !resources || nbResources == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < nbResources; i++) {
		CUresult result = resource_read(&resources[i], &hidden);

		if (result != CUDA_SUCCESS)
			return result;
		first = i == 0 ? hidden : first;
		for (unsigned k = 0; k < ARRAY_SIZE(sms.words); k++)
			sms.words[k] |= hidden.sms.words[k];
	}
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->device = first.device;
	made->sms = sms;
	object_add(&made->object, OBJECT_DESC);
	*phDesc = (CUdevResourceDesc)made;
	return CUDA_SUCCESS;
}

/* The real driver, too, waits for all work on the GPU. */
CUresult cuGreenCtxCreate(
	CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	const struct desc *found;
	struct device *device;
	struct green *green;
	CUresult result;

	ENTER(CALL_ALIVE);
	found = desc ? object_find(OBJECT_DESC, desc) : NULL;
	device = device_get(dev);
	if (!phCtx || (desc && !found) || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device || (found && found->device != dev) || !device->primary->is_active)
		return CUDA_ERROR_INVALID_DEVICE;
	result = device_wait(device);
	if (result != CUDA_SUCCESS)
		return result;
	green = calloc(1, sizeof(*green));
	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->context = device->primary;
	green->sms = found ? found->sms : sm_set_all();
	green->id = ++driver.last_id;
	green->next = device->primary->greens;
	device->primary->greens = green;
	object_add(&green->object, OBJECT_GREEN);
	stat_add(STAT_GREENS, 1);
	*phCtx = (CUgreenCtx)green;
	return CUDA_SUCCESS;
}

struct green *green_of_context(const void *handle)
{
	return object_find(OBJECT_GREEN, handle);
}

CUcontext green_context(struct green *green)
{
	return (CUcontext)green;
}

struct sm_set green_sms(const struct green *green)
{
	return green ? green->sms : sm_set_all();
}

/* The streams of the green context finish their work and accept no more. */
static void green_free(struct green *green)
{
	struct green **link = &green->context->greens;
	struct stream *null_stream = green->null_stream;

	while (*link != green)
		link = &(*link)->next;
	*link = green->next;
	for (struct stream *stream = green->context->streams; stream; stream = stream->next)
		if (stream->green == green)
			stream->green = NULL;
	if (null_stream)
		stream_close(null_stream);
	object_remove(&green->object);
	stat_add(STAT_GREENS, -1);
	free(green);
}

void greens_free_context(struct context *context)
{
	while (context->greens)
		green_free(context->greens);
}

/* Waits for work in the context of its streams, as callers must expect. */
CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct context *context;
	struct green *green;

	ENTER(CALL_ALIVE);
	green = object_find(OBJECT_GREEN, hCtx);
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	context = green->context;
	green_free(green);
	return streams_wait(context);
}

CUresult cuGreenCtxStreamCreate(
	CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	struct stream *stream;
	struct green *green;

	ENTER(CALL_ALIVE);
	green = object_find(OBJECT_GREEN, greenCtx);
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	stream = stream_new_in(green->context, green, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_add(&stream->object, OBJECT_STREAM);
	stat_add(STAT_STREAMS, 1);
	*phStream = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct green *green;

	ENTER(CALL_ALIVE);
	green = object_find(OBJECT_GREEN, hCtx);
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	*pContext = green_context(green);
	return CUDA_SUCCESS;
}

/* A greenCtx of NULL stands for the current context. */
CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	const struct green *green;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = greenCtx ? CUDA_SUCCESS : context_check();
	green = greenCtx ? object_find(OBJECT_GREEN, greenCtx) : context_green(NULL);
	if (!greenCtxId || result != CUDA_SUCCESS)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	*greenCtxId = green->id;
	return CUDA_SUCCESS;
}
