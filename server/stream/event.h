/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events of a session. The real ones are made at the first record, on the GPU
 * of its stream. The session's worker only.
 */

#include "server/driver/driver.h"

struct session;
struct session_room;
struct session_device;
struct shared_event;

struct event {
	uint32_t id;
	unsigned flags;
	uint32_t n_users; /* nodes of graphs, which keep it */
	bool is_ended;
	CUevent real;                /* NULL: never recorded */
	struct shared_event *shared; /* NULL: nobody else has it. Owns a reference */
	struct session_device *sdev; /* not owned: whose GPU the real one is of */
	uint32_t stream;             /* number of the one it was last recorded on */
};

/* The real event, made at need; the GPU of its sdev is current. */
CUresult event_make(struct event *event, struct session_device *sdev);

/* It is in a graph, or is no more. */
void event_use(struct event *event);
void event_unuse(struct event *event, bool device_lost);

/* What is done for each session: see session_room.h. */
extern const struct session_room events_room;

#endif
