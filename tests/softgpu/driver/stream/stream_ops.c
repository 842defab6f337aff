/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of streams, waits for them, and host functions.
 *
 * Runs in any thread, under the driver's lock; host functions run in the
 * stream's thread without it.
 */

#include "context.h"
#include "green.h"
#include "stream.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/memory/memory.h"

/*
 * The ticket at which a stream is idle. The default stream is idle when every
 * blocking stream is, because its next work would wait for them.
 */
static bool stream_is_idle(const struct stream *stream)
{
	if (stream->head)
		return false;
	if (!stream_is_null(stream) || stream->is_green)
		return true;
	for (const struct stream *other = stream->context->streams; other; other = other->next)
		if (other->head && !(other->flags & CU_STREAM_NON_BLOCKING))
			return false;
	return true;
}

static CUresult synchronize(CUstream handle)
{
	struct work work = {.kind = WORK_NONE};
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result == CUDA_SUCCESS)
		result = stream_check_sync(stream);
	if (result == CUDA_SUCCESS && stream_is_idle(stream))
		print_flush();
	if (result != CUDA_SUCCESS || stream_is_idle(stream))
		return result;
	if (stream_is_null(stream)) {
		/* New work waits for everything that the default stream waits for. */
		result = stream_submit(stream, &work);
		if (result != CUDA_SUCCESS)
			return result;
	}
	result = stream_wait(stream, stream->submitted);
	print_flush();
	return result;
}

ENTER_STREAM(cuStreamSynchronize, (CUstream stream), synchronize(stream))

static CUresult query(CUstream handle)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result == CUDA_SUCCESS)
		result = stream_check_sync(stream);
	if (result != CUDA_SUCCESS)
		return result;
	return stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

ENTER_STREAM(cuStreamQuery, (CUstream stream), query(stream))

static CUresult get_priority(CUstream handle, int *priority)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*priority = stream->priority;
	return result;
}

ENTER_STREAM(cuStreamGetPriority, (CUstream stream, int *priority), get_priority(stream, priority))

static CUresult get_flags(CUstream handle, unsigned *flags)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*flags = stream->flags;
	return result;
}

ENTER_STREAM(cuStreamGetFlags, (CUstream stream, unsigned *flags), get_flags(stream, flags))

static CUresult get_id(CUstream handle, unsigned long long *id)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*id = stream->id;
	return result;
}

ENTER_STREAM(cuStreamGetId, (CUstream stream, unsigned long long *id), get_id(stream, id))

static CUresult get_context(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	/* A caller that does not request the green context gets a context that stands for it. */
	*context =
		stream->green && !green ? green_context(stream->green) : (CUcontext)stream->context;
	if (green)
		*green = (CUgreenCtx)stream->green;
	return CUDA_SUCCESS;
}

ENTER_STREAM(
	cuStreamGetCtx, (CUstream stream, CUcontext *context), get_context(stream, context, NULL))
ENTER_STREAM(cuStreamGetCtx_v2, (CUstream stream, CUcontext *context, CUgreenCtx *green),
	green ? get_context(stream, context, green) : CUDA_ERROR_INVALID_VALUE)

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct stream *stream;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = stream_get(hStream, &stream);
	if (!phCtx)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*phCtx = (CUgreenCtx)stream->green;
	return result;
}

static CUresult get_device(CUstream handle, CUdevice *device)
{
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*device = (CUdevice)(stream->context->device - driver.devices);
	return result;
}

ENTER_STREAM(cuStreamGetDevice, (CUstream stream, CUdevice *device), get_device(stream, device))

static CUresult attach(CUstream handle, CUdeviceptr address, unsigned flags)
{
	const struct range *range = range_find(address);
	struct stream *stream;

	if (!address || (range && range->is_pooled) ||
		(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
			flags != CU_MEM_ATTACH_SINGLE))
		return CUDA_ERROR_INVALID_VALUE;
	return stream_get(handle, &stream);
}

ENTER_STREAM(cuStreamAttachMemAsync,
	(CUstream stream, CUdeviceptr address, size_t length, unsigned flags),
	((void)length, attach(stream, address, flags)))

static CUresult host_push(CUstream handle, const struct host_work *host, enum work_kind kind)
{
	struct work work = {.kind = kind, .host = *host};
	struct stream *stream;
	CUresult result = stream_get(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (kind == WORK_CALLBACK && stream->capture)
		return stream_check_sync(stream);
	return stream_push(stream, &work);
}

ENTER_STREAM(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *user),
	fn ? host_push(stream, &(struct host_work){.fn = fn, .user = user}, WORK_HOST)
	   : CUDA_ERROR_INVALID_VALUE)
ENTER_STREAM(cuStreamAddCallback,
	(CUstream stream, CUstreamCallback callback, void *user, unsigned flags),
	callback &&flags == 0
		? host_push(stream,
			  &(struct host_work){.callback = callback, .handle = stream, .user = user},
			  WORK_CALLBACK)
		: CUDA_ERROR_INVALID_VALUE)
