/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLASSES_H
#define CLASSES_H

/*
 * The sessions of the server by their class. A session with priority 2 is a background session,
 * any other is a foreground session. A session is listed at its first launch.
 *
 * A foreground session has the bit OBSERVER_CLASSES only while background sessions are listed.
 * Without the bit its launches do nothing here.
 *
 * The session's worker, unless a function says otherwise.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "server/session/session.h"

enum session_class {
	CLASS_NONE, /* not listed */
	CLASS_FOREGROUND,
	CLASS_BACKGROUND
};

/* A session's part. */
struct classed {
	struct session *session;
	struct classed *next;     /* in the list, under its lock */
	enum session_class class; /* written under the lock, by the worker only */

	/* Of a background session, for other threads. */
	atomic_uint groups;       /* groups of SMs that its oldest unfinished launch uses */
	_Atomic uint64_t n_noted; /* launches; the GPU writes this number when the last one ends */
};

/* Whether launches have to wait for, or to tell of, sessions of another class. */
static inline bool classes_are_several(const struct session *session)
{
	return unlikely(
		atomic_load_explicit(&session->observers, memory_order_relaxed) & OBSERVER_CLASSES);
}

/* The class of the session, which is listed from now on. */
enum session_class classes_join(struct session *session);

/* Any thread. */
enum session_class classes_class(const struct session *session);

/* What the foreground sessions do on a GPU. */
enum foreground_state {
	FOREGROUND_ABSENT, /* no foreground session has opened the GPU */
	FOREGROUND_IDLE,
	FOREGROUND_AT_WORK
};

/* Any thread. */
enum foreground_state classes_foreground(uint32_t ordinal);

/* The background work on a GPU. */
struct background_work {
	unsigned groups;  /* groups of SMs that it uses now, at most; 0: there is none */
	uint64_t n_noted; /* launches so far, of all sessions */
};

/* Any thread. */
struct background_work classes_background(uint32_t ordinal);

#endif
