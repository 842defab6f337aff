/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch batches: cached chain graphs, one of each length for a stream on the SMs that it has. A
 * worker.
 *
 * A stream has its own graphs, because launches of one graph wait for each other even in
 * different streams. A stream of a background session has graphs for each share in which it had
 * batches, because the nodes of a graph keep to the SMs for which they were made.
 */

#include "launch_batch.h"

#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "disable.h"
#include "server/session/at_work.h"
#include "server/session/counting.h"
#include "server/session/fault.h"
#include "server/session/reply.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/foreground.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/observed.h"
#include "server/stream/progress.h"
#include "server/module/kernel.h"
#include "do_launch.h"

/*
 * Shorter chains take the rest. These lengths make 2.7 calls of 1 to 63 launches on average, powers
 * of two 3.1.
 */
static const unsigned chain_lengths[] = {2, 3, 6, 11, 20, LAUNCH_BATCH_MAX};

#define LENGTHS ARRAY_SIZE(chain_lengths)

/* As many launches in a row must have been waited for. */
#define WAITED_MIN 4

#define AWAITED_CLIENTS_MAX 2

/* Of a session: each takes memory of the driver. */
#define CHAIN_CACHES_MAX 64

struct chain_cache {
	struct chain_cache *next; /* in the list of the session */
	struct chain_cache *more; /* of the same stream, on other SMs */
	struct stream *stream;
	CUcontext context; /* elastic_stream_context() */
	struct session *session;
	struct chain chains[LENGTHS];
	struct chain awaited; /* one kernel and its seqno */
};

/* ---- a stream's */

static struct chain_cache *chain_cache_get(struct session *session, struct stream *stream)
{
	CUcontext context = elastic_stream_context(stream);
	struct chain_cache *store = stream->chains;

	while (store && unlikely(store->context != context))
		store = store->more;
	if (likely(store != NULL) || session->n_chain_caches >= CHAIN_CACHES_MAX)
		return store;
	store = account_alloc(session->account, sizeof(*store), 0);
	if (!store)
		return NULL;
	store->session = session;
	store->stream = stream;
	store->context = context;
	LIST_PUSH(session->chain_caches, store);
	session->n_chain_caches++;
	store->more = stream->chains;
	stream->chains = store;
	return store;
}

static void chain_cache_free(struct chain_cache *store, bool device_lost)
{
	const struct session_device *sdev = store->stream->sdev;

	LIST_DROP(store->session->chain_caches, store);
	store->session->n_chain_caches--;
	store->stream->chains = store->more;
	for (unsigned i = 0; i < LENGTHS; i++)
		chain_fini(&store->chains[i], sdev, device_lost);
	chain_fini(&store->awaited, sdev, device_lost);
	account_free(store);
}

/* Ends the stream's graphs. */
static void chain_caches_end(struct stream *stream, bool device_lost)
{
	while (stream->chains)
		chain_cache_free(stream->chains, device_lost);
}

/* Ends the graphs of all streams, before kernels in them are unloaded. */
static void chain_caches_free(struct session *session)
{
	while (session->chain_caches)
		chain_caches_end(session->chain_caches->stream, fault_get() != CUDA_SUCCESS);
}

/* Whether a chain is left that keeps the stack. */
static bool chain_cache_trim(struct chain_cache *store, bool all)
{
	const struct session_device *sdev = store->stream->sdev;
	const bool may_end = all || cu_limit_is_stack_kept(sdev->device);
	bool is_left = false;

	for (unsigned i = 0; i <= LENGTHS; i++) {
		struct chain *chain = i < LENGTHS ? &store->chains[i] : &store->awaited;

		if (!chain->keeps_stack)
			continue;
		if (may_end)
			chain_fini(chain, sdev, false);
		else
			is_left = true;
	}
	return is_left;
}

/*
 * Ends chains that keep the stack of a GPU large: all of them, or those of GPUs where no session
 * asks for that stack.
 */
