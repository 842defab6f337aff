/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RATE_LIMIT_H
#define RATE_LIMIT_H

/*
 * A limit of how often something may happen: a store that is used up and
 * fills again with time. Starts full when zero-initialised. Any thread.
 */

#include "base.h"

struct rate_limit {
	uint64_t spent;   /* in thousandths */
	uint64_t seen_ms; /* when `spent' was right */
};

/* Takes one, if one is there: `size' at most, `per_s' more each second. */
bool rate_limit_take(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

/* How many could be taken now; `size': a new one would be the same. */
unsigned rate_limit_left(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

#endif
