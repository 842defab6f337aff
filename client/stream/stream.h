/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * Streams as the client knows them. A stream's place in the table is its id on
 * the wire and its index in the timeline; the first DEVICES_MAX are the NULL
 * streams of the server's devices. A place is never freed memory, so any
 * handle can be tested.
 */

#include <pthread.h>

#include "client/util/api.h"
#include "client/device/context.h"
#include "client/device/hooks.h"
#include "layout.h"
#include "printf_output.h"

struct capture_point;
struct event;

enum stream_state {
	STREAM_FREE,
	STREAM_USED,
	STREAM_CHANGING,       /* in the hands of who ends it */
	STREAM_CLOSING,        /* destroyed by the program, with work left */
	STREAM_ORPHAN_CLOSING, /* its green context was destroyed, and may have work left */
	STREAM_ORPHAN_CLOSED,  /* the same with none, which the server was told */
};

struct stream {
	uint32_t state;     /* atomic: enum stream_state */
	uint32_t is_issued; /* atomic: something was posted since the last seqno */
	uint32_t device;    /* atomic, as the next two: read in passing by who waits */
	uint32_t is_blocking;
	struct context *context; /* of its maker; the last one's after its end */
	struct context *green;   /* whose SMs it has; NULL: its context's */
	struct stream *null;     /* atomic: that it takes turns with, or itself; NULL: none */
	int priority;
	uint64_t unique;               /* cuStreamGetId(): never given twice */
	struct capture_point *capture; /* atomic: what it has captured; NULL: it does not capture */
	pthread_mutex_t lock;          /* of posted_seqno, and of posting a seqno */
	uint64_t posted_seqno;         /* atomic */
	uint64_t left;                 /* atomic: sync_leave(); the seqno that covers it */
};

extern struct stream streams[STREAMS_MAX];

static inline uint32_t stream_id(const struct stream *stream)
{
	return (uint32_t)(stream - streams);
}

/* A NULL stream: a device's, or of a context that has one of its own. */
static inline bool stream_is_null(const struct stream *stream)
{
	return __atomic_load_n(&stream->null, __ATOMIC_RELAXED) == stream;
}

/* After something was posted on it. */
static inline void stream_issued(struct stream *stream)
{
	__atomic_store_n(&stream->is_issued, 1, __ATOMIC_RELEASE);
}

/* Makes the NULL stream of a device usable. Called under the lock of device_open(). */
void stream_open_null(struct context *context, unsigned device);

/* Makes the NULL stream of a context that has a share of its own; it ends with the context. */
CUresult stream_open_own_null(struct context *context);

/*
 * The stream behind a handle: 0 and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
 * (made at a thread's first use), or one of cuStreamCreate().
 */
CUresult stream_resolve(struct context *context, CUstream handle, struct stream **ret_stream);

/* The same in the current context, which is opened at need. */
CUresult stream_enter(CUstream handle, struct stream **ret_stream);

/* A stream of our own, or of the program's, and its end; what was posted on it still runs. */
CUresult stream_new(
	struct context *context, bool is_blocking, int priority, struct stream **ret_stream);
CUresult stream_end(struct stream *stream);

/* The same with the SMs of a green context. */
CUresult stream_new_green(struct context *green, int priority, struct stream **ret_stream);

/* Those of the program in a green context that goes: nothing can be done with them any more. */
void streams_orphan(const struct context *green);

/*
 * Calls `visit' with the streams of a context, its device's NULL stream and those
 * of its green contexts among them, until an error; `busy_only': those that may have work, also
 * after their end. No stream comes or goes meanwhile.
 */
CUresult streams_each(const struct context *context, bool busy_only,
	CUresult (*visit)(struct stream *stream, void *arg), void *arg);

/* From the next on, the streams that are made in the context wait for the event, which it takes. */
void streams_new_wait(struct context *context, struct event *event);

/* Waits for what was posted on the stream, and before it by the NULL stream's rules. */
CUresult stream_wait(struct stream *stream);

/* The same, and for what the next work on the stream would wait for by those rules. */
CUresult stream_wait_turn(struct stream *stream);

/* Whether all that is done: CUDA_ERROR_NOT_READY if not. */
CUresult stream_query(struct stream *stream);

/* Whether it is a stream in use, which a table that is looked through may hold no more. */
bool stream_is_used(const struct stream *stream);

/* Streams that were ever in use have lower numbers. */
unsigned streams_ever(void);

/* Waits for all that this process has posted on a device. */
CUresult streams_wait_device(unsigned device);

/* Atomic: some pool of memory has more than it is to hold, and wants hooks.reclaim_pools(). */
extern uint32_t pools_pending;

/* The host has waited for something. */
static inline void stream_waited(void)
{
	if (unlikely(__atomic_load_n(&pools_pending, __ATOMIC_ACQUIRE)))
		hooks.reclaim_pools();
	printf_output_synced();
}

/* Ends the streams of a context that goes. */
void streams_end_context(struct context *context);

#endif
