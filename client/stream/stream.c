/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of streams: creating, finding, waiting, ending. Any thread of the
 * application.
 *
 * Invariant: the server is told of a stream's end when the stream's last seqno has
 * been reached. Until then the stream can be waited for like any other, and its
 * slot is not reused: a late seqno of the earlier owner would set the new stream's
 * timeline back. If a stream's green context ends first, the stream keeps its slot,
 * because its handle must still be recognised.
 */

#include "client/util/compat.h"
#include "client.h"
#include "bounds.h"
#include "recorder.h"
#include "context_share.h"
#include "event.h"
#include "green.h"
#include "client/transport/server_link.h"
#include "client/transport/route.h"
#include "send.h"
#include "stream.h"
#include "printf_output.h"
#include "timeline.h"
#include "wire.h"

struct stream streams[STREAMS_MAX];

/* One per device, then one per context with its own SMs. */
#define THREAD_STREAMS_MAX (DEVICES_MAX + WIRE_CONTEXT_SHARES_MAX)

/* A thread's own default streams; the thread-specific value is the address of this struct. */
struct thread_streams {
	struct {
		struct stream *stream;
		uint64_t unique; /* after a device reset another stream may have this slot */
	} of[THREAD_STREAMS_MAX];
};

uint32_t pools_pending;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_slots = DEVICES_MAX;   /* atomic: only lower slots were ever used */
static unsigned next_slot = DEVICES_MAX; /* where the search for a free slot starts */
static unsigned n_orphans;               /* atomic: changed under the lock */
static uint64_t last_unique;
static _Thread_local struct thread_streams *thread_streams;
static pthread_key_t thread_key;
static bool has_thread_key;

/* The NULL stream with which the context's blocking streams are ordered. */
static struct stream *null_of(const struct context *context)
{
	struct stream *own = __atomic_load_n(&context->null, __ATOMIC_ACQUIRE);

	return own ? own : &streams[context->device->index];
}

static void stream_setup(
	struct stream *stream, struct context *context, bool is_blocking, int priority)
{
	__atomic_store_n(&stream->context, context, __ATOMIC_RELAXED);
	__atomic_store_n(&stream->green, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&stream->device, context->device->index, __ATOMIC_RELAXED);
	__atomic_store_n(&stream->is_blocking, is_blocking, __ATOMIC_RELAXED);
	__atomic_store_n(&stream->null, is_blocking ? null_of(context) : NULL, __ATOMIC_RELAXED);
	stream->priority = priority;
	__atomic_store_n(&stream->unique, __atomic_add_fetch(&last_unique, 1, __ATOMIC_RELAXED),
		__ATOMIC_RELAXED);
	__atomic_store_n(&stream->state, STREAM_USED, __ATOMIC_RELEASE);
}

void stream_open_null(struct context *context, unsigned device)
{
	pthread_mutex_init(&streams[device].lock, NULL);
	stream_setup(&streams[device], context, true, 0);
}

/*
 * Frees the slot of a stream that the program has destroyed, if its work is done,
 * and tells the server. Returns whether it did.
 */
