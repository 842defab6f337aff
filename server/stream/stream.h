/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * Streams of a session. The real ones are all CU_STREAM_NON_BLOCKING and made
 * at the first work, so that no neighbour's default stream holds them up; what
 * legacy default-stream rules a client expects are rebuilt with events.
 *
 * The session's worker only.
 */

#include "server/driver/driver.h"

struct session;
struct place;
struct green;
struct context_share;
struct stream;
struct train_store;

/* A NULL stream and the blocking streams that it takes turns with: see stream.c. */
struct turns {
	struct stream *null;     /* not owned; NULL: there is none */
	uint64_t serial;         /* counts work on the NULL stream */
	uint64_t event_serial;   /* what `event' covers */
	CUevent event;           /* of the NULL stream; NULL until the first */
	struct stream *unjoined; /* blocking ones with work that it has not waited for */
};

struct stream {
	uint32_t id;
	struct place *place; /* not owned */
	CUstream real;       /* NULL until its first work */
	int priority;        /* the driver's */
	struct turns *turns; /* of its context; not owned */
	bool is_null;        /* a legacy default stream */
	bool is_blocking;    /* takes turns with the NULL stream */
	bool is_dying;       /* its id may have a new stream already */
	bool is_busy;        /* on session::busy */
	bool is_unjoined;    /* on turns::unjoined */
	struct stream *next_busy, *next_unjoined;
	uint64_t seen_serial; /* of turns::serial */
	uint64_t owed_mark;   /* that the GPU will not write; 0: none */
	uint32_t n_beside; /* calls since it was last seen at rest, while any stream stood still */
	uint64_t held;     /* a host function's ticket: what comes waits for it; 0: none */
	CUevent event;     /* for joins; NULL until the first */
	struct green *green;         /* whose SMs it has; NULL: its place's */
	struct context_share *share; /* that `green' is of, a reference; NULL: `green' is one */
	struct train_store *trains;  /* NULL until they are worth it */
};

/* The NULL stream of a place; it needs no end of its own. */
void stream_init_null(struct stream *stream, struct place *place);

/*
 * Before work: makes the stream's GPU current and the real stream, and orders
 * it behind what it has to wait for.
 */
CUresult stream_begin(struct session *session, struct stream *stream, CUstream *ret_real);

/* The same before what the driver looks for no queue for: see standing.h. */
CUresult stream_begin_light(struct session *session, struct stream *stream, CUstream *ret_real);

/* Before a mark or an event: the same, but nobody need wait for it. */
CUresult stream_begin_mark(struct session *session, struct stream *stream, CUstream *ret_real);

/*
 * Makes the begun stream wait for an event, which may be behind something that
 * stands still (standing.h): it is one that does, until it has passed.
 */
CUresult stream_wait_event(
	struct session *session, struct stream *stream, CUevent event, bool may_stand);

/* Whether nothing was put on it since it was last seen idle, nor has to be waited for. */
bool stream_is_idle(const struct session *session, const struct stream *stream);

/*
 * Looks which streams have come to rest, and frees those that were destroyed.
 * Whether the session has no work on any GPU.
 */
bool streams_poll(struct session *session);

/* Whether a GPU has something to do for the session: for a stream that is held it has not. */
bool streams_are_at_work(const struct session *session);

/* Waits for all work of the session. CUDA_SUCCESS or the fault that ended it. */
CUresult streams_wait(struct session *session);

/* Destroys every stream; their work has ended, or the context has (`is_lost'). */
void streams_free(struct session *session, bool is_lost);

#endif
