/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESS_H
#define PROCESS_H

/*
 * Processes held by a descriptor, so that a signal never meets another one
 * that has got the same number since. Loop thread.
 */

#include <sys/types.h>

#include "base.h"

/* A pidfd. The caller owns it; or -errno. */
int process_open(pid_t pid);

/*
 * Whether the process of this pidfd lives and all four of its user ids are
 * `uid': 0, -ESRCH, -EPERM or -errno.
 */
int process_check(int pidfd, pid_t pid, uid_t uid);

/* When it was started, in clock ticks since boot: with its PID this names it for good. */
int process_start_time(pid_t pid, uint64_t *ret_ticks);

int process_signal(int pidfd, int number);

#endif