static void launch_batch_trim(struct session *session, bool all)
{
	bool is_left = false;

	if (likely(!session->batch->keeps_stack))
		return;
	for (struct chain_cache *store = session->chain_caches; store; store = store->next)
		is_left = chain_cache_trim(store, all) || is_left;
	session->batch->keeps_stack = is_left;
}

/* ---- leaving */

/* A part of a batch, as observed. */
static struct trace_work describe(const struct queued_launch *launches, unsigned n)
{
	struct trace_work work = {
		.kind = TRACE_LAUNCH,
		.count = n,
		.name = launches[0].kernel->name,
	};

	for (unsigned i = 0; i < n; i++) {
		work.is_mixed = work.is_mixed || launches[i].kernel != launches[0].kernel;
		work.shape = foreground_hash(
			work.shape, (uintptr_t)launches[i].kernel, launches[i].grid);
	}
	return work;
}

static void flush_one_by_one(struct session *session, const struct launch_batch *batch,
	const struct queued_launch *launches, unsigned n)
{
	struct stream *stream = batch->stream;

	for (unsigned i = 0; i < n; i++) {
		CUresult result = reply_pending_error(session);

		if (result == CUDA_SUCCESS) {
			result = launch_in(session, stream, &launches[i]);
			result = fault_note_failure(session, result);
		}
		if (likely(result == CUDA_SUCCESS))
			continue;
		if (result_is_fault(result) && fault_spares(session)) {
			fault_put_back(session, launches[i].params);
			return;
		}
		reply_late(session, result);
	}
}

/* The longest chain that `n' launches fill, two or more. */
static unsigned length_index(unsigned n)
{
	unsigned index = LENGTHS - 1;

	while (chain_lengths[index] > n)
		index--;
	return index;
}

/* Launches more than one, up to `n'. */
static void flush_together(
	struct session *session, struct launch_batch *batch, unsigned done, unsigned n)
{
	struct chain_cache *store = NULL;

	/* Making a graph, and sometimes changing one, waits for a blocked stream. */
	if (likely(!blocked_any()))
		store = chain_cache_get(session, batch->stream);
	while (store && n - done > 1) {
		unsigned index = length_index(n - done), length = chain_lengths[index];
		const struct queued_launch *launches = &batch->launches[done];
		struct chain *chain = &store->chains[index];
		CUresult result = chain_run(session, chain, batch->stream, launches, length, NULL);

		batch->keeps_stack |= chain->keeps_stack;

		/* The failing launch then reports its own error; the launches before it run. */
		if (result == CUDA_SUCCESS) {
			counter_add(session, COUNTER_BATCHES, 1);
		} else {
			flush_one_by_one(session, batch, launches, length);
			/* A launch that does not fit into a share has moved the stream. */
			store = chain_cache_get(session, batch->stream);
		}
		done += length;
	}
	flush_one_by_one(session, batch, &batch->launches[done], n - done);
}

static CUresult flush(struct session *session, struct launch_batch *batch, unsigned n)
{
	unsigned done = 0;

	while (done < n) {
		unsigned n_now = elastic_stream_wait(session, batch->stream, n - done);

		if (n_now > 1)
			flush_together(session, batch, done, done + n_now);
		else
			flush_one_by_one(session, batch, &batch->launches[done], n_now);
		done += n_now;
		elastic_stream_note(session, batch->stream, n_now);
	}
	return CUDA_SUCCESS;
}

static __attribute__((noinline)) void send_all(struct session *session, struct launch_batch *batch)
{
	unsigned n = batch->n;

	batch->n = 0;
	if (unlikely(closed_any()))
		closed_wait(session, batch->stream->device);
	if (unlikely(batch->is_held)) {
		/* Something other than its seqno has come, or nothing. */
		batch->stream->n_waited = 0;
		batch->is_held = false;
	}
	counter_add(session, COUNTER_LAUNCHES, n);
	OBSERVED(session, batch->stream, flush(session, batch, n), describe(batch->launches, n));
}

