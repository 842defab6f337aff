/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_HISTORY_H
#define TOP_HISTORY_H

/*
 * The last minute of one value between 0 and 1, a cell for each second, and its graph. Samples
 * may come at any interval. Any thread.
 */

#include "base.h"

#define TOP_HISTORY_S 60

/* All zero: nothing is known. */
struct top_history {
	uint64_t end_s; /* the second of the newest cell */
	struct top_second {
		float sum;        /* the value times the time for which it is known, in seconds */
		float known;      /* that time */
	} seconds[TOP_HISTORY_S]; /* of second S at S modulo TOP_HISTORY_S */
};

/* The value was `value' from one time to another, which is later and not before earlier calls. */
void top_history_add(struct top_history *history, uint64_t from_ns, uint64_t to_ns, double value);

/* What a part of the minute says: a level of the graph. */
enum {
	TOP_LEVEL_UNKNOWN = -1,
	TOP_LEVELS = 8, /* 0 to 7 */
};

/*
 * The level of part `part' of `n_parts', which divide the minute that ends at `now_ns'; the last
 * part is the newest. `n_parts' is at most TOP_HISTORY_S.
 */
int top_history_level(
	const struct top_history *history, uint64_t now_ns, unsigned part, unsigned n_parts);

/* The graph's character for a level, as UTF-8 or as ASCII. One column wide. */
const char *top_history_glyph(int level, bool is_utf8);

#endif
