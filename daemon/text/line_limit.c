/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of lines. Any thread.
 *
 * Invariant: each dropped line is counted in exactly one report.
 */

#include "line_limit.h"

/*
 * A flood is over after QUIET_MS without a dropped line; a longer flood is
 * reported every FLOOD_MS.
 */
#define QUIET_MS 1000
#define FLOOD_MS 10000

int line_limit_take(struct line_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s)
{
	if (rate_limit_take(&limit->rate, now_ms, size, per_s))
		return LINE_WRITTEN;
	limit->last_ms = now_ms;
	if (limit->n_dropped++ > 0)
		return LINE_DROPPED;
	limit->first_ms = now_ms;
	return LINE_FIRST_DROPPED;
}

unsigned long line_limit_report(struct line_limit *limit, uint64_t now_ms)
{
	unsigned long n = limit->n_dropped;

	if (now_ms - limit->last_ms < QUIET_MS && now_ms - limit->first_ms < FLOOD_MS)
		return 0;
	limit->n_dropped = 0;
	return n;
}
