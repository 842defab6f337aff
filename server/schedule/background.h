/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKGROUND_H
#define BACKGROUND_H

/*
 * Background clients (priority 2) go last. While a client with a higher priority has work on a
 * GPU, or had some a moment ago, a background client may have BACKGROUND_SHALLOW_NS of GPU time
 * queued there, as estimated from the time that its last kernels took. Further launches are
 * delayed: they stay in the ring until the others pause, or until MPS_BACKGROUND_DELAY_US have
 * passed. After a delay that ended in this way, no further one begins for BACKGROUND_RUN_NS, so
 * that no client starves. Otherwise, a background client may have BACKGROUND_DEPTH_NS queued.
 *
 * Nothing is delayed if no other client has opened the GPU, or with MPS_BACKGROUND_DELAY_US=0.
 *
 * The session's worker only, unless a function says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "clock.h"
#include "layout.h"

struct session;
struct stream;

#define BACKGROUND_RUN_NS 1000000u
#define BACKGROUND_DEPTH_NS 1000000u

/*
 * Programs that launch small kernels one by one have less queued, and disturb others little
 * (docs/performance.md). So they run at their speed.
 */
#define BACKGROUND_SHALLOW_NS 100000u

struct queued_kernels {
	unsigned n;
	uint64_t launched_ns;
};

/* A session's part. */
struct background {
	struct session *session;
	struct background *next; /* in the list of sessions that go first, under its lock */
	bool goes_first;         /* is in that list */

	/* Of a background client. */
	uint64_t others_at_work_ns;  /* when others were last seen at work; 0: never */
	uint64_t runs_until_ns;      /* no delay begins before */
	bool is_depth_ignored;       /* its queue did not move for long; until it does */
	uint64_t kernel_ns;          /* of a kernel on the GPU, on average; 0: not known */
	uint64_t n_watched, n_ended; /* launches; those between them are queued */
	unsigned n_kernels;          /* in these */
	uint64_t ended_ns;           /* when the last end was seen */
	uint64_t unfinished_ns;      /* when the oldest one was last seen unfinished */
	struct queued_kernels queue[BACKGROUND_QUEUED_MAX];
};

/* Reads MPS_BACKGROUND_DELAY_US, before the first session. */
void background_init(void);

/*
 * Before `n' kernels (1 or more) go to the GPU of that stream: sleeps as long as the session
 * has to wait. Returns how many may go now, 1 to n.
 */
unsigned background_wait(struct session *session, const struct stream *stream, unsigned n);

/* The same before a graph of `n' nodes, which goes as a whole. */
void background_wait_graph(struct session *session, const struct stream *stream, unsigned n);

/* `n' kernels went to the GPU, in that stream. */
void background_note(struct session *session, struct stream *stream, unsigned n);

/* Looks which launches have ended. */
void background_settle(struct background *own, uint64_t now);

/*
 * The same, again and again while the worker spins: the more looks, the better is the time of a
 * kernel known. A client that waits after several launches sends nothing meanwhile.
 */
static inline void background_watch(struct background *own)
{
	if (unlikely(own->n_ended < own->n_watched))
		background_settle(own, now_ns());
}

#endif
