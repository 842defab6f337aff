/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, finding and ending streams. Any thread of the application.
 *
 * Invariant: the server is told of a stream's end when the stream's last seqno has
 * been reached. Until then the stream can be waited for like any other, and its
 * slot is not reused: a late seqno of the earlier owner would set the new stream's
 * timeline back. If a stream's green context ends first, the stream keeps its slot,
 * because its handle must still be recognised.
 */

#include "stream.h"

#include <stdatomic.h>

#include "bounds.h"
#include "callback.h"
#include "event.h"
#include "green.h"
#include "lock.h"
#include "recorder.h"
#include "timeline.h"
#include "wire.h"
#include "client/util/compat.h"
#include "client/transport/route.h"
#include "client/transport/server_link.h"
#include "client/context/context_share.h"
#include "send_stream.h"

/* One per device, then one per context with its own SMs. */
#define THREAD_STREAMS_MAX (DEVICES_MAX + WIRE_CONTEXT_SHARES_MAX)

/* A thread's own default streams; the thread-specific value is the address of this struct. */
struct thread_streams {
	struct {
		struct stream *stream;
		uint64_t unique; /* after a device reset another stream may have this slot */
	} of[THREAD_STREAMS_MAX];
};

static struct lock table_lock = LOCK_INIT(STREAM_TABLE);
static unsigned next_slot = DEVICES_MAX; /* where the search for a free slot starts */
static atomic_uint n_orphans;            /* changed under the lock */
static _Atomic uint64_t last_unique;
static _Thread_local struct thread_streams *thread_streams;
static pthread_key_t thread_key;
static bool has_thread_key;

/* The NULL stream with which the context's blocking streams are ordered. */
static struct stream *null_of(const struct context *context)
{
	struct stream *own = atomic_load_explicit(&context->null, memory_order_acquire);

	return own ? own : &streams[context->device->index];
}

static void stream_setup(
	struct stream *stream, struct context *context, bool is_blocking, int priority)
{
	atomic_store_explicit(&stream->context, context, memory_order_relaxed);
	atomic_store_explicit(&stream->green, NULL, memory_order_relaxed);
	atomic_store_explicit(&stream->device, context->device->index, memory_order_relaxed);
	atomic_store_explicit(&stream->is_blocking, is_blocking, memory_order_relaxed);
	atomic_store_explicit(
		&stream->null, is_blocking ? null_of(context) : NULL, memory_order_relaxed);
	stream->priority = priority;
	atomic_store_explicit(&stream->unique,
		atomic_fetch_add_explicit(&last_unique, 1, memory_order_relaxed) + 1,
		memory_order_relaxed);
	atomic_store_explicit(&stream->state, STREAM_USED, memory_order_release);
}

void stream_open_null(struct context *context, unsigned device)
{
	lock_init(&streams[device].lock, LOCK_STREAM);
	stream_setup(&streams[device], context, true, 0);
}

/*
 * Frees the slot of a stream that the program has destroyed, if its work is done,
 * and tells the server. Returns whether it did.
 */
static bool stream_free_closed(struct stream *stream)
{
	uint32_t closing = STREAM_CLOSING;

	if (!timeline_reached(
		    stream, atomic_load_explicit(&stream->posted_seqno, memory_order_acquire)) ||
		!atomic_compare_exchange_strong_explicit(&stream->state, &closing, STREAM_CHANGING,
			memory_order_acq_rel, memory_order_acquire))
		return false;
	(void)send_stream_destroy(stream_id(stream));
	atomic_store_explicit(&stream->state, STREAM_FREE, memory_order_release);
	return true;
}

/* Under the lock. Tells the server of orphans whose work is done. */
static void orphans_close_idle(void)
{
	for (unsigned i = DEVICES_MAX; i < streams_n_ever && n_orphans > 0; i++) {
		struct stream *stream = &streams[i];

		if (atomic_load_explicit(&stream->state, memory_order_acquire) !=
				STREAM_ORPHAN_CLOSING ||
			!timeline_reached(stream, stream->posted_seqno))
			continue;
		atomic_store_explicit(&stream->state, STREAM_ORPHAN_CLOSED, memory_order_release);
		atomic_fetch_sub_explicit(&n_orphans, 1, memory_order_relaxed);
		(void)send_stream_destroy(stream_id(stream));
	}
}

