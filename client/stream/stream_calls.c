/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The calls that create and end streams, wait for them, and queue host functions. Any
 * thread of the application.
 */

#include "callback.h"
#include "calls_stream.h"
#include "green.h"
#include "recorder.h"
#include "stream.h"
#include "client/transport/server_link.h"

CUresult local_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct stream *stream = NULL;
	CUresult result;

	if (unlikely(context_green))
		result = green_stream(context_green, priority, &stream);
	else
		result = stream_new(
			context_current, !(flags & CU_STREAM_NON_BLOCKING), priority, &stream);
	if (result == CUDA_SUCCESS)
		*phStream = (CUstream)stream;
	return result;
}

CUresult local_cuStreamSynchronize(struct stream *stream)
{
	CUresult result = recorder.check_wait(stream);

	if (result == CUDA_SUCCESS)
		result = stream_wait(stream);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult local_cuStreamQuery(struct stream *stream)
{
	CUresult result = recorder.check_wait(stream);

	if (result != CUDA_SUCCESS)
		return result;
	result = stream_query(stream);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

/* Waits for all work on the context's GPU. */
CUresult context_synchronize(const struct context *context)
{
	CUresult result = server_link_check(&server);

	if (result == CUDA_SUCCESS)
		result = recorder.check_device(context->device->index);
	if (result == CUDA_SUCCESS)
		result = streams_wait_device(context->device->index);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult stream_call_host(CUstream handle, CUhostFn function, CUstreamCallback callback, void *data)
{
	struct stream *stream = NULL;
	bool captures;
	CUresult result = stream_enter(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!function && !callback)
		return CUDA_ERROR_INVALID_VALUE;
	result = recorder_look(stream, &captures);
	if (unlikely(captures))
		return function ? recorder.host(stream, function, data) : recorder.forbid(stream);
	return result == CUDA_SUCCESS ? callback_add(stream, function, callback, handle, data)
				      : result;
}

CUresult local_cuStreamGetCtx_v2(struct stream *stream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	if (pCtx)
		*pCtx = stream_context_now(stream);
	if (pGreenCtx)
		*pGreenCtx = stream->green ? (CUgreenCtx)stream->green : NULL;
	return CUDA_SUCCESS;
}
