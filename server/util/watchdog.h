/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

/*
 * What a worker is at, for the loop to see: who does not come back from a call
 * can't say so, and may have the driver's lock, for which all others wait then.
 */

#include <stdatomic.h>
#include <stdbool.h>

/* How often the loop looks. */
#define WATCHDOG_LOOK_MS 5000

/* Instead of a message's number: the end of its session. */
#define WATCHDOG_CLEAN_UP 0u

/* Zero-initialised is at nothing. */
struct watchdog {
	/* The worker's. */
	atomic_uint serial; /* odd: it is at something */
	atomic_uint op;

	/* The loop's. */
	unsigned seen;   /* the serial of the last look */
	unsigned n_seen; /* looks that found it so */
};

/* Worker, around each message: plain stores, as nobody else writes. */
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

/*
 * Loop, every WATCHDOG_LOOK_MS: since how many milliseconds at least the worker has
 * been at the same thing, which `ret_op' names. 0: it gets on.
 */
unsigned watchdog_check(struct watchdog *watchdog, unsigned *ret_op);

#endif
