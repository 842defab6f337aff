/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rate limits. Any thread.
 *
 * Invariant: `spent' never exceeds the size.
 */

#include "rate_limit.h"

unsigned rate_limit_left(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s)
{
	uint64_t most = (uint64_t)size * 1000;
	uint64_t passed_ms = now_ms - limit->seen_ms;
	/* The limit is full after this time; a larger product could overflow. */
	uint64_t refill = passed_ms > most ? most : passed_ms * per_s;

	limit->seen_ms = now_ms;
	limit->spent -= MIN(limit->spent, refill);
	return (unsigned)((most - limit->spent) / 1000);
}

bool rate_limit_take(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s)
{
	if (rate_limit_left(limit, now_ms, size, per_s) == 0)
		return false;
	limit->spent += 1000;
	return true;
}
