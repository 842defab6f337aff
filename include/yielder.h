/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YIELDER_H
#define YIELDER_H

/*
 * Yields of a thread that spins, for machines on which more threads spin than there are
 * processors. One thread.
 *
 * A thread that does not yield itself keeps the processor for a time slice of some milliseconds. A
 * sleeping thread would be woken earlier. So after a yield that took long, the thread does not
 * yield for a while, and for twice as long after the next one.
 */

#include <sched.h>
#include <stdbool.h>

#include "base.h"
#include "clock.h"

#define YIELD_LONG_NS 1000000u
#define YIELD_PAUSE_MIN_NS 4000000u
#define YIELD_PAUSE_MAX_NS 256000000u
/* Each short yield makes the next pause shorter by this part. */
#define YIELD_PAUSE_PART 64

/* With more threads than that for each processor, yields take long (measured with six). */
#define YIELD_THREADS_MAX 4

struct yielder {
	uint64_t not_before_ns;
	uint64_t pause_ns; /* the last pause */
};

/* Whether the thread should yield while it spins, as one of so many threads. */
static inline bool yielder_may(
	const struct yielder *yielder, unsigned n_threads, unsigned n_processors)
{
	return n_threads > n_processors && n_threads <= YIELD_THREADS_MAX * n_processors &&
	       now_ns() >= yielder->not_before_ns;
}

/* A yield began and ended at these times. */
static inline void yielder_note(struct yielder *yielder, uint64_t start_ns, uint64_t end_ns)
{
	if (likely(end_ns - start_ns < YIELD_LONG_NS)) {
		yielder->pause_ns -= yielder->pause_ns / YIELD_PAUSE_PART;
		return;
	}
	yielder->pause_ns = MIN(MAX(2 * yielder->pause_ns, YIELD_PAUSE_MIN_NS), YIELD_PAUSE_MAX_NS);
	yielder->not_before_ns = end_ns + yielder->pause_ns;
}

static inline void yielder_yield(struct yielder *yielder)
{
	uint64_t start_ns = now_ns();

	if (start_ns < yielder->not_before_ns)
		return;
	sched_yield();
	yielder_note(yielder, start_ns, now_ns());
}

#endif
