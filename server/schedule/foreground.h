/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FOREGROUND_H
#define FOREGROUND_H

/*
 * What a foreground session feels beside background sessions: how long pieces of its work take. A
 * piece is what the session launches into one stream between two seqnos of that stream: a request,
 * or an iteration. It begins with its first launch, or when the piece before it ends, and ends when
 * the GPU has written its seqno.
 *
 * The worker looks for the end while it spins, and whenever the session launches. A piece whose end
 * was seen late does not count.
 *
 * The session's worker only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "classes.h"
#include "clock.h"
#include "layout.h"

struct device;
struct stream;

#define FOREGROUND_PIECES_MAX 8u

struct piece_of_work {
	const struct device *device; /* NULL: no launch yet */
	uint32_t stream;
	uint64_t work; /* hash of the kernels and their grids */
	uint64_t begin_ns;
	uint64_t seqno;
	struct background_work beside; /* at its begin */
};

/* A session's part. */
struct foreground {
	struct piece_of_work open;                          /* its seqno is to come */
	struct piece_of_work pieces[FOREGROUND_PIECES_MAX]; /* without an end yet */
	unsigned n_closed, n_ended;                         /* pieces; the others wait */
	uint64_t ended_ns;                                  /* the last end of a piece */
	uint64_t unfinished_ns; /* when the oldest piece was last seen unfinished */
};

/*
 * Adds a kernel and the grid of a launch to a number for foreground_note(). Work with equal numbers
 * is taken for equal work, nothing worse.
 */
uint64_t foreground_hash(uint64_t hash, uint64_t kernel, const uint32_t grid[3]);

/* Work went to the GPU of that stream. Beside background sessions only. */
void foreground_note(struct session *session, const struct stream *stream, uint64_t work);

/* The seqno went to the GPU, behind the work of that stream. */
void foreground_close(struct session *session, uint32_t stream, uint64_t seqno);

/* Looks which pieces have ended. */
void foreground_look(struct session *session, uint64_t now);

/* Whether the end of a piece is to come. */
static inline bool foreground_is_waiting(const struct foreground *own)
{
	return unlikely(own->n_ended != own->n_closed);
}

/* The same as foreground_look(), again and again while the worker spins. */
static inline void foreground_watch(struct session *session, const struct foreground *own)
{
	if (foreground_is_waiting(own))
		foreground_look(session, now_ns());
}

#endif
