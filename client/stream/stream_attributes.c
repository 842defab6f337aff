/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of streams, kept in the client. A priority is sent to the server; the
 * others are hints that change no result. Any thread of the application.
 *
 * Invariant: settings belong to the stream whose unique number they contain. A
 * later stream in the same slot does not have them.
 */

#include <string.h>

#include "calls_stream.h"
#include "lock.h"
#include "recorder.h"
#include "stream.h"
#include "send_stream.h"

/* The driver's value for a stream on which nothing was set. */
#define POLICY_NONE (-1)

struct settings {
	uint64_t unique; /* the stream's; 0: nothing was set */
	CUaccessPolicyWindow window;
	int policy;
	CUlaunchMemSyncDomainMap domains;
	CUlaunchMemSyncDomain domain;
};

static struct lock lock = LOCK_INIT(STREAM_ATTRIBUTES);
static struct settings kept[STREAMS_MAX];

/* Under the lock. */
static struct settings settings_of(const struct stream *stream)
{
	const struct settings *settings = &kept[stream_id(stream)];

	if (settings->unique == stream->unique && settings->unique != 0)
		return *settings;
	return (struct settings){
		.unique = stream->unique, .policy = POLICY_NONE, .domains = {.remote = 1}};
}

CUresult local_cuStreamGetAttribute(
	struct stream *stream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	struct settings settings;

	lock_take(&lock);
	settings = settings_of(stream);
	lock_release(&lock);
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		value_out->accessPolicyWindow = settings.window;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		memcpy(&value_out->syncPolicy, &settings.policy, sizeof(settings.policy));
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value_out->priority = stream->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		value_out->memSyncDomainMap = settings.domains;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		value_out->memSyncDomain = settings.domain;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* As in cuStreamCreateWithPriority(), a value out of range is clamped. */
static CUresult set_priority(struct stream *stream, const struct device *device, int priority)
{
	CUresult result;

	priority = MAX(device->priority_greatest, MIN(priority, device->priority_least));
	result = send_stream_priority(stream_id(stream), priority);
	if (result == CUDA_SUCCESS)
		stream->priority = priority;
	return result;
}

static bool window_ok(const CUaccessPolicyWindow *window, const struct device *device)
{
	const int32_t *limit = device_facts(device)->attribute;

	return window->num_bytes <=
		       (size_t)limit[CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE] &&
	       window->hitRatio >= 0 && window->hitRatio <= 1;
}

/* Under the lock. */
static CUresult attribute_set(struct settings *settings, const struct device *device,
	CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		if (!window_ok(&value->accessPolicyWindow, device))
			return CUDA_ERROR_INVALID_VALUE;
		settings->window = value->accessPolicyWindow;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
			value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
			return CUDA_ERROR_INVALID_VALUE;
		settings->policy = (int)value->syncPolicy;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		settings->domains = value->memSyncDomainMap;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		settings->domain = value->memSyncDomain;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult local_cuStreamSetAttribute(
	struct stream *stream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	const struct device *device = context_current->device;
	struct settings settings;
	CUresult result;

	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		return set_priority(stream, device, value->priority);
	lock_hold(&lock);
	settings = settings_of(stream);
	result = attribute_set(&settings, device, attr, value);
	if (result == CUDA_SUCCESS)
		kept[stream_id(stream)] = settings;
	return result;
}

/* A default stream that would wait for a capture takes part in no copy, as in driver 580. */
static CUresult copy_stream(
	CUstream handle, struct context **ret_context, struct stream **ret_stream)
{
	CUresult result = context_enter(ret_context);
	bool captures;

	if (result == CUDA_SUCCESS)
		result = stream_resolve(*ret_context, handle, ret_stream);
	return result == CUDA_SUCCESS ? recorder_look(*ret_stream, &captures) : result;
}

CUresult local_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct stream *to, *from;
	struct settings settings;
	struct context *context;
	CUresult result = copy_stream(dst, &context, &to);

	if (result == CUDA_SUCCESS)
		result = copy_stream(src, &context, &from);
	if (result != CUDA_SUCCESS)
		return result;
	lock_take(&lock);
	settings = settings_of(from);
	settings.unique = to->unique;
	kept[stream_id(to)] = settings;
	lock_release(&lock);
	return set_priority(to, context->device, from->priority);
}
