/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_STREAM_H
#define SESSION_STREAM_H

/*
 * What is known of a session's stream; server/stream/stream.h says what is done with it. The
 * session's worker only.
 */

#include "driver.h"

struct context_share;
struct green;
struct session_device;
struct stream;
struct chain_cache;

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
	struct session_device *sdev; /* not owned */
	CUstream real;               /* NULL until its first work */
	int priority;                /* the driver's */
	struct turns *turns;         /* of its context; not owned */
	bool is_null;                /* a legacy default stream */
	bool is_blocking;            /* takes turns with the NULL stream */
	bool is_closed;              /* its id may have a new stream already */
	bool is_busy;                /* on session::busy */
	bool is_unjoined;            /* on turns::unjoined */
	struct stream *next_busy, *next_unjoined;
	uint64_t seen_serial;   /* of turns::serial */
	uint64_t pending_seqno; /* that the GPU will not write; 0: none */
	uint32_t n_beside; /* calls since it was last seen at rest, while any stream was blocked */
	uint64_t parked;   /* a host function's ticket: what comes waits for it; 0: none */
	CUevent event;     /* for joins; NULL until the first */
	struct green *green;         /* whose SMs it has; NULL: its sdev's */
	struct context_share *share; /* that `green' is of, a reference; NULL: `green' is one */
	struct chain_cache *chains;  /* NULL until they are worth it */
};

#endif
