/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries about a stream. Any thread of the application.
 *
 * Invariant: nothing here asks the server or waits.
 */

#include "client.h"
#include "stream.h"

/* The current context's stream with this handle, for a query with one result. */
static CUresult fact_stream(CUstream handle, const void *ret, struct stream **ret_stream)
{
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_resolve(context, handle, ret_stream);
}

CUresult local_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, priority, &stream);

	if (result == CUDA_SUCCESS)
		*priority = stream->priority;
	return result;
}

CUresult local_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, flags, &stream);

	if (result == CUDA_SUCCESS)
		*flags = stream->is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
	return result;
}

CUresult local_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, streamId, &stream);

	if (result == CUDA_SUCCESS)
		*streamId = stream->unique;
	return result;
}

/* The NULL stream belongs to whichever context is current. */
static CUcontext context_of(const struct stream *stream)
{
	return (CUcontext)(stream_id(stream) < DEVICES_MAX ? context_current : stream->context);
}

CUresult local_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, pctx, &stream);

	if (result == CUDA_SUCCESS)
		*pctx = stream->green ? (CUcontext)stream->green : context_of(stream);
	return result;
}

CUresult local_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	struct stream *stream;
	/* Either pointer may be NULL. */
	CUresult result =
		fact_stream(hStream, pCtx ? (const void *)pCtx : (const void *)pGreenCtx, &stream);

	if (result == CUDA_SUCCESS && pCtx)
		*pCtx = context_of(stream);
	if (result == CUDA_SUCCESS && pGreenCtx)
		*pGreenCtx = stream->green ? (CUgreenCtx)stream->green : NULL;
	return result;
}

CUresult local_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, phCtx, &stream);

	if (result == CUDA_SUCCESS)
		*phCtx = stream->green ? (CUgreenCtx)stream->green : NULL;
	return result;
}

CUresult local_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct stream *stream;
	CUresult result = fact_stream(hStream, device, &stream);

	if (result == CUDA_SUCCESS)
		*device = stream->context->ordinal;
	return result;
}
