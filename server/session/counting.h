/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTING_H
#define COUNTING_H

/*
 * A session's counters. Its worker counts; the loop reads at any time and samples whether
 * the session is at work. Neither calls the driver for this.
 */

#include "counters.h"
#include "session.h"

/* How often the loop samples sessions with work. */
#define SAMPLE_MS 10

/* The mark of a stream with work after its last seqno. */
#define MARK_WORK UINT64_MAX

/* Only one thread writes a counter, so it needs no atomic addition. */
static inline void counter_add(struct session *session, enum counter counter, uint64_t n)
{
	_Atomic uint64_t *at = &session->counters[counter];

	atomic_store_explicit(
		at, atomic_load_explicit(at, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline uint64_t counter_read(const struct session *session, enum counter counter)
{
	return atomic_load_explicit(&session->counters[counter], memory_order_relaxed);
}

/* A copy of `size' bytes between host memory and a GPU, or within one of them. */
static inline void counter_add_copy(
	struct session *session, bool to_host, bool from_host, uint64_t size)
{
	enum counter copies = to_host == from_host ? COUNTER_COPIES_WITHIN
			      : to_host            ? COUNTER_COPIES_OUT
						   : COUNTER_COPIES_IN;

	counter_add(session, copies, 1);
	counter_add(session, copies + 1, size);
}

/* The worker: the seqno behind the stream's work, MARK_WORK, or 0 if the stream is at rest. */
static inline void counter_mark(struct session *session, uint32_t stream, uint64_t mark)
{
	atomic_store_explicit(&session->marks[stream], mark, memory_order_relaxed);
}

/* A stream of that ID exists from now on. */
static inline void counter_note_stream(struct session *session, uint32_t stream)
{
	if (stream >= session->n_marks)
		session->n_marks = stream + 1;
}

/* The loop does not sample, because no session had work for some time. */
extern atomic_bool sampler_rests;

/* The worker: a stream gets work. */
static inline void sampler_wake(struct session *session)
{
	if (unlikely(atomic_load_explicit(&sampler_rests, memory_order_relaxed)) &&
		atomic_exchange(&sampler_rests, false))
		session->on_news(session->on_news_arg);
}

/*
 * Any thread, while the session lives: whether it may have work on a GPU now. Work that no seqno
 * follows counts until the worker finds its stream at rest.
 */
bool session_is_at_work(const struct session *session);

/* The loop: adds that time to the busy time if a stream of the session has work now. */
void counters_sample(struct session *session, uint64_t ns);

#endif
