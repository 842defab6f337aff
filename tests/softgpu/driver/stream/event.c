/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: record, query, wait, elapsed time.
 *
 * Runs in any thread, under the driver's lock. A record is work of its stream;
 * the event is done when the stream has passed the record's ticket.
 */

#include "event.h"

#include <string.h>
#include <time.h>

#include "context.h"
#include "event_share.h"
#include "stream.h"
#include "trigger.h"
#include "tests/softgpu/driver/graph/capture.h"
#include "tests/softgpu/driver/ipc.h"
#include "tests/softgpu/driver/launch/launch.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

void stamp_unref(struct stamp *stamp)
{
	if (!stamp || --stamp->refs > 0)
		return;
	/* A record that was dropped must not stop other processes. */
	if (stamp->share)
		event_share_done(stamp->share, stamp->number);
	event_share_unref(stamp->share);
	free(stamp);
}

void stamp_set(struct stamp *stamp)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	stamp->time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (stamp->share)
		event_share_done(stamp->share, stamp->number);
}

void event_unref(struct event *event)
{
	if (!event || --event->refs > 0)
		return;
	capture_point_unref(event->captured);
	stamp_unref(event->stamp);
	stream_unref(event->stream);
	event_share_unref(event->share);
	trigger_unref(event->trigger);
	free(event);
}

void event_free(struct event *event)
{
	struct event **link = &event->context->events;

	while (*link != event)
		link = &(*link)->next;
	*link = event->next;
	event->context = NULL;
	object_remove(&event->object);
	stat_add(STAT_EVENTS, -1);
	event_unref(event);
}

CUresult event_get(CUevent handle, struct event **ret_event)
{
	struct event *event = object_find(OBJECT_EVENT, handle);

	if (!event)
		return context_has_ended() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
					   : CUDA_ERROR_INVALID_HANDLE;
	*ret_event = event;
	return CUDA_SUCCESS;
}

/* Whether the last record is of another process, which may not be done. */
static bool is_foreign(const struct event *event)
{
	return event->share &&
	       event_share_last(event->share) != (event->stamp ? event->stamp->number : 0);
}

static bool event_is_done(const struct event *event)
{
	if (is_foreign(event))
		return event_share_reached(event->share, event_share_last(event->share));
	if (event->is_of_context)
		return streams_reached(event->context, NULL, event->ticket);
	return !event->stream || (event->trigger && event->trigger->is_pulled) ||
	       stream_reached(event->stream, event->ticket);
}

void event_launched(struct event *event, struct stream *stream, struct trigger *trigger)
{
	trigger_unref(event->trigger);
	event->trigger = trigger_ref(trigger);
	stream_unref(event->stream);
	capture_point_unref(event->captured);
	event->captured = NULL;
	event->is_of_context = false;
	event->stream = stream_ref(stream);
	event->ticket = stream->submitted;
}

CUresult event_check_launch(const struct event *event, int flags)
{
	if (flags)
		return flags == CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_ILLEGAL_STATE
							 : CUDA_ERROR_INVALID_VALUE;
	return event->share || !(event->flags & CU_EVENT_DISABLE_TIMING) ? CUDA_ERROR_NOT_SUPPORTED
									 : CUDA_SUCCESS;
}

CUresult event_record(struct event *event, struct stream *stream)
{
	struct stamp *stamp = calloc(1, sizeof(*stamp));
	struct stamp *before = event->stamp;
	struct work work = {.kind = WORK_STAMP, .stamp = stamp};
	CUresult result;

	if (!stamp)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stamp->refs = 2;
	if (event->share) {
		stamp->share = event_share_ref(event->share);
		stamp->number = event_share_record(event->share);
	}
	event->stamp = stamp;
	result = stream_submit(stream, &work);
	if (result != CUDA_SUCCESS) {
		event->stamp = before;
		stamp_unref(stamp);
		return result;
	}
	stamp_unref(before);
	event_launched(event, stream, NULL);
	return CUDA_SUCCESS;
}

static CUresult await_foreign(struct event *event, struct stream *stream)
{
	struct work work = {.kind = WORK_WAIT_SHARED,
		.shared = {event_share_ref(event->share), event_share_last(event->share)}};

	return stream_submit(stream, &work);
}

CUresult event_await(struct event *event, struct stream *stream)
{
	if (is_foreign(event))
		return await_foreign(event, stream);
	if (event_is_done(event) || event->stream == stream)
		return CUDA_SUCCESS;
	if (event->is_of_context)
		return streams_depend(stream, event->context, event->ticket);
	return stream_depend_early(stream, event->stream, event->ticket, event->trigger);
}

