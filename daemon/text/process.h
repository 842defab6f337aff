/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESS_H
#define PROCESS_H

/*
 * Processes held by a pidfd, so that a signal never reaches another process
 * that has reused the PID. Any thread.
 */

#include <sys/types.h>

#include "base.h"

/* A pidfd. The caller owns it; or -errno. */
int process_open(pid_t pid);

/*
 * A pidfd of the process that connected to this socket. The caller owns it. -ESRCH: that process
 * has ended; -errno.
 */
int process_open_peer(int sock);

/* Whether the process of this pidfd has not ended. */
bool process_is_alive(int pidfd);

/*
 * The owner of the user namespace of that process, or of the outermost namespace around it that is
 * not the daemon's; 0: the process is in the daemon's namespace. -errno: that cannot be known.
 */
int process_namespace_owner(int pidfd, pid_t pid, uid_t *ret_uid);

/*
 * Whether the process of this pidfd is alive and all four of its user ids are
 * `uid': 0, -ESRCH, -EPERM or -errno.
 */
int process_check(int pidfd, pid_t pid, uid_t uid);

/* Whether there is a process with this PID now, and none of its user ids is `uid'. */
bool process_is_of_others(pid_t pid, uid_t uid);

/* Its start time, in clock ticks since boot: together with the PID it identifies the process. */
int process_start_time(pid_t pid, uint64_t *ret_ticks);

int process_signal(int pidfd, int number);

#endif
