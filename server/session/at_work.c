/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What other threads know of a session's work, and how many sessions have some. Any thread.
 */

#include "at_work.h"

atomic_bool sampler_rests;

static atomic_uint n_at_work;
static void (*on_none)(void);

bool session_stream_is_at_work(const struct session *session, uint32_t id)
{
	uint64_t mark = atomic_load_explicit(&session->marks[id], memory_order_relaxed);

	return mark == MARK_WORK || mark > shm_load64(&session->page->timeline[id]);
}

bool session_is_at_work_in(const struct session *session, uint32_t most)
{
	uint32_t n = atomic_load_explicit(&session->n_marks, memory_order_relaxed);

	if (!atomic_load_explicit(&session->has_work, memory_order_relaxed))
		return false;
	for (uint32_t id = 0; id < MIN(n, most); id++)
		if (session_stream_is_at_work(session, id))
			return true;
	return false;
}

bool session_is_at_work(const struct session *session)
{
	return session_is_at_work_in(session, STREAMS_MAX);
}

unsigned at_work_count(void)
{
	return atomic_load_explicit(&n_at_work, memory_order_relaxed);
}

void at_work_on_none(void (*function)(void))
{
	on_none = function;
}

void at_work_change(bool is_at_work)
{
	if (is_at_work)
		atomic_fetch_add(&n_at_work, 1);
	else if (atomic_fetch_sub(&n_at_work, 1) == 1 && on_none)
		on_none();
}

void session_set_at_work(struct session *session, bool is_at_work)
{
	if (session->is_at_work != is_at_work)
		at_work_change(is_at_work);
	session->is_at_work = is_at_work;
}
