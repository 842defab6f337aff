/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * Streams of the client. A stream's slot in the table is its ID in messages and its
 * index in the timeline; the first DEVICES_MAX slots are the NULL streams of the
 * server's devices. Slots are never freed memory, so any handle can be tested.
 */

#include <stdatomic.h>

#include "layout.h"
#include "lock.h"
#include "printf_output.h"
#include "client/util/api.h"
#include "client/context/context.h"
#include "client/context/hooks.h"

struct capture_point;
struct event;

enum stream_state {
	STREAM_FREE,
	STREAM_USED,
	STREAM_CHANGING,       /* one thread is closing or freeing it */
	STREAM_CLOSING,        /* destroyed by the program, with work left */
	STREAM_ORPHAN_CLOSING, /* its green context was destroyed; it may have work left */
	STREAM_ORPHAN_CLOSED,  /* the same without work; the server has been told */
};

struct stream {
	_Atomic uint32_t state;     /* enum stream_state */
	_Atomic uint32_t is_issued; /* work was posted since the last seqno */
	_Atomic uint32_t device;    /* waiting threads read them without a lock */
	_Atomic uint32_t is_blocking;
	struct context *_Atomic context; /* the creating context; after its end, the last one's */
	struct context
		*_Atomic green; /* the green context whose SMs it has; NULL: its context's SMs */
	struct stream
		*_Atomic null; /* the NULL stream with which it is ordered, or itself; or NULL */
	int priority;
	_Atomic uint64_t unique;               /* cuStreamGetId(): unique */
	struct capture_point *_Atomic capture; /* where its capture is; NULL: it does not capture */
	struct lock lock;                      /* protects posted_seqno and posting */
	_Atomic uint64_t posted_seqno;         /* the newest one */
	_Atomic uint64_t sync_seqno;           /* sync_leave(); the seqno that covers it */
	_Atomic uint64_t host_seqno;           /* stream_awaits_host(); the seqno that covers it */
};

extern struct stream streams[STREAMS_MAX];

/* Streams that were ever in use have lower IDs. */
extern atomic_uint streams_n_ever;

static inline unsigned streams_ever(void)
{
	return atomic_load_explicit(&streams_n_ever, memory_order_acquire);
}

/* Whether the slot has a stream in use; a scan of the table may meet slots that have none. */
static inline bool stream_is_used(const struct stream *stream)
{
	return atomic_load_explicit(&stream->state, memory_order_acquire) == STREAM_USED;
}

static inline uint32_t stream_id(const struct stream *stream)
{
	return (uint32_t)(stream - streams);
}

/* Whether it is the NULL stream of a device, or of a context with its own. */
static inline bool stream_is_null(const struct stream *stream)
{
	return atomic_load_explicit(&stream->null, memory_order_relaxed) == stream;
}

/* Called after work was posted on it. */
static inline void stream_issued(struct stream *stream)
{
	atomic_store_explicit(&stream->is_issued, 1, memory_order_release);
}

/* Called after work was posted that may wait for the program: a host function or a semaphore. */
static inline void stream_awaits_host(struct stream *stream)
{
	uint64_t seqno = atomic_load_explicit(&stream->posted_seqno, memory_order_acquire) + 1;

	atomic_store_explicit(&stream->host_seqno, seqno, memory_order_release);
}

/* Makes a device's NULL stream usable. Called under the lock of device_open(). */
void stream_open_null(struct context *context, unsigned device);

/* Creates the NULL stream of a context with its own share; it ends with the context. */
CUresult stream_open_own_null(struct context *context);

/* The slot that a handle means, whatever its state. NULL: no slot for streams of the program. */
static inline struct stream *stream_slot(CUstream handle)
{
	uintptr_t at = (uintptr_t)handle - (uintptr_t)&streams[DEVICES_MAX];

	if (at >= sizeof(streams) - DEVICES_MAX * sizeof(*streams) || at % sizeof(*streams) != 0)
		return NULL;
	return (struct stream *)handle;
}

