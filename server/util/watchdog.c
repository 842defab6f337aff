/* SPDX-License-Identifier: Apache-2.0 */

#include "watchdog.h"

unsigned watchdog_check(struct watchdog *watchdog, unsigned *ret_op)
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
