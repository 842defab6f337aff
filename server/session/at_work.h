/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AT_WORK_H
#define AT_WORK_H

/*
 * Whether a session has work on a GPU. session::busy is the fact: the worker's list of the streams
 * that may have work. Other threads know of it what the worker publishes:
 *
 * - session::has_work: the list is not empty;
 * - session_is_at_work(): besides, a stream has not reached the seqno behind its work;
 * - at_work_count(): how many sessions had work when their workers looked at the GPU.
 */

#include "session.h"

/* The mark of a stream with work after its last seqno. */
#define MARK_WORK UINT64_MAX

/* The worker: the seqno behind the stream's work, MARK_WORK, or 0 if the stream is at rest. */
static inline void at_work_mark(struct session *session, uint32_t stream, uint64_t mark)
{
	atomic_store_explicit(&session->marks[stream], mark, memory_order_relaxed);
}

/* A stream of that ID exists from now on. */
static inline void at_work_note_stream(struct session *session, uint32_t stream)
{
	if (stream >= session->n_marks)
		session->n_marks = stream + 1;
}

/* Sessions are not sampled, because none had work for some time. */
extern atomic_bool sampler_rests;

/* The worker: session::busy has changed. */
static inline void at_work_publish(struct session *session)
{
	const bool has_work = session->busy != NULL;

	atomic_store_explicit(&session->has_work, has_work, memory_order_relaxed);
	if (has_work && unlikely(atomic_load_explicit(&sampler_rests, memory_order_relaxed)) &&
		atomic_exchange(&sampler_rests, false))
		session->on_news(session->on_news_arg);
}

/*
 * Any thread, while the session lives: whether it may have work on a GPU now. Work that no seqno
 * follows counts until the worker finds its stream at rest. The second looks at one stream, the
 * third at `n' streams.
 */
bool session_is_at_work(const struct session *session);
bool session_stream_is_at_work(const struct session *session, uint32_t id);
bool session_is_at_work_in(const struct session *session, uint32_t n);

/* How many sessions have work on a GPU, as far as their workers have counted them. Any thread. */
unsigned at_work_count(void);

/* The worker: whether its session has work on a GPU. Counts each change. */
void session_set_at_work(struct session *session, bool is_at_work);

/* Counts a session that begins to have work, or one that ends having it: true, false. */
void at_work_change(bool is_at_work);

/* Calls the function whenever no session has work any more. Before the first session. */
void at_work_on_none(void (*function)(void));

#endif
