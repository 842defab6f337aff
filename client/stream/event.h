/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events: an event is a position in a stream. Queries and waits look at the
 * stream's timeline. Any thread.
 */

#include "lock.h"
#include "stream.h"
#include "client/util/slab.h"
#include "client/context/context.h"

struct event {
	struct slab_head slab;
	struct context *context;
	unsigned flags;
	uint64_t serial;                        /* unique */
	struct capture_point *_Atomic captured; /* where its last record was captured; NULL: it was
					   not captured */
	struct lock lock;                       /* protects the fields that follow */
	struct stream *stream;                  /* NULL: never recorded */
	uint64_t seqno;
	atomic_bool
		is_inside; /* recorded within a graph or a launch, somewhere before that seqno */
};

extern struct slab events;

/* NULL: no such event. */
struct event *event_find(CUevent handle);

/* The context of an event, also after its end. NULL: no such event. */
struct context *event_context(CUevent handle);

/* The stream of its last record and the seqno behind it. NULL: never recorded. */
struct stream *event_position(struct event *event, uint64_t *ret_seqno);

/* Notes a record by a graph's node, if the event still has that serial. */
void event_recorded(struct event *event, uint64_t serial, struct stream *stream, uint64_t seqno);

/* Notes a record by the launch that was just sent. */
void event_launched(struct event *event, struct stream *stream);

/* Opens the event of another process with that token. */
CUresult event_open(struct context *context, const uint64_t token[2], CUevent *ret_handle);

static inline uint32_t event_id(const struct event *event)
{
	return slab_id(&events, event);
}

/* Other processes may record a shared event too, so local seqnos do not show its progress. */
static inline bool event_is_shared(const struct event *event)
{
	return event->flags & CU_EVENT_INTERPROCESS;
}

/* Creates an event of cuEventCreate() or, with CU_EVENT_DISABLE_TIMING, an internal one. */
CUresult event_make(struct context *context, unsigned flags, struct event **ret_event);
CUresult event_end(struct event *event);

CUresult event_record(struct event *event, struct stream *stream);

/* Whether the recorded work is done. Only for events that no other process knows. */
bool event_is_done(struct event *event);

/*
 * Makes later work on the stream wait for the event; sends no message if there is
 * nothing to wait for.
 */
CUresult event_make_wait(struct event *event, struct stream *stream);

/* Makes later work on `second' wait for the work that is on `first' now. */
CUresult event_between(struct stream *first, struct stream *second);

/* Ends the events of a context that ends. */
void events_end_context(struct context *context);

#endif
