/* SPDX-License-Identifier: Apache-2.0 */

#include "watchdog.h"

unsigned watchdog_check(struct watchdog *stall, unsigned *ret_op)
{
	unsigned serial = atomic_load_explicit(&stall->serial, memory_order_acquire);

	*ret_op = atomic_load_explicit(&stall->op, memory_order_relaxed);
	if (serial % 2 == 0 || serial != stall->seen) {
		stall->seen = serial;
		stall->n_seen = 0;
		return 0;
	}
	return ++stall->n_seen * WATCHDOG_LOOK_MS;
}
