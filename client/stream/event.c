/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, recording and ending events. Any thread of the application.
 *
 * Invariant: a recorded event has a stream and a seqno that the server writes right
 * behind the event. So later records on the stream do not change what the event
 * waits for.
 */

#include "event.h"

#include <stdatomic.h>

#include "lock.h"
#include "recorder.h"
#include "stream.h"
#include "timeline.h"
#include "wire.h"
#include "client/util/slab.h"
#include "send_stream.h"

struct slab events = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct event),
	.n_max = WIRE_EVENTS_MAX,
};

static _Atomic uint64_t last_serial;

struct event *event_find(CUevent handle)
{
	return slab_find(&events, handle);
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

	lock_hold(&event->lock);
	stream = event->stream;
	*ret_seqno = event->seqno;
	return stream;
}

bool event_is_done(struct event *event)
{
	uint64_t seqno;
	struct stream *stream = event_position(event, &seqno);

	return !stream || timeline_reached(stream, seqno);
}

CUresult event_end(struct event *event)
{
	CUresult result = send_event_destroy(slab_id(&events, event));

	recorder.forget_event(event);
	lock_fini(&event->lock);
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
	lock_init(&event->lock, LOCK_EVENT);
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

CUresult event_make(struct context *context, unsigned flags, struct event **ret_event)
{
	struct event *event = event_new(context, flags);
	CUresult result;

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_event_create(
		slab_id(&events, event), flags & ~(unsigned)CU_EVENT_INTERPROCESS);
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
	CUresult result = event_make(first->context, CU_EVENT_DISABLE_TIMING, &event);

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

CUresult event_record(struct event *event, struct stream *stream)
{
	CUresult result;

	recorder.forget_event(event);
	lock_take(&event->lock);
	result = timeline_record(stream, slab_id(&events, event), &event->seqno);
	if (result == CUDA_SUCCESS) {
		event->stream = stream;
		atomic_store_explicit(&event->is_inside, false, memory_order_release);
	}
	lock_release(&event->lock);
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
	lock_hold(&event->lock);
	event->stream = stream;
	event->seqno = seqno;
	atomic_store_explicit(&event->is_inside, true, memory_order_release);
}

void event_launched(struct event *event, struct stream *stream)
{
	uint64_t seqno;

	recorder.forget_event(event);
	timeline_note(stream, &seqno);
	event_recorded(event, event->serial, stream, seqno);
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
