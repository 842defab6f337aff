/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of frequency. Any thread.
 *
 * Invariant: `spent' is never more than the size.
 */

#include "rate_limit.h"

unsigned bucket_left(struct bucket *bucket, uint64_t now_ms, unsigned size, unsigned per_s)
{
	uint64_t most = (uint64_t)size * 1000;
	uint64_t passed_ms = now_ms - bucket->seen_ms;
	/* After so long it is full; more could overflow. */
	uint64_t refill = passed_ms > most ? most : passed_ms * per_s;

	bucket->seen_ms = now_ms;
	bucket->spent -= MIN(bucket->spent, refill);
	return (unsigned)((most - bucket->spent) / 1000);
}

bool bucket_take(struct bucket *bucket, uint64_t now_ms, unsigned size, unsigned per_s)
{
	if (bucket_left(bucket, now_ms, size, per_s) == 0)
		return false;
	bucket->spent += 1000;
	return true;
}
