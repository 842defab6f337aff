/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKGROUND_H
#define BACKGROUND_H

/*
 * The work that a background session has on a GPU which foreground sessions use, too. It has
 * BACKGROUND_DEPTH_NS of GPU time queued there at most, as estimated from the time that its last
 * kernels took, so that a share of the SMs (elastic.h) takes effect soon. Further launches stay in
 * the ring.
 *
 * Nothing is bounded if no foreground session has opened the GPU.
 *
 * The session's worker only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "clock.h"
#include "layout.h"

struct device;
struct session;
struct stream;

#define BACKGROUND_DEPTH_NS 1000000u

/* A kernel whose first end is seen late counts as no longer than this. */
#define BACKGROUND_FIRST_NS 100000u

/* Which SMs a launch uses. */
struct background_use {
	unsigned groups;  /* of the present share; more if the launch does not keep to the share */
	unsigned yielded; /* the session's SMs outside the share, in thousandths of the GPU */
};

struct queued_kernels {
	unsigned n;
	struct background_use use;
	uint64_t launched_ns;
};

/* A session's part. */
struct background {
	bool is_depth_ignored;       /* its queue did not move for long; until it does */
	unsigned groups;             /* groups of SMs that its next launches may use */
	uint64_t kernel_ns;          /* of a kernel on the GPU, on average; 0: not known */
	uint64_t n_watched, n_ended; /* launches; those between them are queued */
	unsigned n_kernels;          /* in these */
	uint64_t ended_ns;           /* when the last end was seen */
	uint64_t unfinished_ns;      /* when the oldest one was last seen unfinished */
	struct queued_kernels queue[BACKGROUND_QUEUED_MAX];
};

/*
 * Before `n' kernels (1 or more) of a background session go to the GPU of that stream: sleeps until
 * some may go, and chooses background::groups for them. Returns how many may go now, `least' to
 * `n'. A graph goes as a whole: `least' is `n'.
 */
unsigned background_wait(
	struct session *session, const struct stream *stream, unsigned least, unsigned n);

/* `n' kernels went to the GPU, in that stream. */
void background_note(
	struct session *session, struct stream *stream, unsigned n, struct background_use use);

/* Looks which launches have ended. */
void background_settle(struct session *session, uint64_t now);

/*
 * The same, again and again while the worker spins: the more looks, the better is the time of a
 * kernel known. A client that waits after several launches sends nothing meanwhile.
 */
static inline void background_watch(struct session *session, const struct background *own)
{
	if (unlikely(own->n_ended < own->n_watched))
		background_settle(session, now_ns());
}

#endif
