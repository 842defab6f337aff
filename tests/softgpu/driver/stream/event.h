/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * An event: the point in a stream where it was last recorded, and the time when
 * the stream reached that point. All under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"

struct context;
struct event_share;
struct graph_point;
struct stream;
struct trigger;

/* The time of a record; the event and the work that fills it share it. */
struct stamp {
	uint32_t refs;
	uint64_t time_ns;          /* CLOCK_MONOTONIC */
	struct event_share *share; /* of an event that processes share: owns a reference */
	uint64_t number;           /* of the record there */
};

struct event {
	struct object object;
	struct event *next;      /* context::events */
	struct context *context; /* NULL after destruction, while graphs still refer to it */
	uint32_t refs;
	unsigned flags;
	struct stream *stream; /* NULL until recorded; owns a reference */
	bool is_of_context;    /* recorded last by cuCtxRecordEvent(); there is no `stream' */
	uint64_t ticket;
	struct trigger *trigger; /* of the launch of that ticket; NULL: none */
	struct stamp *stamp;
	struct event_share *share;    /* with CU_EVENT_INTERPROCESS: owned */
	struct graph_point *captured; /* recorded in a capture: what a wait for the event joins */
};

/* Ends the handle; the last reference frees the memory. */
void event_free(struct event *event);
void event_unref(struct event *event);

CUresult event_get(CUevent handle, struct event **ret_event);

/* Submits the record, even if the stream is being captured. */
CUresult event_record(struct event *event, struct stream *stream);
/* The stream's last work is a launch that records the event; NULL: when it ends. */
void event_launched(struct event *event, struct stream *stream, struct trigger *trigger);
/* Whether a launch may record it. */
CUresult event_check_launch(const struct event *event, int flags);
/* Makes the stream's further work wait for the last record. */
CUresult event_await(struct event *event, struct stream *stream);

void stamp_unref(struct stamp *stamp);
/* Called by streams' threads. */
void stamp_set(struct stamp *stamp);

#endif
