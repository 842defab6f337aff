/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams, as driver 580 keeps them on an H100. It writes only the member of
 * the value that an attribute has.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <string.h>

#include "stream.h"
#include "tests/softgpu/driver/graph/capture.h"

#define WINDOW_MAX ((size_t)128 << 20)

static CUresult attribute_get(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
	const struct stream_settings *settings;
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	settings = &stream->settings;
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value->priority = stream->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		memcpy(&value->syncPolicy, &settings->policy, sizeof(settings->policy));
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		value->accessPolicyWindow = settings->window;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		value->memSyncDomain = settings->domain;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		value->memSyncDomainMap = settings->domains;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

ENTER_STREAM(cuStreamGetAttribute,
	(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value),
	attribute_get(stream, attribute, value))

static CUresult window_set(struct stream_settings *settings, const CUaccessPolicyWindow *window)
{
	if (window->num_bytes > WINDOW_MAX || !(window->hitRatio >= 0 && window->hitRatio <= 1))
		return CUDA_ERROR_INVALID_VALUE;
	settings->window = *window;
	return CUDA_SUCCESS;
}

static CUresult attribute_set(
	CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		stream->priority = MIN(MAX(value->priority, STREAM_PRIORITY_GREATEST), 0);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
			value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
			return CUDA_ERROR_INVALID_VALUE;
		stream->settings.policy = (int)value->syncPolicy;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		return window_set(&stream->settings, &value->accessPolicyWindow);
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		stream->settings.domain = value->memSyncDomain;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		stream->settings.domains = value->memSyncDomainMap;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

ENTER_STREAM(cuStreamSetAttribute,
	(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
	attribute_set(stream, attribute, value))

static CUresult attributes_copy(CUstream dst, CUstream src)
{
	struct stream *to, *from;
	CUresult result = stream_get(dst, &to);

	if (result == CUDA_SUCCESS)
		result = stream_get(src, &from);
	if (result != CUDA_SUCCESS)
		return result;
	if (capture_blocks(to) || capture_blocks(from))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	to->settings = from->settings;
	to->priority = from->priority;
	return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	ENTER(CALL_ALIVE);
	return attributes_copy(dst, src);
}

CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	ENTER(CALL_ALIVE);
	return attributes_copy(dst ? dst : CU_STREAM_PER_THREAD, src ? src : CU_STREAM_PER_THREAD);
}
