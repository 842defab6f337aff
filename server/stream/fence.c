/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fences. A worker.
 *
 * Invariant: every stream that had work when the fence was made has an event in it, until
 * that event is done.
 */

#include "fence.h"

#include "stream.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/session_device.h"

static uint32_t count_busy(const struct session *session)
{
	uint32_t n = 0;

	for (const struct stream *stream = session->busy; stream; stream = stream->next_busy)
		n++;
	return n;
}

static CUresult fence_add(struct fence *fence, struct session *session, const struct stream *stream)
{
	CUevent event = NULL;
	CUresult result = session_device_enter(session, stream->sdev);

	if (result == CUDA_SUCCESS)
		result = cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	fence->events[fence->n++] = event;
	return cuda.cuEventRecord(event, stream->real);
}

CUresult fence_init(struct fence *fence, struct session *session)
{
	CUresult result = CUDA_SUCCESS;
	uint32_t n;

	*fence = (struct fence){0};
	if (streams_poll(session))
		return CUDA_SUCCESS;
	n = count_busy(session) + 1;
	fence->events =
		account_alloc(session->account, n * sizeof(CUevent), n * (uint64_t)KEPT_EVENT);
	if (!fence->events)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (const struct stream *stream = session->busy; stream && result == CUDA_SUCCESS;
		stream = stream->next_busy)
		result = fence_add(fence, session, stream);
	if (result != CUDA_SUCCESS)
		fence_fini(fence, false);
	return result;
}

bool fence_is_passed(struct fence *fence)
{
	while (fence->n > 0) {
		CUevent event = fence->events[fence->n - 1];
		CUresult result = cuda.cuEventQuery(event);

		/* After a fault nothing runs any more. */
		if (result != CUDA_SUCCESS && !result_is_fault(result))
			return false;
		cuda.cuEventDestroy_v2(event);
		fence->n--;
	}
	fence_fini(fence, false);
	return true;
}

void fence_fini(struct fence *fence, bool device_lost)
{
	for (uint32_t i = 0; i < fence->n && !device_lost; i++)
		cuda.cuEventDestroy_v2(fence->events[i]);
	account_free(fence->events);
	*fence = (struct fence){0};
}