/* The context of a stream of the program, also after its end. NULL: the handle is none of those. */
static inline __attribute__((always_inline)) struct context *stream_context(CUstream handle)
{
	struct stream *stream = stream_slot(handle);
	struct context *context;

	if (!stream)
		return NULL;
	context = atomic_load_explicit(&stream->context, memory_order_relaxed);
	if (likely(atomic_load_explicit(&stream->state, memory_order_acquire) == STREAM_USED) ||
		(context && !context_is_active(context)))
		return context;
	return NULL;
}

/* The NULL stream belongs to whichever context is current. */
static inline CUcontext stream_context_now(const struct stream *stream)
{
	return (CUcontext)(stream_id(stream) < DEVICES_MAX ? context_current : stream->context);
}

static inline struct context *launch_config_context(const CUlaunchConfig *config)
{
	return config ? stream_context(config->hStream) : NULL;
}

/*
 * The stream of a handle: 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD (created at a
 * thread's first use), or a stream of cuStreamCreate().
 */
CUresult stream_resolve(struct context *context, CUstream handle, struct stream **ret_stream);

/* The same in the current context, which is opened if necessary. */
CUresult stream_enter(CUstream handle, struct stream **ret_stream);

/*
 * Creates and ends an internal stream or a stream of the program. Posted work
 * continues after the end.
 */
CUresult stream_new(
	struct context *context, bool is_blocking, int priority, struct stream **ret_stream);
CUresult stream_end(struct stream *stream);

/*
 * Tells the server of ended streams whose work is done. Does not wait for the lock.
 * Whether there are more ended streams.
 */
bool streams_free_ended(void);

/* Tells the server of streams whose green context has ended and whose work is done. */
void streams_end_orphans(void);

/* The same with the SMs of a green context. */
CUresult stream_new_green(struct context *green, int priority, struct stream **ret_stream);

/* For the program's streams in a green context that ends: they can no longer be used. */
void streams_orphan(const struct context *green);

/*
 * Calls `visit' with the streams of a context, including its device's NULL stream
 * and the streams of its green contexts, until an error. `busy_only': only streams
 * that may have work, also after their end. No stream is created or ended
 * meanwhile.
 */
CUresult streams_each(const struct context *context, bool busy_only,
	CUresult (*visit)(struct stream *stream, void *arg), void *arg);

/*
 * Streams that are created in the context from now on wait for the event. Takes
 * ownership of the event.
 */
void streams_new_wait(struct context *context, struct event *event);

/* Waits for the work on the stream, and for earlier work by the NULL stream's rules. */
CUresult stream_wait(struct stream *stream);

/* The same, and also for what the next work on the stream would wait for by those rules. */
CUresult stream_wait_turn(struct stream *stream);

/* Whether all that work is done; CUDA_ERROR_NOT_READY if not. */
CUresult stream_query(struct stream *stream);

/* Whether a stream has work that may wait for the program (stream_awaits_host()). */
bool streams_await_host(void);

/* Waits for all work that this process has posted on a device. */
CUresult streams_wait_device(unsigned device);

/* The same at most until now_ns() is `deadline_ns': then CUDA_ERROR_NOT_READY. */
CUresult streams_wait_device_until(unsigned device, uint64_t deadline_ns);

/* Makes later work on `second' wait for `first', unless `first' has reached that seqno. */
CUresult stream_follow(struct stream *first, uint64_t seqno, struct stream *second);

/* Atomic: a memory pool has memory to return, so hooks.reclaim_pools() must be called. */
extern _Atomic uint32_t pools_pending;

/* Called after the host has waited for work. */
static inline void stream_waited(void)
{
	if (unlikely(atomic_load_explicit(&pools_pending, memory_order_acquire)))
		hooks.reclaim_pools();
	printf_output_synced();
}

/* Ends the streams of a context that ends. */
void streams_end_context(struct context *context);

/* stream_calls.c: what proto/cuda.spec names as the answers of calls. */
CUresult context_synchronize(const struct context *context);
CUresult stream_call_host(
	CUstream handle, CUhostFn function, CUstreamCallback callback, void *data);

#endif
