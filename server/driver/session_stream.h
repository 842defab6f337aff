/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_STREAM_H
#define SESSION_STREAM_H

/*
 * The state of a session's stream; server/stream/stream.h has the functions. The session's
 * worker only.
 */

#include "driver.h"

struct context_share;
struct device;
struct green;
struct elastic_stream;
struct session_device;
struct stream;
struct chain_cache;

/* A NULL stream and the blocking streams that take turns with it: see stream.c. */
struct turns {
	struct stream *null;     /* not owned; NULL: there is none */
	uint64_t serial;         /* counts work on the NULL stream */
	uint64_t event_serial;   /* what `event' covers */
	CUevent event;           /* of the NULL stream; NULL until the first */
	struct stream *unjoined; /* blocking streams whose work it has not waited for */
};

struct stream {
	uint32_t id;
	struct device *device; /* not owned, as the next */
	struct session_device *sdev;
	CUstream real;       /* which gets the next work; NULL until its first work */
	CUstream home;       /* the first `real': it identifies the stream */
	int priority;        /* the driver's priority */
	struct turns *turns; /* of the stream's context; not owned */
	bool is_null;        /* a legacy default stream */
	bool is_blocking;    /* takes turns with the NULL stream */
	bool is_apart;       /* has SMs of its own, or its session is in the background */
	bool is_closed;      /* destroyed; its ID may have a new stream */
	bool is_busy;        /* on session::busy */
	bool is_unjoined;    /* on turns::unjoined */
	struct stream *next_busy, *next_unjoined;
	uint64_t seen_serial; /* of turns::serial */
	uint64_t seqno;       /* the last one that the GPU was, or could not be, told to write */
	uint32_t n_beside; /* calls since it was last seen at rest, while any stream was blocked */
	uint32_t n_waited; /* launches in a row that the client waited for: see launch_batch.h */
	uint64_t parked;   /* ticket of the host function that later work waits for; 0: none */
	CUevent event;     /* for joins; NULL until the first */
	struct green *green;            /* the green context of its SMs; NULL: that of its sdev */
	struct context_share *share;    /* a reference; NULL: `green' is the client's */
	struct chain_cache *chains;     /* a list; NULL until needed */
	struct elastic_stream *elastic; /* NULL: `real' is always `home' */
};

#endif