void streams_end_orphans(void)
{
	if (likely(atomic_load_explicit(&n_orphans, memory_order_relaxed) == 0))
		return;
	lock_hold(&table_lock);
	orphans_close_idle();
}

bool streams_free_ended(void)
{
	bool is_waiting = false;

	if (!lock_try(&table_lock))
		return true;
	for (unsigned i = DEVICES_MAX; i < streams_n_ever; i++)
		is_waiting |= atomic_load_explicit(&streams[i].state, memory_order_acquire) ==
				      STREAM_CLOSING &&
			      !stream_free_closed(&streams[i]);
	orphans_close_idle();
	is_waiting |= n_orphans > 0;
	lock_release(&table_lock);
	return is_waiting;
}

static bool stream_slot_is_free(struct stream *stream)
{
	uint32_t state = atomic_load_explicit(&stream->state, memory_order_acquire);

	return state == STREAM_FREE || (state == STREAM_CLOSING && stream_free_closed(stream));
}

/* NULL: all slots are in use. */
static struct stream *stream_slot_take(void)
{
	const unsigned n = STREAMS_MAX - DEVICES_MAX, start = next_slot - DEVICES_MAX;

	for (unsigned i = 0; i < n; i++) {
		struct stream *stream = &streams[DEVICES_MAX + (start + i) % n];

		next_slot =
			stream_id(stream) + 1 < STREAMS_MAX ? stream_id(stream) + 1 : DEVICES_MAX;
		if (!stream_slot_is_free(stream))
			continue;
		if (stream_id(stream) >= streams_n_ever) {
			lock_init(&stream->lock, LOCK_STREAM);
			atomic_store_explicit(
				&streams_n_ever, stream_id(stream) + 1, memory_order_release);
		}
		return stream;
	}
	return NULL;
}

/* Under the lock. A new stream waits for what its context waits for. */
static CUresult wait_for_context(struct context *context, struct stream *stream)
{
	CUresult result;

	if (likely(!context->awaited))
		return CUDA_SUCCESS;
	if (event_is_done(context->awaited)) {
		(void)event_end(TAKE_PTR(context->awaited));
		return CUDA_SUCCESS;
	}
	result = send_event_wait(stream_id(stream), event_id(context->awaited));
	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

void streams_new_wait(struct context *context, struct event *event)
{
	lock_hold(&table_lock);
	if (context->awaited)
		(void)event_end(context->awaited);
	context->awaited = event;
}

/* `green' NULL: with all SMs of the context. */
static CUresult send_create(const struct stream *stream, const struct context *context,
	const struct context *green, bool is_blocking, int priority)
{
	unsigned flags = is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
	uint32_t share = context_share_id(context);

	if (green)
		return send_green_stream(stream_id(stream), green_id(green->green), priority);
	if (unlikely(share != WIRE_CONTEXT_SHARES_MAX))
		return send_context_share_stream(stream_id(stream), share, flags, false, priority);
	return send_stream_create(stream_id(stream), context->device->index, flags, priority);
}

static CUresult stream_make(struct context *context, struct context *green, bool is_blocking,
	int priority, struct stream **ret_stream)
{
	const struct device *device = context->device;
	struct stream *stream;
	CUresult result;

	priority = MAX(device->priority_greatest, MIN(priority, device->priority_least));
	lock_take(&table_lock);
	stream = stream_slot_take();
	result = stream ? send_create(stream, context, green, is_blocking, priority)
			: CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		stream_setup(stream, context, is_blocking, priority);
		atomic_store_explicit(&stream->green, green, memory_order_relaxed);
		result = wait_for_context(context, stream);
		if (green && result == CUDA_SUCCESS)
			result = wait_for_context(green, stream);
	}
	lock_release(&table_lock);
	*ret_stream = stream;
	return result;
}

