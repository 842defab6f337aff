/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Samples of the time that sessions have work on a GPU. The loop.
 */

#include "counting.h"

/* A client with more streams than this is rare, and hardly idle. */
#define MARKS_LOOKED_AT 256u

atomic_bool sampler_rests;

static bool stream_is_at_work(const struct session *session, uint32_t id)
{
	uint64_t mark = atomic_load_explicit(&session->marks[id], memory_order_relaxed);

	return mark == MARK_WORK || mark > shm_load64(&session->page->timeline[id]);
}

void counters_sample(struct session *session, uint64_t ns)
{
	uint32_t n = atomic_load_explicit(&session->n_marks, memory_order_relaxed);

	if (!atomic_load_explicit(&session->has_work, memory_order_relaxed))
		return;
	for (uint32_t id = 0; id < MIN(n, MARKS_LOOKED_AT); id++)
		if (stream_is_at_work(session, id)) {
			counter_add(session, COUNTER_BUSY, ns);
			return;
		}
}
