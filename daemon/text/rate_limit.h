/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RATE_LIMIT_H
#define RATE_LIMIT_H

/*
 * A token bucket, which limits how often something may happen. It refills with
 * time, and starts full when zero-initialised. Any thread.
 */

#include "base.h"

struct rate_limit {
	uint64_t spent;   /* in thousandths */
	uint64_t seen_ms; /* when `spent' was computed */
};

/* Takes a token if one is left: at most `size', and `per_s' more each second. */
bool rate_limit_take(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

/* The number of tokens left; `size': equal to a new limit. */
unsigned rate_limit_left(struct rate_limit *limit, uint64_t now_ms, unsigned size, unsigned per_s);

#endif