CUresult stream_new(
	struct context *context, bool is_blocking, int priority, struct stream **ret_stream)
{
	return stream_make(context, NULL, is_blocking, priority, ret_stream);
}

CUresult stream_new_green(struct context *green, int priority, struct stream **ret_stream)
{
	return stream_make(green->home, green, false, priority, ret_stream);
}

CUresult stream_open_own_null(struct context *context)
{
	struct stream *stream;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	lock_hold(&table_lock);
	stream = stream_slot_take();
	if (stream)
		result = send_context_share_stream(
			stream_id(stream), context_share_id(context), CU_STREAM_DEFAULT, true, 0);
	if (result == CUDA_SUCCESS) {
		stream_setup(stream, context, true, 0);
		atomic_store_explicit(&stream->null, stream, memory_order_relaxed);
		atomic_store_explicit(&context->null, stream, memory_order_release);
	}
	return result;
}

/* The stream's work continues; its last seqno says when the work is done. */
CUresult stream_end(struct stream *stream)
{
	uint32_t used = STREAM_USED;
	uint64_t seqno;
	CUresult result;

	if (!atomic_compare_exchange_strong_explicit(&stream->state, &used, STREAM_CHANGING,
		    memory_order_acq_rel, memory_order_acquire))
		return CUDA_ERROR_INVALID_HANDLE;
	recorder.abandon(stream);
	result = timeline_post(stream, &seqno);
	atomic_store_explicit(&stream->state, STREAM_CLOSING, memory_order_release);
	lock_hold(&table_lock);
	if (!stream_free_closed(stream))
		callback_expect_ends();
	next_slot = MIN(next_slot, stream_id(stream)); /* low slots keep the table short */
	return result;
}

/* One of the thread's own streams. NULL: it has none, or no longer. */
static struct stream *thread_stream(const struct thread_streams *own, unsigned i)
{
	struct stream *stream = own->of[i].stream;

	if (!stream || !stream_is_used(stream) ||
		atomic_load_explicit(&stream->unique, memory_order_relaxed) != own->of[i].unique)
		return NULL;
	return stream;
}

static void thread_end(void *value)
{
	struct thread_streams *own = value;

	for (unsigned i = 0; i < THREAD_STREAMS_MAX && route_get() == ROUTE_MPS; i++)
		if (thread_stream(own, i))
			(void)stream_end(own->of[i].stream);
	free(own);
}

static CUresult thread_streams_get(struct thread_streams **ret_own)
{
	struct thread_streams *own = thread_streams;

	if (likely(own)) {
		*ret_own = own;
		return CUDA_SUCCESS;
	}
	own = calloc(1, sizeof(*own));
	if (!own)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&table_lock);
	if (!has_thread_key && pthread_key_create)
		has_thread_key = pthread_key_create(&thread_key, thread_end) == 0;
	lock_release(&table_lock);
	if (has_thread_key)
		pthread_setspecific(thread_key, own);
	thread_streams = own;
	*ret_own = own;
	return CUDA_SUCCESS;
}

static CUresult stream_per_thread(struct context *context, struct stream **ret_stream)
{
	uint32_t share = context_share_id(context);
	unsigned i =
		share == WIRE_CONTEXT_SHARES_MAX ? context->device->index : DEVICES_MAX + share;
	struct thread_streams *own = NULL;
	CUresult result = thread_streams_get(&own);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_stream = thread_stream(own, i);
	if (*ret_stream)
		return CUDA_SUCCESS;
	result = stream_new(context, true, 0, ret_stream);
	if (result != CUDA_SUCCESS)
		return result;
	own->of[i].stream = *ret_stream;
	own->of[i].unique = (*ret_stream)->unique;
	return CUDA_SUCCESS;
}

/* The stream that the NULL handle means in a green context. */
static __attribute__((cold, noinline)) CUresult green_null(struct stream **ret_stream)
{
	if (!context_is_active(context_green))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_stream = context_green->green->null;
	return CUDA_SUCCESS;
}