/* Takes `share'. */
static CUresult event_new(unsigned flags, struct event_share *share, CUevent *ret_event)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event) {
		event_share_unref(share);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->refs = 1;
	event->flags = flags;
	event->share = share;
	event->context = context_current();
	event->next = event->context->events;
	event->context->events = event;
	object_add(&event->object, OBJECT_EVENT);
	stat_add(STAT_EVENTS, 1);
	*ret_event = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct event_share *share = NULL;

	ENTER(CALL_CONTEXT);
	if (!phEvent || (Flags & ~(unsigned)EVENT_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	if ((Flags & CU_EVENT_INTERPROCESS) && event_share_new(&share) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return event_new(Flags, share, phEvent);
}

_Static_assert(sizeof(struct ipc_ticket) <= sizeof(CUipcEventHandle), "a ticket is a handle");

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	struct event *found;
	struct ipc_ticket ticket;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pHandle || !event)
		return CUDA_ERROR_INVALID_VALUE;
	result = event_get(event, &found);
	if (result != CUDA_SUCCESS)
		return result;
	if (!found->share || event_share_ticket(found->share, &ticket) < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &ticket, sizeof(ticket));
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct event_share *share;
	struct ipc_ticket ticket;

	ENTER(CALL_CONTEXT);
	memcpy(&ticket, &handle, sizeof(ticket));
	if (!phEvent || event_share_open(&ticket, &share) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	return event_new(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, share, phEvent);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct event *event;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = event_get(hEvent, &event);
	if (result == CUDA_SUCCESS)
		event_free(event);
	return result;
}

CUresult cuEventDestroy(CUevent hEvent)
{
	return cuEventDestroy_v2(hEvent);
}

static CUresult record(CUevent handle, CUstream stream_handle, unsigned flags)
{
	struct event *event;
	struct stream *stream;
	CUresult result;

	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = event_get(handle, &event);
	if (result == CUDA_SUCCESS)
		result = stream_get(stream_handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->context->device != event->context->device)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		return capture_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL);
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	return event_record(event, stream);
}

ENTER_STREAM(cuEventRecord, (CUevent event, CUstream stream), record(event, stream, 0))
ENTER_STREAM(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
	record(event, stream, flags))

/* Only for whole contexts: green contexts have no use for it here. */
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct context *context;
	struct event *event;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!hCtx || context_get(hCtx, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_active)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = event_get(hEvent, &event);
	if (result != CUDA_SUCCESS)
		return result;
	if (event->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (context_green(hCtx) || event->share)
		return CUDA_ERROR_NOT_SUPPORTED;
	trigger_unref(event->trigger);
	event->trigger = NULL;
	stream_unref(event->stream);
	event->stream = NULL;
	capture_point_unref(event->captured);
	event->captured = NULL;
	event->is_of_context = true;
	event->ticket = streams_ticket();
	return CUDA_SUCCESS;
}

static CUresult await(CUstream stream_handle, CUevent handle, unsigned flags)
{
	struct event *event;
	struct stream *stream;
	CUresult result;

	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = event_get(handle, &event);
	if (result == CUDA_SUCCESS)
		result = stream_get(stream_handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->capture || event->captured)
		return capture_await(stream, event, flags & CU_EVENT_WAIT_EXTERNAL);
	return event_await(event, stream);
}

ENTER_STREAM(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
	await(stream, event, flags))

CUresult cuEventQuery(CUevent hEvent)
{
	struct event *event;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = event_get(hEvent, &event);
	if (result != CUDA_SUCCESS)
		return result;
	if (event->captured)
		return capture_forbid_event(event);
	return event_is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Another process ends the wait, so other calls go on meanwhile. */
static CUresult wait_foreign(const struct event *event)
{
	struct event_share *share = event_share_ref(event->share);
	const uint64_t last = event_share_last(share);

	while (!event_share_reached(share, last) && driver.fault == CUDA_SUCCESS) {
		pthread_mutex_unlock(&driver.lock);
		event_share_pause();
		pthread_mutex_lock(&driver.lock);
	}
	event_share_unref(share);
	return driver.fault;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	struct trigger *trigger;
	struct event *event;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = event_get(hEvent, &event);
	if (result != CUDA_SUCCESS)
		return result;
	if (event->captured)
		return capture_forbid_event(event);
	trigger = trigger_ref(event->trigger);
	if (is_foreign(event))
		result = wait_foreign(event);
	else if (event->is_of_context)
		result = streams_wait_ticket(event->context, NULL, event->ticket);
	else if (event->stream)
		result = stream_wait_early(event->stream, event->ticket, trigger);
	trigger_unref(trigger);
	print_flush();
	return result;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start, *end;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = event_get(hStart, &start);
	if (result == CUDA_SUCCESS)
		result = event_get(hEnd, &end);
	if (result != CUDA_SUCCESS)
		return result;
	if (!pMilliseconds || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_look_event(start);
	if (result == CUDA_SUCCESS)
		result = capture_look_event(end);
	if (result != CUDA_SUCCESS)
		return result;
	if (!start->stream || !end->stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_is_done(start) || !event_is_done(end))
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds =
		(float)((double)((int64_t)end->stamp->time_ns - (int64_t)start->stamp->time_ns) /
			1e6);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
