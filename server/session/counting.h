/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTING_H
#define COUNTING_H

/* A session's counters. Its worker counts; the loop reads at any time. */

#include "counters.h"
#include "session.h"

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

#endif
