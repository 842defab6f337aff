/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

/*
 * What a worker is doing, for the loop to check. A worker that does not return from a call
 * cannot report that itself, and may hold the driver's lock, for which all others then wait.
 */

#include <stdatomic.h>

/* How often the loop checks. */
#define WATCHDOG_LOOK_MS 5000

/* Instead of a message's number: the worker ends its session. */
#define WATCHDOG_CLEAN_UP 0u

/* Zero-initialised is idle. */
struct watchdog {
	/* The worker's. */
	atomic_uint serial; /* odd: a call is under way */
	atomic_uint op;

	/* The loop's. */
	unsigned seen;   /* the serial at the last check */
	unsigned n_seen; /* checks that found the same serial */
};

/* Worker, around each message. Plain stores suffice, as only the worker writes. */
static inline void watchdog_begin(struct watchdog *watchdog, unsigned op)
{
	unsigned serial = atomic_load_explicit(&watchdog->serial, memory_order_relaxed);

	atomic_store_explicit(&watchdog->op, op, memory_order_relaxed);
	atomic_store_explicit(&watchdog->serial, serial + 1, memory_order_release);
}

static inline void watchdog_end(struct watchdog *watchdog)
{
	unsigned serial = atomic_load_explicit(&watchdog->serial, memory_order_relaxed);

	atomic_store_explicit(&watchdog->serial, serial + 1, memory_order_release);
}

/* Any thread: whether a call is under way. */
static inline bool watchdog_is_on(const struct watchdog *watchdog)
{
	return atomic_load_explicit(&watchdog->serial, memory_order_relaxed) & 1;
}

/*
 * Loop, every WATCHDOG_LOOK_MS: for how many milliseconds at least the worker has been in
 * the same call, which `ret_op' names. 0: the worker makes progress.
 */
static inline unsigned watchdog_check(struct watchdog *watchdog, unsigned *ret_op)
{
	unsigned serial = atomic_load_explicit(&watchdog->serial, memory_order_acquire);

	*ret_op = atomic_load_explicit(&watchdog->op, memory_order_relaxed);
	if (serial % 2 == 0 || serial != watchdog->seen) {
		watchdog->seen = serial;
		watchdog->n_seen = 0;
		return 0;
	}
	return ++watchdog->n_seen * WATCHDOG_LOOK_MS;
}

#endif
