/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUCKET_H
#define BUCKET_H

/*
 * A limit of how often something may happen: a store that is used up and
 * fills again with time. Starts full when zero-initialised. Any thread.
 */

#include "base.h"

struct bucket {
	uint64_t spent;   /* in thousandths */
	uint64_t seen_ms; /* when `spent' was right */
};

/* Takes one, if one is there: `size' at most, `per_s' more each second. */
bool bucket_take(struct bucket *bucket, uint64_t now_ms, unsigned size, unsigned per_s);

/* How many could be taken now; `size': a new one would be the same. */
unsigned bucket_left(struct bucket *bucket, uint64_t now_ms, unsigned size, unsigned per_s);

#endif
