/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINE_LIMIT_H
#define LINE_LIMIT_H

/*
 * Limits how many lines a user may cause in a log, and counts the dropped
 * lines, which are reported when the flood is over or has lasted for a while.
 * Starts with the whole allowance when zero-initialised. Any thread.
 */

#include "rate_limit.h"

struct line_limit {
	struct rate_limit rate;
	unsigned long n_dropped; /* since the last report */
	uint64_t first_ms, last_ms;
};

/* Results of line_limit_take(). */
enum {
	LINE_DROPPED,
	LINE_WRITTEN,
	LINE_FIRST_DROPPED, /* the first dropped line of a flood, which can be reported */
};

int line_limit_take(struct line_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

/* The number of dropped lines to report now, which is reset; 0: none, or not yet. */
unsigned long line_limit_report(struct line_limit *limit, uint64_t now_ms);

#endif