static bool stream_free_closed(struct stream *stream)
{
	uint32_t closing = STREAM_CLOSING;

	if (!timeline_reached(stream, __atomic_load_n(&stream->posted_seqno, __ATOMIC_ACQUIRE)) ||
		!__atomic_compare_exchange_n(&stream->state, &closing, STREAM_CHANGING, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	(void)send_stream_destroy(stream_id(stream));
	__atomic_store_n(&stream->state, STREAM_FREE, __ATOMIC_RELEASE);
	return true;
}

/* Under the lock. Tells the server of orphans whose work is done. */
static void orphans_close_idle(void)
{
	for (unsigned i = DEVICES_MAX; i < n_slots && n_orphans > 0; i++) {
		struct stream *stream = &streams[i];

		if (__atomic_load_n(&stream->state, __ATOMIC_ACQUIRE) != STREAM_ORPHAN_CLOSING ||
			!timeline_reached(stream, stream->posted_seqno))
			continue;
		__atomic_store_n(&stream->state, STREAM_ORPHAN_CLOSED, __ATOMIC_RELEASE);
		__atomic_sub_fetch(&n_orphans, 1, __ATOMIC_RELAXED);
		(void)send_stream_destroy(stream_id(stream));
	}
}

static void orphans_check(void)
{
	if (likely(__atomic_load_n(&n_orphans, __ATOMIC_RELAXED) == 0))
		return;
	pthread_mutex_lock(&table_lock);
	orphans_close_idle();
	pthread_mutex_unlock(&table_lock);
}

static bool stream_slot_is_free(struct stream *stream)
{
	uint32_t state = __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE);

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
		if (stream_id(stream) >= n_slots) {
			pthread_mutex_init(&stream->lock, NULL);
			__atomic_store_n(&n_slots, stream_id(stream) + 1, __ATOMIC_RELEASE);
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
	pthread_mutex_lock(&table_lock);
	if (context->awaited)
		(void)event_end(context->awaited);
	context->awaited = event;
	pthread_mutex_unlock(&table_lock);
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
	pthread_mutex_lock(&table_lock);
	stream = stream_slot_take();
	result = stream ? send_create(stream, context, green, is_blocking, priority)
			: CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		stream_setup(stream, context, is_blocking, priority);
		__atomic_store_n(&stream->green, green, __ATOMIC_RELAXED);
		result = wait_for_context(context, stream);
		if (green && result == CUDA_SUCCESS)
			result = wait_for_context(green, stream);
	}
	pthread_mutex_unlock(&table_lock);
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

	pthread_mutex_lock(&table_lock);
	stream = stream_slot_take();
	if (stream)
		result = send_context_share_stream(
			stream_id(stream), context_share_id(context), CU_STREAM_DEFAULT, true, 0);
	if (result == CUDA_SUCCESS) {
		stream_setup(stream, context, true, 0);
		__atomic_store_n(&stream->null, stream, __ATOMIC_RELAXED);
		__atomic_store_n(&context->null, stream, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&table_lock);
	return result;
}

/* The stream's work continues; its last seqno says when the work is done. */
CUresult stream_end(struct stream *stream)
{
	uint32_t used = STREAM_USED;
	uint64_t seqno;
	CUresult result;

	if (!__atomic_compare_exchange_n(&stream->state, &used, STREAM_CHANGING, false,
		    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_INVALID_HANDLE;
	recorder.abandon(stream);
	result = timeline_post(stream, &seqno);
	__atomic_store_n(&stream->state, STREAM_CLOSING, __ATOMIC_RELEASE);
	pthread_mutex_lock(&table_lock);
	stream_free_closed(stream);
	next_slot = MIN(next_slot, stream_id(stream)); /* low slots keep the table short */
	pthread_mutex_unlock(&table_lock);
	return result;
}

/* One of the thread's own streams. NULL: it has none, or no longer. */
static struct stream *thread_stream(const struct thread_streams *own, unsigned i)
{
	struct stream *stream = own->of[i].stream;

	if (!stream || __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE) != STREAM_USED ||
		__atomic_load_n(&stream->unique, __ATOMIC_RELAXED) != own->of[i].unique)
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
	pthread_mutex_lock(&table_lock);
	if (!has_thread_key && pthread_key_create)
		has_thread_key = pthread_key_create(&thread_key, thread_end) == 0;
	pthread_mutex_unlock(&table_lock);
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
	if (!__atomic_load_n(&context_green->is_active, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_stream = context_green->green->null;
	return CUDA_SUCCESS;
}

CUresult stream_resolve(struct context *context, CUstream handle, struct stream **ret_stream)
{
	uintptr_t at = (uintptr_t)handle - (uintptr_t)streams;
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
	if (at >= sizeof(streams) || at % sizeof(*stream) != 0)
		return CUDA_ERROR_INVALID_HANDLE;
	stream = &streams[at / sizeof(*stream)];
	state = __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE);
	if (stream_id(stream) < DEVICES_MAX || state != STREAM_USED)
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

static bool is_busy(struct stream *stream)
{
	return __atomic_load_n(&stream->is_issued, __ATOMIC_ACQUIRE) ||
	       !timeline_reached(stream, __atomic_load_n(&stream->posted_seqno, __ATOMIC_ACQUIRE));
}

static CUresult wait_one(struct stream *stream)
{
	uint64_t seqno;
	CUresult result = timeline_post(stream, &seqno);

	return result == CUDA_SUCCESS ? timeline_wait(stream, seqno) : result;
}

/* `null' and the streams ordered with it; NULL: all streams of the device. */
static bool is_meant(const struct stream *stream, unsigned device, const struct stream *null)
{
	uint32_t state = __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE);

	if (stream_id(stream) < DEVICES_MAX)
		return null ? stream == null : stream_id(stream) == device;
	/* If the slot changes owner meanwhile, the wait is at worst unnecessary. */
	if (state == STREAM_FREE || state == STREAM_ORPHAN_CLOSED)
		return false;
	return null ? __atomic_load_n(&stream->null, __ATOMIC_RELAXED) == null
		    : __atomic_load_n(&stream->device, __ATOMIC_RELAXED) == device;
}

/*
 * The streams of programs follow the devices' NULL streams; NULL streams of other
 * devices are skipped.
 */
static unsigned next_of(unsigned i)
{
	return i < DEVICES_MAX ? DEVICES_MAX : i + 1;
}

/* Posts all seqnos first, so that the GPU works on all streams at once. */
static CUresult wait_many(unsigned device, const struct stream *null)
{
	unsigned n = __atomic_load_n(&n_slots, __ATOMIC_ACQUIRE);
	CUresult result = CUDA_SUCCESS;
	uint64_t seqno;

	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && is_busy(&streams[i]))
			result = timeline_post(&streams[i], &seqno);
	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && is_busy(&streams[i]))
			result = wait_one(&streams[i]);
	if (result == CUDA_SUCCESS)
		result = server_link_check(&server);
	orphans_check();
	stream_waited();
	return result;
}

/* The NULL stream also waits for the work of all blocking streams. */
CUresult stream_wait(struct stream *stream)
{
	CUresult result;

	if (stream_is_null(stream))
		return wait_many(stream->device, stream);
	result = wait_one(stream);
	stream_waited();
	return result;
}

CUresult stream_wait_turn(struct stream *stream)
{
	struct stream *null = stream->null;
	CUresult result = stream_wait(stream);

	if (result != CUDA_SUCCESS || !null || stream == null || !is_busy(null))
		return result;
	return wait_one(null);
}

/*
 * A seqno that is posted now arrives a moment later even if the work is done. So
 * the first query waits for that moment.
 */
static CUresult query_one(struct stream *stream)
{
	bool is_new = __atomic_load_n(&stream->is_issued, __ATOMIC_ACQUIRE);
	uint64_t seqno;
	CUresult result = timeline_post(stream, &seqno);

	if (result != CUDA_SUCCESS)
		return result;
	if (is_new ? timeline_reached_soon(stream, seqno) : timeline_reached(stream, seqno))
		return CUDA_SUCCESS;
	return CUDA_ERROR_NOT_READY;
}

static CUresult query_many(unsigned device, const struct stream *null)
{
	unsigned n = __atomic_load_n(&n_slots, __ATOMIC_ACQUIRE);
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && is_busy(&streams[i]))
			result = query_one(&streams[i]);
	return result;
}

CUresult stream_query(struct stream *stream)
{
	return stream_is_null(stream) ? query_many(stream->device, stream) : query_one(stream);
}

bool stream_is_used(const struct stream *stream)
{
	return __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE) == STREAM_USED;
}

