/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINTF_CAPTURE_H
#define PRINTF_CAPTURE_H

/*
 * What kernels print. The driver keeps the text in one buffer per context and writes it to
 * standard output at a synchronisation, where the server captures it. Clients with kernels
 * that can print take turns, so that the server knows whose text it is.
 */

#include "base.h"

struct session;
struct session_room;

/* A session's share. Its worker only, except for what printf_capture.c does under its lock. */
struct printf_capture {
	struct printf_capture *next; /* in the list of printers */
	struct session *session;
	char *bytes; /* printed and not yet taken */
	size_t n_bytes, size;
	bool is_printer; /* not all output of its kernels was captured yet */
};

/* Replaces standard output with a memory file, before CUDA is opened. 0 or -errno. */
int printf_capture_init(void);

/*
 * Before a launch of a kernel that can print: waits until other clients' kernels that can
 * print have ended, for a bounded time.
 */
void printf_capture_begin(struct session *session);

/* Captures the output of the session's kernels that have ended. */
void printf_capture_flush(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room printf_capture_room;

#endif
