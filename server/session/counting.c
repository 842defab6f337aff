/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether sessions have work on a GPU, as the loop sees it, and samples of that time. The loop.
 */

#include "counting.h"

/* For a sample. A client with more streams than this is rare, and hardly idle. */
#define MARKS_SAMPLED 256u

atomic_bool sampler_rests;

static bool stream_is_at_work(const struct session *session, uint32_t id)
{
	uint64_t mark = atomic_load_explicit(&session->marks[id], memory_order_relaxed);

	return mark == MARK_WORK || mark > shm_load64(&session->page->timeline[id]);
}

static bool has_stream_at_work(const struct session *session, uint32_t most)
{
	uint32_t n = atomic_load_explicit(&session->n_marks, memory_order_relaxed);

	if (!atomic_load_explicit(&session->has_work, memory_order_relaxed))
		return false;
	for (uint32_t id = 0; id < MIN(n, most); id++)
		if (stream_is_at_work(session, id))
			return true;
	return false;
}

bool session_is_at_work(const struct session *session)
{
	return has_stream_at_work(session, STREAMS_MAX);
}

void counters_sample(struct session *session, uint64_t ns)
{
	if (has_stream_at_work(session, MARKS_SAMPLED))
		counter_add(session, COUNTER_BUSY, ns);
}