_hot_ void launch_batch_flush(struct session *session)
{
	if (session->batch->n > 0)
		send_all(session, session->batch);
}

void launch_batch_add(
	struct session *session, struct stream *stream, const struct queued_launch *queued)
{
	struct launch_batch *batch = session->batch;

	batch->stream = stream;
	batch->launches[batch->n++] = *queued;
	if (batch->n == LAUNCH_BATCH_MAX)
		launch_batch_flush(session);
}

/* ---- a launch and its seqno */

/*
 * One graph instead of two calls takes 0.8 of the time for one client, and 0.9 for two. With more,
 * two calls are faster (measured): the workers wait for the lock of the context, and a graph
 * keeps it longer.
 */
static bool is_awaited(const struct session *session, const struct stream *stream)
{
	return stream->n_waited >= WAITED_MIN && session->batch->may_hold &&
	       at_work_count() <= AWAITED_CLIENTS_MAX && !session->tracer && !blocked_any();
}

bool launch_batch_hold(
	struct session *session, const struct stream *stream, struct queued_launch *queued)
{
	struct launch_batch *batch = session->batch;

	if (likely(!is_awaited(session, stream)) || queued->params_size > sizeof(batch->held))
		return false;
	memcpy(batch->held, queued->params, queued->params_size);
	queued->params = batch->held;
	batch->is_held = true;
	return true;
}

/* False: nothing was launched. */
static bool launch_awaited(struct session *session, struct launch_batch *batch, uint64_t value)
{
	struct stream *stream = batch->stream;
	struct seqno_write seqno = {.value = value};
	struct chain_cache *store;

	if (batch->n != 1)
		return false;
	/* Another stream may become blocked meanwhile. */
	if (unlikely(closed_any()))
		closed_wait(session, stream->device);
	elastic_stream_wait(session, stream, 1);
	if (!is_awaited(session, stream) || reply_pending_error(session) != CUDA_SUCCESS)
		return false;
	seqno.word = session->timeline + stream->id * sizeof(uint64_t);
	store = chain_cache_get(session, stream);
	if (!store || chain_run(session, &store->awaited, stream, batch->launches, 1, &seqno) !=
			      CUDA_SUCCESS)
		return false;
	batch->keeps_stack |= store->awaited.keeps_stack;
	batch->n = 0;
	batch->is_held = false;
	counter_add(session, COUNTER_LAUNCHES, 1);
	at_work_mark(session, stream->id, value);
	stream->seqno = value;
	elastic_stream_note(session, stream, 1);
	if (is_observed(session)) {
		const struct trace_work work = describe(batch->launches, 1);

		observed_end(session, stream, &work, CUDA_SUCCESS);
		foreground_close(session, stream->id, value);
	}
	return true;
}

/* The only message that finds a batch that was not launched. */
CUresult do_seqno_write(struct session *session, uint32_t id, uint64_t value)
{
	struct launch_batch *batch = session->batch;

	if (batch->lone && batch->lone_at + 1 == session->n_messages && batch->lone->id == id) {
		if (batch->lone->n_waited < WAITED_MIN)
			batch->lone->n_waited++;
		if (launch_awaited(session, batch, value))
			return CUDA_SUCCESS;
		batch->is_held = false;
	}
	launch_batch_flush(session);
	if (classes_are_several(session))
		foreground_close(session, id, value);
	return progress_write(session, id, value);
}

static void launch_batch_begin(struct session *session, void *part)
{
	session->batch = part;
	session->batch->may_hold = !disable_has(DISABLE_HOLD);
}

static bool launch_batch_is_settled(const struct session *session)
{
	return !session->batch->keeps_stack;
}

const struct session_part launch_batches_part = {
	.size = sizeof(struct launch_batch),
	.begin = launch_batch_begin,
	.is_settled = launch_batch_is_settled,
	.trim = launch_batch_trim,
	.stream_end = chain_caches_end,
	.code_end = chain_caches_free,
};
