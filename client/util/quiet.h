/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUIET_H
#define QUIET_H

/*
 * Between begin and end, system calls of this thread send the program no signal: SIGPIPE, for a
 * write to a pipe without a reader, and SIGXFSZ, for a file beyond RLIMIT_FSIZE, would end it.
 * The calls fail instead. Any thread. Keeps errno.
 */

#include <signal.h>

struct quiet {
	sigset_t before, pending;
};

void quiet_begin(struct quiet *quiet);
void quiet_end(struct quiet *quiet);

#endif
