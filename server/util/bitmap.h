/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BITMAP_H
#define BITMAP_H

/*
 * A bitmap: a set bit is taken. The owner of the bitmap keeps its size.
 */

#include "base.h"

#define BITS_WORDS(n) (((n) + 63u) / 64u)

static inline bool bit_get(const uint64_t *words, uint32_t i)
{
	return words[i / 64] >> (i % 64) & 1;
}

static inline void bit_set(uint64_t *words, uint32_t i, bool value)
{
	uint64_t mask = 1ull << (i % 64);

	words[i / 64] = value ? words[i / 64] | mask : words[i / 64] & ~mask;
}

/* Sets or clears `n' bits from `first'. */
void bitmap_fill(uint64_t *words, uint32_t first, uint32_t n, bool value);

/* Finds the first run of `n' clear bits among `n_bits'. Returns its position, or -ENOSPC. */
int64_t bitmap_find_clear(const uint64_t *words, uint32_t n_bits, uint32_t n);

#endif
