/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries about a stream. Any thread of the application.
 *
 * Invariant: nothing here asks the server or waits.
 */

#include "client.h"
#include "stream.h"

CUresult local_cuStreamGetPriority(struct stream *stream, int *priority)
{
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult local_cuStreamGetFlags(struct stream *stream, unsigned int *flags)
{
	*flags = stream->is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
	return CUDA_SUCCESS;
}

CUresult local_cuStreamGetId(struct stream *stream, unsigned long long *streamId)
{
	*streamId = stream->unique;
	return CUDA_SUCCESS;
}

/* The NULL stream belongs to whichever context is current. */
static CUcontext context_of(const struct stream *stream)
{
	return (CUcontext)(stream_id(stream) < DEVICES_MAX ? context_current : stream->context);
}

CUresult local_cuStreamGetCtx(struct stream *stream, CUcontext *pctx)
{
	*pctx = stream->green ? (CUcontext)stream->green : context_of(stream);
	return CUDA_SUCCESS;
}

CUresult local_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	struct stream *stream;
	CUresult result;

	/* Either pointer may be NULL. */
	if (!pCtx && !pGreenCtx)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_resolve(context_current, hStream, &stream);
	if (result == CUDA_SUCCESS && pCtx)
		*pCtx = context_of(stream);
	if (result == CUDA_SUCCESS && pGreenCtx)
		*pGreenCtx = stream->green ? (CUgreenCtx)stream->green : NULL;
	return result;
}

CUresult local_cuStreamGetGreenCtx(struct stream *stream, CUgreenCtx *phCtx)
{
	*phCtx = stream->green ? (CUgreenCtx)stream->green : NULL;
	return CUDA_SUCCESS;
}

CUresult local_cuStreamGetDevice(struct stream *stream, CUdevice *device)
{
	*device = stream->context->ordinal;
	return CUDA_SUCCESS;
}
