/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_MOVE_H
#define LOG_MOVE_H

/*
 * Moves the text of a full log into another file, and empties the log. Programs that follow the
 * log (tail -f) have it open, so it stays the same file. The text moves in pieces, one with each
 * line that is written meanwhile, because the loop must not wait for a disk. Loop thread.
 */

#include "base.h"

/* Bytes of a piece. A line is much shorter, so a log grows little while its text moves. */
#define LOG_MOVE_PIECE (64u << 10)

struct log_move {
	bool is_active; /* else nothing moves, and the other members have no meaning */
	int from, to;
	off_t n_moved;
};

/*
 * Begins to move the text of `name', which is open as `log', to `old', whose previous text is
 * lost. Both are in the directory. 0 or -errno.
 */
int log_move_begin(
	struct log_move *move, int directory, const char *name, int log, const char *old);

/* Moves a piece. 1: all text has moved, and the log is empty; 0; -errno: nothing moves any more. */
int log_move_step(struct log_move *move);

/* The log keeps its text. */
void log_move_end(struct log_move *move);

#endif