unsigned streams_ever(void)
{
	return __atomic_load_n(&n_slots, __ATOMIC_ACQUIRE);
}

static bool is_of_context(struct stream *stream, const struct context *context, bool busy_only)
{
	uint32_t state = __atomic_load_n(&stream->state, __ATOMIC_ACQUIRE);

	if (busy_only && !is_busy(stream))
		return false;
	if (stream_id(stream) < DEVICES_MAX)
		return stream_id(stream) == context->device->index && !context->home &&
		       !__atomic_load_n(&context->null, __ATOMIC_ACQUIRE);
	if (state != STREAM_USED &&
		!(busy_only && (state == STREAM_CLOSING || state == STREAM_ORPHAN_CLOSING)))
		return false;
	return context->home ? __atomic_load_n(&stream->green, __ATOMIC_RELAXED) == context
			     : __atomic_load_n(&stream->context, __ATOMIC_RELAXED) == context;
}

void streams_orphan(const struct context *green)
{
	pthread_mutex_lock(&table_lock);
	for (unsigned i = DEVICES_MAX; i < n_slots; i++) {
		uint32_t used = STREAM_USED;
		uint64_t seqno;

		if (__atomic_load_n(&streams[i].green, __ATOMIC_RELAXED) != green ||
			!__atomic_compare_exchange_n(&streams[i].state, &used,
				STREAM_ORPHAN_CLOSING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		__atomic_add_fetch(&n_orphans, 1, __ATOMIC_RELAXED);
		(void)timeline_post(&streams[i], &seqno);
	}
	orphans_close_idle();
	pthread_mutex_unlock(&table_lock);
}

CUresult streams_each(const struct context *context, bool busy_only,
	CUresult (*visit)(struct stream *stream, void *arg), void *arg)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < n_slots && result == CUDA_SUCCESS; i++)
		if (is_of_context(&streams[i], context, busy_only))
			result = visit(&streams[i], arg);
	pthread_mutex_unlock(&table_lock);
	return result;
}

CUresult streams_wait_device(unsigned device)
{
	return wait_many(device, NULL);
}

void streams_end_context(struct context *context)
{
	unsigned n = __atomic_load_n(&n_slots, __ATOMIC_ACQUIRE);

	for (unsigned i = DEVICES_MAX; i < n; i++)
		if (__atomic_load_n(&streams[i].context, __ATOMIC_RELAXED) == context &&
			__atomic_load_n(&streams[i].state, __ATOMIC_ACQUIRE) == STREAM_USED)
			(void)stream_end(&streams[i]);
}
