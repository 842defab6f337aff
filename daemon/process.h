/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESS_H
#define PROCESS_H

/*
 * Processes held by a descriptor, so that a signal never meets another one
 * that has got the same number since. Loop thread.
 */

#include <sys/types.h>

#include "base.h"

/* A pidfd of a child that has not been reaped. The caller owns it; or -errno. */
int process_open_child(pid_t pid);

/*
 * A pidfd of somebody else's process, if it lives and all its user ids are
 * `uid'. -EPERM if they are not. (A socket's credentials alone do not tell:
 * who connected may have ended and its number be another's.)
 */
int process_open(pid_t pid, uid_t uid);

int process_signal(int pidfd, int number);

/*
 * The reading end of the pipe that is the standard error of a process whose
 * reader has died, non-blocking and open for nobody else. The caller owns it;
 * or -errno.
 */
int process_open_output(pid_t pid);

#endif
