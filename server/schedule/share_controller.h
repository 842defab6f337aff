/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_CONTROLLER_H
#define SHARE_CONTROLLER_H

/*
 * Finds how many groups of SMs background work may use while a foreground works: the most with
 * which no foreground is slower by more than the target than beside background work on 30 % of the
 * groups. The background goes down to the floor only if that makes a foreground faster by a sixth.
 * One for each GPU.
 *
 * The controller makes experiments: short windows of two sizes in turn, until the difference of
 * the foregrounds' paces is certain. It compares windows that follow each other, because the pace
 * of the same program changes by a half within seconds; and it takes the median of differences,
 * because the pace jumps. There are two kinds:
 *
 *   a check   compares the present size with a reference: 30 %, or, every second time, the floor.
 *             If a foreground is too slow, a smaller size follows. Without certainty the size
 *             stays. Checks get rare while nothing changes.
 *   a try     compares a larger size with the present one: the next one, or after a success the
 *             one after that. A size that is too large is tried again after a back-off, which
 *             doubles. A large slowdown ends the try within a window.
 *
 * A new foreground, other work, and a foreground that suddenly gets slower bring a check soon.
 *
 * It has a fixed size and neither clock nor lock: times are parameters, and the caller holds a
 * lock of its own. Any values are safe; a time that goes back counts as the latest one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "share_window.h"

#define SHARE_SIZES_MAX 8u

struct share_bounds {
	unsigned n_groups;     /* groups of SMs into which the driver divides the GPU */
	unsigned floor_groups; /* the background never has fewer; at least 1 */
	unsigned target;       /* slowdown that is accepted, in thousandths */
};

enum share_phase {
	SHARE_STAYS,
	SHARE_CHECKS,
	SHARE_TRIES
};

/* A difference of paces, as the last measurements say. */
#define SHARE_DIFFERENCES_MAX 24u

struct share_difference {
	float values[SHARE_DIFFERENCES_MAX]; /* of measurement N at N modulo the size */
	unsigned n;
};

/* A size with which checks compare the present one, and the difference that is accepted. */
#define SHARE_REFERENCES_MAX 2u

struct share_reference {
	unsigned size; /* an index of sizes */
	float most;    /* as a pace */
};

/* What is known of each foreground. */
struct share_feeling {
	bool has_before, has_other;
	float before,
		other;   /* the last windows' paces: of the present size, and of the other one */
	float level;     /* of windows of the present size, on average */
	unsigned n_high; /* the last ones, if these were far above it */
	struct share_difference checks[SHARE_REFERENCES_MAX]; /* the present size less each */
	struct share_difference try; /* the size that is tried less the present one */
};

struct share_controller {
	struct share_bounds bounds;
	unsigned sizes[SHARE_SIZES_MAX], n_sizes;
	struct share_reference references[SHARE_REFERENCES_MAX];
	unsigned n_references, reference; /* the present one, or the next one */

	enum share_phase phase;
	unsigned good;               /* the present size, as an index of sizes */
	unsigned other;              /* the size with which an experiment compares it */
	unsigned at;                 /* one of both */
	unsigned stride;             /* from the present size to the one that is tried next */
	unsigned n_pairs, n_windows; /* of the experiment */
	uint64_t began_ns;           /* the experiment */
	uint64_t now_ns, noted_ns;   /* the latest time, and the last piece in a window */
	uint64_t check_ns, check_interval_ns, check_least_ns; /* when the next check is due */
	unsigned checks_done;                                 /* of the present size */
	uint64_t retry_ns[SHARE_SIZES_MAX];                   /* a size is not tried before */
	uint64_t back_off_ns[SHARE_SIZES_MAX];
	uint64_t checked_ns; /* when the last check began */
	uint64_t absent_ns;  /* since when there was no background work; 0: there is */
	uint64_t work_ns, work_interval_ns;      /* the last reaction to other work */
	unsigned n_checks, n_tries, n_too_large; /* for the trace and for tests */
	struct share_feeling feelings[SHARE_FOREGROUNDS_MAX];
	struct share_window window;
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
 * evidence is missing, the size that harmed no foreground last time, at first 80 % of the SMs.
 */
unsigned share_controller_groups(struct share_controller *controller, uint64_t now);

/*
 * How long that foreground's work takes at the present size, in thousandths of its time beside
 * background work on the smallest reference that it was compared with. 1000: as long; 0: not known,
 * or there is no background work.
 */
unsigned share_controller_slowdown(
	const struct share_controller *controller, uint32_t foreground, uint64_t now);

/*
 * The sizes among which a controller chooses, ascending. Returns how many. The groups leave some
 * SMs of most GPUs out (12 of 132): a size of n_groups is all groups, and n_groups + 1 all SMs.
 */
unsigned share_sizes(const struct share_bounds *bounds, unsigned sizes[SHARE_SIZES_MAX]);

#endif