CUresult stream_resolve(struct context *context, CUstream handle, struct stream **ret_stream)
{
	struct stream *stream;
	uint32_t state;

	if (!handle || handle == CU_STREAM_LEGACY) {
		*ret_stream = null_of(context);
		return likely(!context_green) ? CUDA_SUCCESS : green_null(ret_stream);
	}
	/* Green contexts have no per-thread streams. */
	if (handle == CU_STREAM_PER_THREAD)
		return context_green ? CUDA_ERROR_INVALID_HANDLE
				     : stream_per_thread(context, ret_stream);
	stream = stream_slot(handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	state = atomic_load_explicit(&stream->state, memory_order_acquire);
	if (state != STREAM_USED)
		return state == STREAM_ORPHAN_CLOSING || state == STREAM_ORPHAN_CLOSED
			       ? CUDA_ERROR_CONTEXT_IS_DESTROYED
			       : CUDA_ERROR_INVALID_HANDLE;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult stream_enter(CUstream handle, struct stream **ret_stream)
{
	struct context *context;
	CUresult result = context_enter(&context);

	return result == CUDA_SUCCESS ? stream_resolve(context, handle, ret_stream) : result;
}

static bool is_of_context(struct stream *stream, const struct context *context, bool busy_only)
{
	uint32_t state = atomic_load_explicit(&stream->state, memory_order_acquire);

	if (busy_only && !timeline_is_busy(stream))
		return false;
	if (stream_id(stream) < DEVICES_MAX)
		return stream_id(stream) == context->device->index && !context->home &&
		       !atomic_load_explicit(&context->null, memory_order_acquire);
	if (state != STREAM_USED &&
		!(busy_only && (state == STREAM_CLOSING || state == STREAM_ORPHAN_CLOSING)))
		return false;
	return context->home
		       ? atomic_load_explicit(&stream->green, memory_order_relaxed) == context
		       : atomic_load_explicit(&stream->context, memory_order_relaxed) == context;
}

void streams_orphan(const struct context *green)
{
	lock_hold(&table_lock);
	for (unsigned i = DEVICES_MAX; i < streams_n_ever; i++) {
		uint32_t used = STREAM_USED;
		uint64_t seqno;

		if (atomic_load_explicit(&streams[i].green, memory_order_relaxed) != green ||
			!atomic_compare_exchange_strong_explicit(&streams[i].state, &used,
				STREAM_ORPHAN_CLOSING, memory_order_acq_rel, memory_order_acquire))
			continue;
		atomic_fetch_add_explicit(&n_orphans, 1, memory_order_relaxed);
		(void)timeline_post(&streams[i], &seqno);
	}
	orphans_close_idle();
	if (n_orphans > 0)
		callback_expect_ends();
}

CUresult streams_each(const struct context *context, bool busy_only,
	CUresult (*visit)(struct stream *stream, void *arg), void *arg)
{
	CUresult result = CUDA_SUCCESS;

	lock_hold(&table_lock);
	for (unsigned i = 0; i < streams_n_ever && result == CUDA_SUCCESS; i++)
		if (is_of_context(&streams[i], context, busy_only))
			result = visit(&streams[i], arg);
	return result;
}

/* Under the lock, a slot is not freed; and it is not free before all its seqnos are reached. */
CUresult stream_follow(struct stream *first, uint64_t seqno, struct stream *second)
{
	CUresult result = CUDA_SUCCESS;

	lock_hold(&table_lock);
	if (!timeline_reached(first, seqno))
		result = event_between(first, second);
	return result;
}

void streams_end_context(struct context *context)
{
	unsigned n = streams_ever();

	for (unsigned i = DEVICES_MAX; i < n; i++)
		if (atomic_load_explicit(&streams[i].context, memory_order_relaxed) == context &&
			stream_is_used(&streams[i]))
			(void)stream_end(&streams[i]);
}
