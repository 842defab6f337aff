/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events. Any thread of the application.
 *
 * Invariant: a recorded event has a stream and a seqno that the server writes right
 * behind the event. So later records on the stream do not change what the event
 * waits for.
 */

#include "event.h"

#include <stdatomic.h>
#include <time.h>

#include "client.h"
#include "printf_output.h"
#include "recorder.h"
#include "stream.h"
#include "timeline.h"
#include "wire.h"
#include "client/util/slab.h"
#include "client/util/sleep.h"
#include "client/transport/route.h"
#include "send.h"

/* The pause between two queries of an event that other processes share. */
#define SHARED_SLEEP_MIN_NS 10000u
#define SHARED_SLEEP_MAX_NS 500000u

#define FLAGS_MASK (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

struct slab events = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.object_size = sizeof(struct event),
	.n_max = WIRE_EVENTS_MAX,
};

static _Atomic uint64_t last_serial;

/* The current context's event with this handle. */
static CUresult event_enter(CUevent handle, struct event **ret_event)
{
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_event = slab_find(&events, handle);
	return *ret_event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

struct context *event_context(CUevent handle)
{
	const struct event *event = slab_slot(&events, handle);

	if (!event || !event->context)
		return NULL;
	return slab_find(&events, handle) || !context_is_active(event->context) ? event->context
										: NULL;
}

struct stream *event_position(struct event *event, uint64_t *ret_seqno)
{
	struct stream *stream;

	pthread_mutex_lock(&event->lock);
	stream = event->stream;
	*ret_seqno = event->seqno;
	pthread_mutex_unlock(&event->lock);
	return stream;
}

/* Other processes may record a shared event too, so local seqnos do not show its progress. */
static bool event_is_shared(const struct event *event)
{
	return event->flags & CU_EVENT_INTERPROCESS;
}

bool event_is_done(struct event *event)
{
	uint64_t seqno;
	struct stream *stream = event_position(event, &seqno);

	return !stream || timeline_reached(stream, seqno);
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

	while ((result = send_ipc_event_query(slab_id(&events, event))) == CUDA_ERROR_NOT_READY) {
		sleep_ns(pause_ns);
		pause_ns = MIN(2 * pause_ns, (uint64_t)SHARED_SLEEP_MAX_NS);
	}
	return result;
}

CUresult event_end(struct event *event)
{
	CUresult result = send_event_destroy(slab_id(&events, event));

	recorder.forget_event(event);
	pthread_mutex_destroy(&event->lock);
	slab_give(&events, event);
	return result;
}

void events_end_context(struct context *context)
{
	for (unsigned i = 0; i < events.n_ever; i++) {
		struct event *event = slab_find(&events, events.base + i * sizeof(*event));

		if (event && event->context == context)
			(void)event_end(event);
	}
}

static struct event *event_new(struct context *context, unsigned flags)
{
	struct event *event = slab_take(&events);

	if (!event)
		return NULL;
	pthread_mutex_init(&event->lock, NULL);
	event->context = context;
	event->flags = flags;
	event->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
	return event;
}

CUresult event_open(struct context *context, const uint64_t token[2], CUevent *ret_handle)
{
	struct event *event = event_new(context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	CUresult result;

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_ipc_event_open(slab_id(&events, event), token);
	if (result != CUDA_SUCCESS) {
		slab_give(&events, event);
		return result;
	}
	*ret_handle = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult event_make(struct context *context, struct event **ret_event)
{
	struct event *event = event_new(context, CU_EVENT_DISABLE_TIMING);
	CUresult result;

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_event_create(slab_id(&events, event), event->flags);
	if (result == CUDA_SUCCESS)
		*ret_event = event;
	else
		slab_give(&events, event);
	return result;
}

CUresult event_between(struct stream *first, struct stream *second)
{
	struct event *event;
	uint64_t seqno;
	CUresult result = event_make(first->context, &event);

	if (result != CUDA_SUCCESS)
		return result;
	result = timeline_record(first, slab_id(&events, event), &seqno);
	if (result == CUDA_SUCCESS)
		result = send_event_wait(stream_id(second), slab_id(&events, event));
	if (result == CUDA_SUCCESS)
		stream_issued(second);
	(void)event_end(event);
	return result;
}

CUresult local_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct context *context;
	struct event *event;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || (Flags & ~(unsigned)FLAGS_MASK) ||
		(Flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) ==
			CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_INVALID_VALUE;
	event = event_new(context, Flags);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_event_create(
		slab_id(&events, event), Flags & ~(unsigned)CU_EVENT_INTERPROCESS);
	if (result != CUDA_SUCCESS) {
		slab_give(&events, event);
		return result;
	}
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult local_cuEventDestroy_v2(CUevent hEvent)
{
	struct event *event;
	CUresult result = event_enter(hEvent, &event);

	return result == CUDA_SUCCESS ? event_end(event) : result;
}

CUresult event_record(struct event *event, struct stream *stream)
{
	CUresult result;

	recorder.forget_event(event);
	pthread_mutex_lock(&event->lock);
	result = timeline_record(stream, slab_id(&events, event), &event->seqno);
	if (result == CUDA_SUCCESS) {
		event->stream = stream;
		atomic_store_explicit(&event->is_inside, false, memory_order_release);
	}
	pthread_mutex_unlock(&event->lock);
	/* The record must exist before another process can hear of it in another way. */
	if (result == CUDA_SUCCESS && event_is_shared(event))
		result = send_ipc_event_query(slab_id(&events, event));
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

void event_recorded(struct event *event, uint64_t serial, struct stream *stream, uint64_t seqno)
{
	if (!atomic_load_explicit(&event->slab.is_used, memory_order_acquire) ||
		event->serial != serial)
		return;
	pthread_mutex_lock(&event->lock);
	event->stream = stream;
	event->seqno = seqno;
	atomic_store_explicit(&event->is_inside, true, memory_order_release);
	pthread_mutex_unlock(&event->lock);
}

void event_launched(struct event *event, struct stream *stream)
{
	uint64_t seqno;

	recorder.forget_event(event);
	timeline_note(stream, &seqno);
	event_recorded(event, event->serial, stream, seqno);
}

CUresult local_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct stream *stream = NULL;
	struct event *event = NULL;
	bool captures = false;
	CUresult result = event_enter(hEvent, &event);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context_current, hStream, &stream);
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

CUresult local_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return local_cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult local_cuEventQuery(CUevent hEvent)
{
	struct event *event;
	CUresult result = event_enter(hEvent, &event);

	if (result == CUDA_SUCCESS)
		result = recorder.check_event(event);
	if (result != CUDA_SUCCESS)
		return result;
	if (event_is_asked_for(event))
		result = send_ipc_event_query(slab_id(&events, event));
	else if (!event_is_done(event))
		result = CUDA_ERROR_NOT_READY;
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

CUresult local_cuEventSynchronize(CUevent hEvent)
{
	struct stream *stream;
	struct event *event;
	uint64_t seqno;
	CUresult result = event_enter(hEvent, &event);

	if (result == CUDA_SUCCESS)
		result = recorder.check_event(event);
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

CUresult local_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start, *end;
	uint64_t seqno;
	CUresult result = event_enter(hStart, &start);

	if (result == CUDA_SUCCESS)
		result = event_enter(hEnd, &end);
	if (result != CUDA_SUCCESS)
		return result;
	if (!pMilliseconds || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	result = recorder.look_event(start);
	if (result == CUDA_SUCCESS)
		result = recorder.look_event(end);
	if (result != CUDA_SUCCESS)
		return result;
	if (!event_position(start, &seqno) || !event_position(end, &seqno))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_may_be_done(start) || !event_may_be_done(end))
		return CUDA_ERROR_NOT_READY;
	return send_event_elapsed(slab_id(&events, start), slab_id(&events, end), pMilliseconds);
}

/* Sends no message if the event is done, or if it was recorded on this stream. */
CUresult event_make_wait(struct event *event, struct stream *stream)
{
	uint64_t seqno;
	CUresult result;

	if (!event_is_shared(event) &&
		(event_position(event, &seqno) == stream || event_is_done(event)))
		return CUDA_SUCCESS;
	result = send_event_wait(stream_id(stream), slab_id(&events, event));
	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

CUresult local_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct stream *stream = NULL;
	struct event *event = NULL;
	bool captures = false;
	CUresult result = event_enter(hEvent, &event);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context_current, hStream, &stream);
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
