/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events of a session. The real ones are made at the first record, on the GPU
 * of its stream. The session's worker only.
 */

#include "driver.h"

struct session;
struct place;

struct event {
	uint32_t id;
	unsigned flags;
	CUevent real;        /* NULL: never recorded */
	struct place *place; /* not owned: whose GPU the real one is of */
};

/* Destroys every event; their streams are gone. */
void events_free(struct session *session, bool is_lost);

#endif
