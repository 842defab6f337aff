/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events: a name for how far a stream had come. To ask or to wait is to look
 * at the stream's timeline. Any thread.
 */

#include "client/device/context.h"
#include "client/util/slab.h"
#include "stream.h"

struct event {
	struct slab_head slab;
	struct context *context;
	unsigned flags;
	uint64_t serial;                /* never given twice */
	struct capture_point *captured; /* atomic: its last record was captured; NULL: it was not */
	pthread_mutex_t lock;           /* of what follows */
	struct stream *stream;          /* NULL: never recorded */
	uint64_t seqno;
	bool is_by_graph; /* atomic: a graph recorded it, somewhere before that seqno */
};

extern struct slab events;

/* The stream of its last record, and the seqno behind it; NULL: never recorded. */
struct stream *event_position(struct event *event, uint64_t *ret_seqno);

/* Notes a record by a graph's node, if the event is still the one of that serial. */
void event_recorded(struct event *event, uint64_t serial, struct stream *stream, uint64_t seqno);

/* An event of another process, of that token. */
CUresult event_open(struct context *context, const uint64_t token[2], CUevent *ret_handle);

static inline uint32_t event_id(const struct event *event)
{
	return slab_id(&events, event);
}

/* An event of our own, without time. */
CUresult event_make(struct context *context, struct event **ret_event);
CUresult event_end(struct event *event);

CUresult event_record(struct event *event, struct stream *stream);

/* Of one that no other process knows: whether what was recorded is done. */
bool event_is_done(struct event *event);

/* Has work to come on the stream wait for it; no message where there is nothing to wait for. */
CUresult event_make_wait(struct event *event, struct stream *stream);

/* Has work to come on `second' wait for what `first' has now. */
CUresult event_between(struct stream *first, struct stream *second);

/* Ends the events of a context that goes. */
void events_end_context(struct context *context);

#endif
