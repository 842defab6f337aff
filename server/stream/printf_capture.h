/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINTF_CAPTURE_H
#define PRINTF_CAPTURE_H

/*
 * What kernels print. The driver keeps it in one buffer a context and writes it
 * to standard output when somebody synchronises; there it is caught. Kernels
 * that can print take turns, client by client, so that it is known whose it is.
 */

#include "base.h"

struct session;
struct session_room;

/* A session's share. Its worker only, but for what printf_capture.c does under its lock. */
struct printf_capture {
	struct printf_capture *next; /* of the printers */
	char *bytes;                 /* printed and not yet taken */
	size_t n_bytes, size;
	bool is_printer; /* it has launched what can print, and all of that was not brought yet */
};

/* Puts a memory in the place of standard output, before CUDA is opened. 0 or -errno. */
int printf_capture_init(void);

/*
 * Before a launch of a kernel that can print: waits for its turn, as long as
 * another client's kernels that can have not ended, but not for ever.
 */
void printf_capture_begin(struct session *session);

/* Brings what the GPU keeps of the session's kernels that have ended. */
void printf_capture_flush(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room printf_capture_room;

#endif
