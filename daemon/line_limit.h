/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINE_LIMIT_H
#define LINE_LIMIT_H

/*
 * How many lines of a log somebody may cause, and how many more there were,
 * which is told when the flood is over or has lasted for a while. Starts with
 * the whole allowance when zero-initialised. Any thread.
 */

#include "rate_limit.h"

struct line_limit {
	struct rate_limit rate;
	unsigned long n_dropped; /* since that was told */
	uint64_t first_ms, last_ms;
};

/* What line_limit_take() can say. */
enum {
	LINE_DROPPED,
	LINE_WRITTEN,
	LINE_FIRST_DROPPED, /* ... of a flood: that it begins can be told */
};

int line_limit_take(struct line_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

/* The number of lines to tell of now, which is forgotten; 0: none, or not yet. */
unsigned long line_limit_report(struct line_limit *limit, uint64_t now_ms);

#endif
