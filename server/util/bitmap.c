/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Searches and fills bitmaps. Any thread; no state.
 *
 * Invariant: bits beyond a bitmap's size are never touched.
 */

#include "bitmap.h"

void bitmap_fill(uint64_t *words, uint32_t first, uint32_t n, bool value)
{
	uint32_t i = first, end = first + n;

	while (i < end) {
		if (i % 64 == 0 && end - i >= 64) {
			words[i / 64] = value ? UINT64_MAX : 0;
			i += 64;
		} else {
			bit_set(words, i++, value);
		}
	}
}

int64_t bitmap_find_clear(const uint64_t *words, uint32_t n_bits, uint32_t n)
{
	uint32_t i = 0, run = 0;

	while (i < n_bits && run < n) {
		bool is_whole = i % 64 == 0 && n_bits - i >= 64;

		if (is_whole && words[i / 64] == 0) {
			run += 64;
			i += 64;
		} else if (is_whole && words[i / 64] == UINT64_MAX) {
			run = 0;
			i += 64;
		} else {
			run = bit_get(words, i) ? 0 : run + 1;
			i++;
		}
	}
	return run >= n ? (int64_t)i - run : -ENOSPC;
}
