/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events that cover all work of a context. Any thread of the application.
 *
 * Invariant: if a context was made to wait for an event, all its streams wait for
 * it, and so do streams created later, until the event is done.
 */

#include "context_events.h"

#include <stdatomic.h>

#include "event.h"
#include "recorder.h"

static CUresult event_join(struct stream *stream, void *into)
{
	return stream == into ? CUDA_SUCCESS : event_between(stream, into);
}

/* Internal events and streams do not need the SMs of a green context. */
static struct context *home_of(struct context *context)
{
	return context->home ? context->home : context;
}

/* Records the event on an internal stream that waits for all other streams. */
CUresult context_record(struct context *context, CUevent handle)
{
	struct event *event = slab_find(&events, handle);
	struct stream *all;
	CUresult result;

	if (!event || event->context != home_of(context))
		return CUDA_ERROR_INVALID_HANDLE;
	result = recorder.check_context(context);
	if (result == CUDA_SUCCESS)
		result = stream_new(home_of(context), false, 0, &all);
	if (result != CUDA_SUCCESS)
		return result;
	result = streams_each(context, true, event_join, all);
	if (result == CUDA_SUCCESS)
		result = event_record(event, all);
	(void)stream_end(all);
	return result;
}

static CUresult stream_add_wait(struct stream *stream, void *event)
{
	return event_make_wait(event, stream);
}

/*
 * An internal event replaces the program's event, which may be recorded again or
 * destroyed before streams that have to wait are created. The internal event also
 * covers earlier waits of the context.
 */
static CUresult context_add_wait(struct context *context, struct event *event)
{
	struct event *awaited;
	struct stream *stream;
	CUresult result = event_make(home_of(context), CU_EVENT_DISABLE_TIMING, &awaited);

	if (result != CUDA_SUCCESS)
		return result;
	result = context->home ? stream_new_green(context, 0, &stream)
			       : stream_new(context, false, 0, &stream);
	if (result == CUDA_SUCCESS) {
		result = event_make_wait(event, stream);
		if (result == CUDA_SUCCESS)
			result = event_record(awaited, stream);
		(void)stream_end(stream);
	}
	if (result == CUDA_SUCCESS)
		streams_new_wait(context, awaited);
	else
		(void)event_end(awaited);
	return result;
}

CUresult context_wait(struct context *context, CUevent handle)
{
	struct event *event = slab_find(&events, handle);
	CUresult result;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	result = recorder.check_context(context);
	if (atomic_load_explicit(&event->captured, memory_order_acquire)) {
		(void)recorder.check_event(event); /* this ends the capture */
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (result != CUDA_SUCCESS)
		return result;
	/* New streams first: a stream that is created meanwhile waits twice at worst. */
	result = context_add_wait(context, event);
	return result == CUDA_SUCCESS ? streams_each(context, false, stream_add_wait, event)
				      : result;
}
