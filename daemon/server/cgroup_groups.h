/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGROUP_GROUPS_H
#define CGROUP_GROUPS_H

/*
 * Each cgroup with a limit of GPU memory (dmem.h) is a group that the daemon makes, of the clients
 * in the cgroup and below it, for as long as there are any. Loop thread.
 *
 * The files are read when a client comes, and each second while the group exists. A cgroup without
 * a limit when its client comes gets no group for that client.
 */

#include <sys/types.h>

#include "base.h"
#include "bounds.h"

struct conn;
struct daemon;

/*
 * Sets conn::cgroups, the nearest one first. False: the client has been refused, which closes its
 * connection.
 */
bool cgroup_groups_join(struct conn *conn);

/* The same for a process that an earlier daemon has handed to a server, as far as there are any. */
void cgroup_groups_join_process(
	struct daemon *daemon, pid_t pid, uint32_t cgroups[CGROUP_LEVELS_MAX]);

#endif
