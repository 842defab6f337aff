/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_CONTROLLER_H
#define SHARE_CONTROLLER_H

/*
 * Finds how many groups of SMs background work may use while a foreground works: the most with
 * which no foreground is slower than alone by more than the target. One for each GPU.
 *
 * The controller compares the times of equal work: alone, and beside background work on a share
 * of the GPU. It leaves a size as soon as the times show that a foreground is too slow, and tries
 * the next larger one after a quiet time. A size that was too large is tried again after a
 * back-off, which doubles. If work was not alone lately, the controller measures it beside
 * background work on the floor, for some milliseconds in some seconds.
 *
 * It has a fixed size and neither clock nor lock: times are parameters, and the caller holds a
 * lock of its own. Any values are safe; a time that goes back counts as the latest one.
 */

#include <stdbool.h>
#include <stdint.h>

#define SHARE_SIZES_MAX 8u
#define SHARE_WORKS_MAX 64u
#define SHARE_FOREGROUNDS_MAX 16u

struct share_bounds {
	unsigned n_groups;     /* groups of SMs of the GPU */
	unsigned floor_groups; /* the background never has fewer; at least 1 */
	unsigned target;       /* slowdown that is accepted, in thousandths */
};

/* The time of some work, from pieces of that work. */
struct share_time {
	float mean_ns, variance; /* without outliers; the variance is relative to the mean */
	uint32_t n;              /* pieces; 0: not known */
	uint32_t n_outliers;     /* the last ones in turn */
	uint64_t noted_ns;       /* the last piece's end */
};

struct share_work {
	uint64_t work;
	uint32_t foreground;
	float busy_ns;    /* the time that it took lately; the weight of this work */
	uint64_t born_ns; /* the first piece's end */
	struct share_time alone, beside[SHARE_SIZES_MAX];
};

enum share_phase {
	SHARE_STAYS,
	SHARE_TRIES,   /* a larger size than the last good one */
	SHARE_MEASURES /* the time of work on the floor */
};

struct share_controller {
	struct share_bounds bounds;
	unsigned sizes[SHARE_SIZES_MAX], n_sizes;

	enum share_phase phase;
	unsigned at, good;            /* indexes of sizes: the present one, the last good one */
	uint64_t now_ns, since_ns;    /* the latest time, and that of the last change of size */
	uint64_t busy_ns;             /* of pieces since then, at the present size */
	uint64_t noted_ns, judged_ns; /* the last one of these pieces, the last judgement */
	uint64_t retry_ns[SHARE_SIZES_MAX]; /* a size is not tried before */
	uint64_t back_off_ns[SHARE_SIZES_MAX];
	uint64_t measure_ns, measure_back_off_ns; /* no measurement on the floor before */
	uint64_t reset_ns;                        /* back-offs are of work since then */
	uint64_t decayed_ns;
	unsigned n_tries, n_measurements, n_too_large; /* for the trace and for tests */
	struct share_work works[SHARE_WORKS_MAX];
};

void share_controller_init(struct share_controller *controller, const struct share_bounds *bounds);

/*
 * A piece of a foreground's work has ended. `foreground' tells sessions apart; `work' says which
 * work it was: equal values are equal work. It took `ns'. Background work could use `groups'
 * groups of SMs all that time; 0: none was on the GPU. A piece during which that changed is not
 * noted.
 */
void share_controller_note(struct share_controller *controller, uint32_t foreground, uint64_t work,
	uint64_t ns, unsigned groups, uint64_t now);

/*
 * Groups of SMs for the background while a foreground is at work: one of the sizes. Where
 * evidence is missing, the size that harmed no foreground last time, at first 80 %.
 */
unsigned share_controller_groups(struct share_controller *controller, uint64_t now);

/*
 * The worst foreground's slowdown at the present share, in thousandths of its time alone, or on
 * the floor if it was never alone. 1000: none; 0: not known.
 */
unsigned share_controller_slowdown(const struct share_controller *controller);

/* The sizes among which a controller chooses, ascending. Returns how many. */
unsigned share_sizes(const struct share_bounds *bounds, unsigned sizes[SHARE_SIZES_MAX]);

#endif
