/* SPDX-License-Identifier: Apache-2.0 */

/* The calls that name an event. Any thread of the application. */

#include <stdatomic.h>

#include "calls_stream.h"
#include "event.h"
#include "recorder.h"
#include "stream.h"
#include "timeline.h"
#include "client/util/sleep.h"
#include "client/transport/route.h"
#include "send_stream.h"

/* The pause between two queries of an event that other processes share. */
#define SHARED_SLEEP_MIN_NS 10000u
#define SHARED_SLEEP_MAX_NS 500000u

/* The event and the stream of a call in the current context. */
static CUresult event_enter(
	CUevent handle, CUstream on, struct event **ret_event, struct stream **ret_stream)
{
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_event = slab_find(&events, handle);
	return *ret_event ? stream_resolve(context, on, ret_stream) : CUDA_ERROR_INVALID_HANDLE;
}

/*
 * The seqno of a record within a graph or a launch comes after the whole launch; the event
 * may be done long before. So the server has to be asked.
 */
static bool event_is_asked_for(struct event *event)
{
	return event_is_shared(event) ||
	       (atomic_load_explicit(&event->is_inside, memory_order_acquire) &&
		       !event_is_done(event));
}

/* For a record within a graph, the driver knows. */
static bool event_may_be_done(struct event *event)
{
	return atomic_load_explicit(&event->is_inside, memory_order_acquire) ||
	       event_is_done(event);
}

/* Asks the driver now and then: this process cannot see the progress of a shared event. */
static CUresult event_wait_shared(const struct event *event)
{
	uint64_t pause_ns = SHARED_SLEEP_MIN_NS;
	CUresult result;

	while ((result = send_ipc_event_query(event_id(event))) == CUDA_ERROR_NOT_READY) {
		sleep_ns(pause_ns);
		pause_ns = MIN(2 * pause_ns, (uint64_t)SHARED_SLEEP_MAX_NS);
	}
	return result;
}

CUresult local_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct stream *stream = NULL;
	struct event *event = NULL;
	bool captures = false;
	CUresult result = event_enter(hEvent, hStream, &event, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->context->device != context_current->device)
		return CUDA_ERROR_INVALID_HANDLE;
	result = recorder_look(stream, &captures);
	if (unlikely(captures))
		return recorder.event_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL);
	if (result != CUDA_SUCCESS)
		return result;
	/* The only flag applies to streams that capture. */
	return flags ? CUDA_ERROR_INVALID_VALUE : event_record(event, stream);
}

CUresult local_cuEventQuery(struct event *event)
{
	CUresult result = recorder.check_event(event);

	if (result != CUDA_SUCCESS)
		return result;
	if (event_is_asked_for(event))
		result = send_ipc_event_query(event_id(event));
	else if (!event_is_done(event))
		result = CUDA_ERROR_NOT_READY;
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult local_cuEventSynchronize(struct event *event)
{
	struct stream *stream;
	uint64_t seqno;
	CUresult result = recorder.check_event(event);

	if (result != CUDA_SUCCESS)
		return result;
	stream = event_position(event, &seqno);
	if (event_is_asked_for(event))
		result = event_wait_shared(event);
	else if (stream)
		result = timeline_wait(stream, seqno);
	stream_waited();
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult local_cuEventElapsedTime_v2(float *pMilliseconds, struct event *start, struct event *end)
{
	uint64_t seqno;
	CUresult result = recorder.look_event(start);

	if (result == CUDA_SUCCESS)
		result = recorder.look_event(end);
	if (result != CUDA_SUCCESS)
		return result;
	if (!event_position(start, &seqno) || !event_position(end, &seqno))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_may_be_done(start) || !event_may_be_done(end))
		return CUDA_ERROR_NOT_READY;
	return send_event_elapsed(event_id(start), event_id(end), pMilliseconds);
}

CUresult local_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct stream *stream = NULL;
	struct event *event = NULL;
	bool captures = false;
	CUresult result = event_enter(hEvent, hStream, &event, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = recorder_look_wait(stream, event, &captures);
	if (unlikely(captures) && stream->green)
		return refuse("cuStreamWaitEvent",
			"green-context streams cannot capture: kernels in graphs use all SMs");
	if (unlikely(captures))
		return recorder.event_wait(stream, event, Flags & CU_EVENT_WAIT_EXTERNAL);
	return result == CUDA_SUCCESS ? event_make_wait(event, stream) : result;
}
