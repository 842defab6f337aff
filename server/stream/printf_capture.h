/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINTF_CAPTURE_H
#define PRINTF_CAPTURE_H

/*
 * What kernels print. The driver keeps the text in one buffer per context and writes it to
 * standard output at a synchronisation, where the server captures it.
 *
 * A session has a turn while work that can print is on the GPU. The server knows whose text it
 * captures if one session only has a turn. Most kernels that can print do so only before an
 * assertion fails, so a kernel (or a graph) that was silent for SILENT_TURNS turns shares its
 * turn with other such kernels: then text of one of several sessions goes to the log, and ends
 * the silence. Any other kernel gets a turn for its session alone.
 */

#include "base.h"

struct session;

#define SILENT_TURNS 8

/* Of a kernel or graph that can print; zero at first. Its session's worker only. */
struct print_history {
	uint64_t turn;     /* the last turn in which it was launched */
	unsigned n_silent; /* turns in a row, before that one, without text */
};

/* A session's share. Its worker only, except for what printf_capture.c does under its lock. */
struct printf_capture {
	struct printf_capture *next; /* in the list of printers */
	struct session *session;
	char *bytes; /* printed and not yet taken */
	size_t n_bytes, size;
	uint64_t turn;      /* counts the session's turns */
	uint64_t text_turn; /* the last one in which it may have printed */
	bool is_printer;    /* it has a turn: not all output of its kernels was captured yet */
	bool is_alone;      /* the turn is for this session alone, if others ended in time */
};

/* Replaces standard output with a memory file, before CUDA is opened. 0 or -errno. */
int printf_capture_init(void);

/*
 * Before a launch of something that can print: begins a turn, or continues the session's. False:
 * the turns of others forbid it, and printf_capture_wait() must follow.
 */
bool printf_capture_begin(struct session *session, struct print_history *history);

/*
 * Waits for the turn, for a bounded time. It may find streams at rest: so it comes before
 * stream_begin(), and after all launches of the session have gone to the driver.
 */
void printf_capture_wait(struct session *session, struct print_history *history);

/* Captures the output of the session's kernels that have ended. */
void printf_capture_flush(struct session *session);

#endif
