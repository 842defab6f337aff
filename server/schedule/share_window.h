/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_WINDOW_H
#define SHARE_WINDOW_H

/*
 * How fast each foreground was in a window of time, relative to its own pace before. Windows can
 * be compared although the foregrounds do different work in them: each piece of work is compared
 * with the usual time of equal work. The pace of work drifts, with clocks and with processors, so
 * only windows that follow each other should be compared.
 *
 * Paces are numbers that add up as logarithms do: share_pace(2) is that of work that takes twice
 * as long as usual, and is -share_pace(0.5). They lie between -2 and 2, so that no piece counts
 * more than a few others.
 *
 * Any values are safe. The caller's thread, under the caller's lock.
 */

#include <stdbool.h>
#include <stdint.h>

#define SHARE_WORKS_MAX 64u
#define SHARE_FOREGROUNDS_MAX 16u

/* The usual time of equal pieces of work. */
struct share_usual {
	float ns;
	uint32_t n;          /* pieces, up to a bound */
	uint32_t n_outliers; /* the last pieces, if these are far from the usual time */
};

struct share_work {
	uint64_t work;
	uint32_t foreground;
	float busy_ns;    /* the time that it took lately */
	uint64_t born_ns; /* the end of the first piece; 0: none */
	struct share_usual usual;
};

struct share_foreground {
	uint32_t id;
	uint64_t noted_ns;         /* the last piece's end; 0: none */
	struct share_usual others; /* pieces of work that is not known */
	/* Of the present window: the sum of paces, weighted by time. */
	float weight_ns, sum, least; /* the least is of one piece */
	unsigned n;
};

struct share_window {
	struct share_work works[SHARE_WORKS_MAX];
	struct share_foreground foregrounds[SHARE_FOREGROUNDS_MAX];
	uint64_t began_ns; /* the first piece's end; 0: none yet */
	unsigned n;        /* pieces */
	uint64_t decayed_ns;
	unsigned last; /* the work that was noted last: often the next one */
};

/* Ratios of times as numbers that add up, and back. */
static inline float share_pace(float ratio)
{
	return 2 * (ratio - 1) / (ratio + 1);
}

static inline float share_ratio(float pace)
{
	return pace < 1.99f ? (2 + pace) / (2 - pace) : 399;
}

void share_window_begin(struct share_window *window);

/*
 * A piece of work has ended, after `ns'. It counts in the window if `is_in'. Returns the index of
 * its foreground. *ret_is_new: that was not known before, and replaces any other with this index.
 */
unsigned share_window_note(struct share_window *window, uint32_t foreground, uint64_t work,
	float ns, bool is_in, uint64_t now, bool *ret_is_new);

/* Whether the window is long enough. */
bool share_window_is_over(const struct share_window *window, uint64_t now);

/* Whether the pace of that foreground is known, and which it is. */
bool share_window_pace(const struct share_window *window, unsigned index, float *ret_pace);

/* Whether most of the work lately was not known at that time. */
bool share_window_is_new_work(const struct share_window *window, uint64_t since_ns);

#endif
