/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events of a session. A real event is made at the first record, on the GPU of its stream.
 * The session's worker only.
 */

#include "server/driver/driver.h"

struct session_device;
struct event_user;

struct event {
	uint32_t id;
	unsigned flags;
	uint32_t n_users; /* nodes of graphs that use it */
	bool is_ended;
	CUevent real;                /* NULL: never recorded; not owned if it is shared */
	struct event_user *user;     /* owned; NULL: it is not shared */
	struct session_device *sdev; /* not owned: its GPU has the real event */
	uint64_t recorded_ns;        /* in another server, unless `real' was; 0: not there */
	uint32_t stream;             /* ID of the stream on which it was last recorded */
};

/* Makes the real event if needed. The GPU of its sdev is current. */
CUresult event_make(struct event *event, struct session_device *sdev);

/* A graph begins or ends using the event. */
void event_use(struct event *event);
void event_unuse(struct event *event, bool device_lost);

#endif
